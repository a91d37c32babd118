//! Waiting without a runtime: a thread that parks. And the random numbers of its plan.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use tidegate::buffer::{BufferError, ShardReader};

/// Far longer than a round takes, even under valgrind. Only a lost wake reaches it.
const HANG: Duration = Duration::from_mins(2);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end. Panics if no wake arrives in time.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    let since = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(since.elapsed() < HANG, "no waker wakes this thread");
        std::thread::park_timeout(HANG);
    }
}

/// The next piece that a reader is given.
pub(crate) fn next(reader: &mut ShardReader) -> Option<Result<Bytes, BufferError>> {
    block_on(std::future::poll_fn(|cx| Pin::new(&mut *reader).poll_next(cx)))
}

/// Random numbers from a seed (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end.max(1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
