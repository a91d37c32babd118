//! What a cache answers: any status, any messages, cut anywhere. Whatever it is, calls end, what
//! they give keeps to what was asked for, and what they say of it can be shown on a terminal.
//!
//! | file | idea |
//! |---|---|
//! | `answer` | one answer: its status, its frames, its end |
//! | `message` | the messages in it, as their types have them or nearly so |
//! | `capabilities` | what the cache says that it can do |
//! | `blobs` | the blobs that are asked for |
//! | `server` | gives the answers, in their order |
//! | `call` | what is asked, and what holds whatever is answered |
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
    /// Else one that can do everything.
    pub(crate) capabilities: Option<Answer>,
    pub(crate) calls: Vec<(Call, Answer)>,
}

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
}

fuzz_target!(|input: Input| BED.with_borrow(|bed| bed.run(&input)));
