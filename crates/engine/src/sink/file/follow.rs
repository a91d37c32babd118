//! Hashing a file in order while its bytes arrive out of order: a thread follows the prefix
//! without gaps and reads it back from the page cache.
//!
//! For checksums that cannot be combined from parts (SHA-256, MD5, BLAKE3): reading back costs a
//! copy, but no memory, and the transfer never waits for the hash.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_core::checksum::{Checksum, Checksummer};
use tidegate_core::extents::Extents;

/// One read.
const READ_BYTES: usize = 1 << 20;

/// How far the writing has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    extents: Extents,
    closed: bool,
}

impl Progress {
    pub(crate) fn written(&self, range: Range<u64>) {
        self.lock().extents.insert(range);
        self.moved.notify_one();
    }

    /// Nothing more will be written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.moved.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is more than `from` without gaps; what there is then. Equal to `from`
    /// once nothing more will come.
    fn beyond(&self, from: u64) -> u64 {
        let mut state = self.lock();
        loop {
            let len = state.extents.contiguous_len();
            if len > from || state.closed {
                return len;
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A thread that follows: it gives the bytes hashed and their checksums.
pub(crate) type Hashing = std::thread::JoinHandle<io::Result<(u64, Vec<Checksum>)>>;

/// Starts the thread that follows; it ends when `progress` is closed, and gives the checksums of
/// all bytes up to the first gap, with their number.
pub(crate) fn follow(
    file: File,
    progress: Arc<Progress>,
    mut hashers: Vec<Checksummer>,
) -> io::Result<Hashing> {
    std::thread::Builder::new().name("tidegate-hash".to_owned()).spawn(move || {
        let mut buffer = vec![0; READ_BYTES];
        let mut hashed = 0;
        loop {
            let end = progress.beyond(hashed);
            if end == hashed {
                break;
            }
            while hashed < end {
                let left = usize::try_from(end - hashed).unwrap_or(usize::MAX);
                let count = left.min(READ_BYTES);
                file.read_exact_at(&mut buffer[..count], hashed)?;
                for hasher in &mut hashers {
                    hasher.update(&buffer[..count]);
                }
                hashed += count as u64;
            }
        }
        Ok((hashed, hashers.into_iter().map(Checksummer::finish).collect()))
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::checksum::ChecksumAlgorithm;

    use super::*;

    #[test]
    fn bytes_written_out_of_order_are_hashed_in_order() {
        let file = tempfile::tempfile().unwrap();
        let progress = Arc::new(Progress::default());
        let hasher = Checksummer::new(ChecksumAlgorithm::Sha256).unwrap();
        let thread =
            follow(file.try_clone().unwrap(), Arc::clone(&progress), vec![hasher]).unwrap();
        for (offset, text) in [(6, b"ghi"), (3, b"def"), (0, b"abc")] {
            file.write_all_at(text, offset).unwrap();
            progress.written(offset..offset + 3);
        }
        progress.close();
        let (len, sums) = thread.join().unwrap().unwrap();
        let expected = Checksummer::of(ChecksumAlgorithm::Sha256, b"abcdefghi").unwrap();
        assert_eq!((len, sums), (9, vec![expected]));
    }

    #[test]
    fn a_gap_ends_the_count() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10).unwrap();
        let progress = Arc::new(Progress::default());
        progress.written(0..4);
        progress.written(5..10);
        progress.close();
        assert_eq!(follow(file, progress, vec![]).unwrap().join().unwrap().unwrap().0, 4);
    }
}
