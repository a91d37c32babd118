//! [`Room`]: a thread's buffer, and what the budget granted for it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio_util::sync::CancellationToken;

use crate::budget::{Budget, BytesPermit};

/// One read: long enough that a call costs little, and short enough that the bytes are still in the
/// core's own cache when they are hashed.
pub(super) const ROOM_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Room {
    pub(super) buffer: Vec<u8>,
    _permit: BytesPermit,
}

impl Room {
    /// Waits for the budget, on a thread that nothing else needs; `None` where `cancel` came first.
    pub(super) fn wait(budget: &Budget, cancel: &CancellationToken) -> Option<Self> {
        let permit = wait(async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                permit = budget.bytes(ROOM_BYTES as u64) => Some(permit),
            }
        })?;
        // A budget that is smaller gives what it has.
        let len = usize::try_from(permit.bytes()).map_or(ROOM_BYTES, |len| len.min(ROOM_BYTES));
        Some(Self { buffer: vec![0; len], _permit: permit })
    }
}

/// Waits for a future on a plain thread. There may be no runtime here, and none is needed.
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
