//! Hashes a file in order while its bytes arrive out of order. A thread follows the prefix without
//! gaps.
//!
//! This is for checksums that cannot be combined from parts (SHA-256, MD5, BLAKE3). A batch written
//! at the end of the prefix can be lent to the thread, which hashes it from memory. At most 4 MiB
//! are lent at a time. The thread reads all other bytes back from the page cache: that costs a
//! copy, but no memory of the budget.
//!
//! Lent batches stay charged to the budget until they are hashed, so a writer can wait for the
//! hasher. Streams lend nothing: a stream reads on only when its previous batch is released, so
//! lending would serialise network and hashing.
//!
//! Invariants: a lent batch lies within the prefix, so the thread reaches it without waiting for
//! other bytes. When the thread has ended, nothing is lent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_core::extents::Extents;

use crate::sink::Batch;
use crate::sink::hashers::{Hashers, Sums};

/// One read.
const READ_BYTES: u64 = 1 << 20;

/// At most this much is lent at a time. Hashing it takes a few milliseconds, and it still fits in
/// the processor's cache.
const LENT_BYTES_MAX: u64 = 4 << 20;

/// Which bytes have been written, and which of them the thread has taken.
#[derive(Debug, Default)]
pub(crate) struct WrittenBytes {
    is_lending: bool,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    extents: Extents,
    /// The thread has hashed the bytes before this offset, or is about to.
    taken: u64,
    /// Lent batches behind `taken`, by offset.
    lent: BTreeMap<u64, Batch>,
    lent_bytes: u64,
    /// Nothing more will be written.
    is_closed: bool,
    /// The thread has ended.
    has_ended: bool,
}

/// The thread's next piece of work.
enum Work {
    Lent(Batch),
    /// The thread reads this range back from the file.
    Written(Range<u64>),
}

impl WrittenBytes {
    /// A `WrittenBytes` that lends written batches to the thread.
    pub(crate) fn lending() -> Self {
        Self { is_lending: true, ..Self::default() }
    }

    pub(crate) fn written(&self, range: Range<u64>) {
        self.lock().extents.insert(range);
        self.moved.notify_one();
    }

    /// Records a written batch. The batch is lent if lending is on, no gap precedes it, and it fits
    /// in [`LENT_BYTES_MAX`].
    pub(crate) fn written_batch(&self, batch: Batch) {
        let (offset, len) = (batch.offset, batch.len());
        let mut state = self.lock();
        state.extents.insert(offset..offset + len);
        let is_next = offset >= state.taken && offset + len <= state.extents.contiguous_len();
        let is_little = len > 0 && state.lent_bytes + len <= LENT_BYTES_MAX;
        let left = if self.is_lending && is_next && is_little && !state.has_ended {
            state.lent_bytes += len;
            state.lent.insert(offset, batch)
        } else {
            Some(batch)
        };
        drop(state);
        self.moved.notify_one();
        // Dropping it frees memory and wakes waiters, so not under the lock.
        drop(left);
    }

    /// Nothing more will be written.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.moved.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next piece of work; `None` when everything is taken and no more will come.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.take() {
                return Some(work);
            }
            if state.is_closed {
                return None;
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn take(&mut self) -> Option<Work> {
        let from = self.taken;
        if let Some(batch) = self.lent.remove(&from) {
            self.lent_bytes -= batch.len();
            self.taken += batch.len();
            return Some(Work::Lent(batch));
        }
        let lent = self.lent.keys().next().copied().unwrap_or(u64::MAX);
        let end = self.extents.contiguous_len().min(lent).min(from.saturating_add(READ_BYTES));
        self.taken = end.max(from);
        (end > from).then(|| Work::Written(from..end))
    }
}

/// Releases all lent batches when the thread ends, for any reason.
struct Ending(Arc<WrittenBytes>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        let lent = std::mem::take(&mut state.lent);
        drop(state);
        drop(lent);
    }
}

/// The thread that follows. It returns the number of bytes hashed and their checksums.
pub(crate) type HashingThread = std::thread::JoinHandle<io::Result<(u64, Sums)>>;

/// Starts the thread that follows. It ends when `progress` is closed, and returns the number of
/// bytes before the first gap and their checksums.
pub(crate) fn follow(
    file: Arc<File>,
    progress: Arc<WrittenBytes>,
    mut hashers: Hashers,
) -> io::Result<HashingThread> {
    std::thread::Builder::new().name("tidegate-hash".to_owned()).spawn(move || {
        let ending = Ending(progress);
        let mut buffer = Vec::new();
        let mut hashed = 0;
        while let Some(work) = ending.0.next() {
            match work {
                Work::Lent(batch) => {
                    batch.frames.iter().for_each(|frame| hashers.update(frame));
                    hashed += batch.len();
                }
                Work::Written(range) => {
                    let len = usize::try_from(range.end - range.start).unwrap_or(0);
                    buffer.resize(len.max(buffer.len()), 0);
                    file.read_exact_at(&mut buffer[..len], range.start)?;
                    hashers.update(&buffer[..len]);
                    hashed += len as u64;
                }
            }
        }
        Ok((hashed, hashers.finish()))
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
    use tokio::sync::Semaphore;

    use super::*;

    fn sha256() -> Hashers {
        Hashers::new(vec![Checksummer::new(ChecksumAlgorithm::Sha256).unwrap()], None)
    }

    fn sum(bytes: &[u8]) -> Sums {
        let whole = vec![Checksummer::of(ChecksumAlgorithm::Sha256, bytes).unwrap()];
        Sums { whole, parts: None }
    }

    /// Makes batches, and counts those that are held.
    struct Batches {
        held: Arc<Semaphore>,
    }

    const BATCHES: usize = 8;

    impl Batches {
        fn new() -> Self {
            Self { held: Arc::new(Semaphore::new(BATCHES)) }
        }

        fn of(&self, offset: u64, frames: &[&'static [u8]]) -> Batch {
            let frames = frames.iter().map(|frame| Bytes::from_static(frame)).collect();
            let turn = Arc::clone(&self.held).try_acquire_owned().ok();
            Batch { offset, frames, mark: None, turn }
        }

        fn held(&self) -> usize {
            BATCHES - self.held.available_permits()
        }
    }

    #[test]
    fn bytes_written_out_of_order_are_hashed_in_order() {
        let file = tempfile::tempfile().unwrap();
        let progress = Arc::new(WrittenBytes::default());
        let thread =
            follow(Arc::new(file.try_clone().unwrap()), Arc::clone(&progress), sha256()).unwrap();
        for (offset, text) in [(6, b"ghi"), (3, b"def"), (0, b"abc")] {
            file.write_all_at(text, offset).unwrap();
            progress.written(offset..offset + 3);
        }
        progress.close();
        assert_eq!(thread.join().unwrap().unwrap(), (9, sum(b"abcdefghi")));
    }

    #[test]
    fn a_gap_ends_the_count() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10).unwrap();
        let progress = Arc::new(WrittenBytes::default());
        progress.written(0..4);
        progress.written(5..10);
        progress.close();
        assert_eq!(
            follow(Arc::new(file), progress, Hashers::default())
                .unwrap()
                .join()
                .unwrap()
                .unwrap()
                .0,
            4
        );
    }

    /// A batch that extends the prefix is held and not read back. A batch beyond a gap is read
    /// back.
    #[test]
    fn what_is_next_is_hashed_from_memory() {
        let (file, batches) = (tempfile::tempfile().unwrap(), Batches::new());
        file.write_all_at(b"......ghi", 0).unwrap();
        let progress = Arc::new(WrittenBytes::lending());
        progress.written_batch(batches.of(6, &[b"GHI"]));
        assert_eq!(batches.held(), 0, "beyond a gap");
        progress.written_batch(batches.of(0, &[b"ab", b"c"]));
        progress.written_batch(batches.of(3, &[b"d", b"ef"]));
        assert_eq!(batches.held(), 2);
        progress.close();
        let thread = follow(Arc::new(file), Arc::clone(&progress), sha256()).unwrap();
        assert_eq!(thread.join().unwrap().unwrap(), (9, sum(b"abcdefghi")));
        assert_eq!(batches.held(), 0);
    }

    #[test]
    fn nothing_of_a_stream_is_held() {
        let batches = Batches::new();
        let progress = WrittenBytes::default();
        progress.written_batch(batches.of(0, &[b"abc"]));
        assert_eq!(batches.held(), 0);
    }

    #[test]
    fn little_is_held() {
        static LONG: [u8; 3 << 20] = [7; 3 << 20];
        let (file, batches) = (tempfile::tempfile().unwrap(), Batches::new());
        let len = LONG.len() as u64;
        file.set_len(3 * len).unwrap();
        file.write_all_at(&LONG, len).unwrap();
        let progress = Arc::new(WrittenBytes::lending());
        for offset in [0, len, 2 * len] {
            progress.written_batch(batches.of(offset, &[&LONG]));
            assert_eq!(batches.held(), 1);
        }
        progress.close();
        let (hashed, sums) =
            follow(Arc::new(file), progress, sha256()).unwrap().join().unwrap().unwrap();
        // The last batch exceeded the limit, so it was read back; the file has zeros there.
        let whole = [&LONG[..], &LONG, &vec![0; LONG.len()]].concat();
        assert_eq!((hashed, sums), (3 * len, sum(&whole)));
    }

    /// A thread that failed releases what was lent, so no writer waits forever.
    #[test]
    fn a_thread_that_failed_holds_nothing() {
        let (file, batches) = (tempfile::tempfile().unwrap(), Batches::new());
        let progress = Arc::new(WrittenBytes::lending());
        // The file does not hold these bytes, so the read fails.
        progress.written(0..4);
        progress.written_batch(batches.of(4, &[b"efgh"]));
        assert_eq!(batches.held(), 1);
        let thread = follow(Arc::new(file), Arc::clone(&progress), sha256()).unwrap();
        assert!(thread.join().unwrap().is_err());
        assert_eq!(batches.held(), 0);
        progress.written_batch(batches.of(8, &[b"ijkl"]));
        assert_eq!(batches.held(), 0);
    }
}
