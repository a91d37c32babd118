//! [`until_stalled`]: a client that gives a stream of HTTP/2 no window loses the stream.
//!
//! A stream is one task. hyper asks a body for a frame, waits until the client's window has room for
//! it, and asks again. So a body that handed out a frame, and was not asked again when the task
//! pauses, waits for the client. The body says what it did by [`ResponsePoll`], in a cell of the thread:
//! task and body are polled in one call, so this costs no lock and no atomic operation.
//!
//! A window that is smaller than a frame takes the whole frame, and the next one waits. When the last
//! frame is taken, the task ends, and the rest is with the connection, which ends when it is idle.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::timer::StallTimer;

/// What the body of a response did while its task was polled.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct ResponsePoll {
    /// Bytes that it handed out.
    bytes: u64,
    /// The last frame was handed out, so the body waits to be asked again.
    waits_for_client: bool,
}

thread_local! {
    static RESPONSE_POLL: Cell<Option<ResponsePoll>> = const { Cell::new(None) };
}

impl ResponsePoll {
    /// A body was asked, and handed out this number of bytes; `None` if it had no frame.
    pub(in crate::serve) fn note(handed_out: Option<u64>) {
        let earlier = RESPONSE_POLL.get().map_or(0, |poll| poll.bytes);
        let bytes = earlier + handed_out.unwrap_or(0);
        RESPONSE_POLL.set(Some(Self { bytes, waits_for_client: handed_out.is_some() }));
    }
}

/// Runs the task of a stream until it ends, or until the client took too little of its response for this
/// time. Returns whether the task has ended.
///
/// CANCEL: dropping the future drops the task, which resets the stream.
pub(in crate::serve) async fn until_stalled(
    task: impl Future<Output: Send>,
    stall_time_max: Duration,
) -> bool {
    let mut task = pin!(task);
    let mut timer = StallTimer::new(stall_time_max);
    let mut waits_for_client = false;
    poll_fn(|cx| {
        RESPONSE_POLL.set(None);
        if task.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        if let Some(poll) = RESPONSE_POLL.take() {
            timer.moved(poll.bytes);
            waits_for_client = poll.waits_for_client;
        }
        if waits_for_client { timer.poll_stalled(cx).map(|()| false) } else { Poll::Pending }
    })
    .await
}
