//! Clients that stall: what they hold is released by time, not only by their end.
//!
//! | file | idea |
//! |---|---|
//! | `timer` | [`StallTimer`]: the least progress of a client in a time |
//! | `stream` | [`until_stalled`]: a client that gives a stream of HTTP/2 no window loses the stream |
//!
//! The body of a request watches itself (`observe::RequestBody`), because a handler that waits for the
//! client polls it. The body of a response cannot: hyper does not poll it while the stream has no
//! window, or while the socket is full. So the socket (`gather`) and the task of the stream are watched
//! instead.
//!
//! Only waits for the client count. A response that waits for the disk or for memory never stalls.

mod stream;
mod timer;

pub(super) use self::stream::{ResponsePoll, until_stalled};
pub(super) use self::timer::{PROGRESS_BYTES_MIN, StallTimer};
