//! [`Room`]: the buffers of one thread, and the budget's permit for them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio_util::sync::CancellationToken;

use crate::budget::{Budget, BytesPermit};

/// The size of one read in order. It is large enough that a system call costs little. It is small
/// enough that the bytes are still in the core's own cache when they are hashed.
const BUFFER_BYTES: usize = 256 << 10;

/// The smallest size of the buffers, even if the budget is smaller.
const ROOM_BYTES_MIN: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Room {
    /// For reads in order.
    pub(super) buffer: Vec<u8>,
    /// For the chunks in `lanes`.
    pub(super) slots: Vec<u8>,
    _permit: BytesPermit,
}

impl Room {
    /// Waits for the budget. Blocks the thread, which has no other work. Returns `None` if `cancel`
    /// comes first.
    pub(super) fn wait(
        budget: &Budget,
        slots_bytes: usize,
        cancel: &CancellationToken,
    ) -> Option<Self> {
        let wanted = BUFFER_BYTES + slots_bytes;
        let permit = wait(async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                permit = budget.bytes(wanted as u64) => Some(permit),
            }
        })?;
        // A budget smaller than `wanted` grants all that it has.
        let len = usize::try_from(permit.bytes()).unwrap_or(usize::MAX);
        let len = len.clamp(ROOM_BYTES_MIN, wanted);
        let slots = len * slots_bytes / wanted;
        Some(Self { buffer: vec![0; len - slots], slots: vec![0; slots], _permit: permit })
    }
}

/// Blocks the thread until the future is ready. It needs no runtime.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
