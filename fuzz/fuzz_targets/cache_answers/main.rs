//! Responses of a cache: any status, any messages, cut anywhere. For every response, calls end,
//! their results match the request, and their error messages are safe to print on a terminal.
//!
//! | file | idea |
//! |---|---|
//! | `answer` | one response: its status, its frames, its end |
//! | `message` | the messages of a response: valid, nearly valid, or arbitrary bytes |
//! | `capabilities` | the capabilities that the cache reports |
//! | `blobs` | the requested blobs |
//! | `server` | sends the responses in order |
//! | `call` | the calls, and what must hold after each |
//! | `bed` | one run |

#![no_main]

mod answer;
mod bed;
mod blobs;
mod call;
mod capabilities;
mod message;
mod server;

use std::cell::RefCell;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

use crate::answer::Answer;
use crate::bed::Bed;
use crate::call::Call;

#[derive(Arbitrary, Debug)]
pub(crate) struct Input {
    pub(crate) compression: u8,
    /// The response to `GetCapabilities`. `None`: the cache supports everything.
    pub(crate) capabilities: Option<Answer>,
    pub(crate) calls: Vec<(Call, Answer)>,
}

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
}

fuzz_target!(|input: Input| BED.with_borrow(|bed| bed.run(&input)));
