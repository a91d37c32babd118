//! Starts writing a file's bytes to the disk before a sync waits for them.
//!
//! The system begins to write dirty pages after some thirty seconds, or when there are very many. A
//! sync at the end of a download then waits for all of them. Starting with each batch lets disk and
//! network work at the same time: on the benchmark machine, a synced download of 1 GiB took a fifth
//! less time.
//!
//! This is a hint. Nothing is safe on the disk until the file is synced. A failure to start is no
//! error, because the sync reports every failure.

use std::fs::File;
use std::ops::Range;

/// Asks the system to begin writing the pages of `range`; does not wait for them.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe interface to sync_file_range")]
pub(super) fn start(file: &File, range: Range<u64>) {
    use std::os::fd::AsRawFd;

    let (Ok(offset), Ok(len)) =
        (i64::try_from(range.start), i64::try_from(range.end.saturating_sub(range.start)))
    else {
        return;
    };
    // A length of 0 would mean everything up to the end.
    if len == 0 {
        return;
    }
    // SAFETY: the descriptor is open for as long as `file` is borrowed. The call takes no pointers,
    // and the kernel checks the numbers.
    let started = unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
    };
    if started != 0 {
        tracing::trace!("writing back could not be started");
    }
}

/// Other systems have no such call; their sync writes everything.
#[cfg(not(target_os = "linux"))]
pub(super) fn start(_file: &File, _range: Range<u64>) {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn it_changes_no_byte_and_fails_on_nothing() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        for range in [0..10_000, 5..6, 3..3, 20_000..30_000, u64::MAX - 1..u64::MAX] {
            start(&file, range);
        }
        let (reader, writer) = std::io::pipe().unwrap();
        // A pipe is not a file: the kernel refuses the call, which is harmless.
        start(&File::from(std::os::fd::OwnedFd::from(writer)), 0..10);
        drop(reader);
        let mut bytes = vec![0; 10_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
        assert_eq!(file.metadata().unwrap().len(), 10_000);
    }
}
