//! Helpers that these tests share: both backings, bytes that depend on their position, and wakers
//! that count.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::buffer::{Backing, ShardBuffer, ShardBufferOptions};

/// Far longer than any test takes. Only a hang reaches it.
pub(crate) const HANG: Duration = Duration::from_mins(1);

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// The backings that this platform has.
pub(crate) const BACKINGS: &[Backing] = if cfg!(target_os = "linux") {
    &[Backing::Reserved, Backing::Segments]
} else {
    &[Backing::Segments]
};

/// Runs a test with every backing, and reports which backing failed.
pub(crate) fn each_backing(check: impl Fn(Backing)) {
    for &backing in BACKINGS {
        let named = Named(backing);
        check(backing);
        drop(named);
    }
}

struct Named(Backing);

impl Drop for Named {
    #[expect(clippy::print_stderr, reason = "a failure says what it was about")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with Backing::{:?}", self.0);
        }
    }
}

/// A buffer with no hint, no budget, and a limit that only the tests of limits reach.
pub(crate) fn buffer(backing: Backing) -> ShardBuffer {
    let limit_bytes = 64 * MIB;
    ShardBuffer::new(ShardBufferOptions { limit_bytes, backing, ..Default::default() }).unwrap()
}

/// The byte that belongs at a position. Neighbours differ, and so do positions that are a power of
/// two apart.
pub(crate) fn byte_at(position: u64) -> u8 {
    (position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The bytes that belong to a range.
pub(crate) fn pattern(range: Range<u64>) -> Vec<u8> {
    range.map(byte_at).collect()
}

/// Writes the bytes that belong to a range.
pub(crate) fn fill(buffer: &ShardBuffer, range: Range<u64>) {
    buffer.write_at(range.start, &pattern(range.clone())).unwrap();
}

/// Reads the written bytes of a range.
pub(crate) fn read(buffer: &ShardBuffer, range: Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    assert_eq!(buffer.read_at(range.start, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Counts how often a task is woken.
#[derive(Debug, Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(wakes))))
}

/// Runs a future to its end on this thread. Panics if the future hangs.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(HANG, future).await.unwrap() })
}
