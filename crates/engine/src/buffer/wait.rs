//! [`WaitFor`]: a task's wait for a range to be written.
//!
//! Invariant: the table has an entry for the task only while the future is pending.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::error::BufferError;
use super::shared::Shared;
use super::sync::Arc;

/// Completes when every byte of a range has been written, or can never be written. The task is
/// woken once, when the wait ends. Dropping the future ends the wait.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct WaitFor {
    shared: Arc<Shared>,
    range: Range<u64>,
    id: Option<u64>,
}

impl WaitFor {
    pub(super) fn new(shared: Arc<Shared>, range: Range<u64>) -> Self {
        Self { shared, range, id: None }
    }
}

impl Future for WaitFor {
    type Output = Result<(), BufferError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Range { start, end } = this.range;
        if start > end {
            return Poll::Ready(Err(BufferError::Reversed { start, end }));
        }
        let limit_bytes = this.shared.memory().limit_bytes();
        if end > limit_bytes {
            return Poll::Ready(Err(BufferError::BeyondLimit { end, limit_bytes }));
        }
        let mut waker = Some(cx.waker().clone());
        let outcome = this.shared.look(|state| state.wait(&mut this.id, &this.range, &mut waker));
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for WaitFor {
    fn drop(&mut self) {
        if self.id.is_some() {
            drop(self.shared.look(|state| state.forget(&mut self.id)));
        }
    }
}
