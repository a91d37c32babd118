//! [`verified_marks`]: which marks of an earlier run's journal still match the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tidegate_core::checksum::Crc;
use tidegate_core::extents::Extents;
use tokio_util::sync::CancellationToken;

use crate::sink::Mark;

/// One read.
const READ_BYTES: usize = 1 << 20;

/// The marks whose bytes are in the file, without overlaps; `None` if this was cancelled before all
/// were read. Blocks.
pub(crate) fn verified_marks(
    file: &File,
    marks: &[Mark],
    cancel: &CancellationToken,
) -> Option<Vec<Mark>> {
    let mut seen = Extents::new();
    let mut kept = Vec::new();
    for mark in marks {
        if cancel.is_cancelled() {
            return None;
        }
        let range = mark.start..mark.start + mark.crc.len();
        let is_new = seen.overlapping(range.clone()).next().is_none();
        if is_new && holds(file, mark).unwrap_or(false) {
            seen.insert(range);
            kept.push(*mark);
        }
    }
    Some(kept)
}

/// Reads the bytes of a mark back and compares their CRC.
fn holds(file: &File, mark: &Mark) -> io::Result<bool> {
    let Mark { start, crc: expected } = mark;
    let mut crc = Crc::empty(expected.algorithm());
    let mut buffer = vec![0; READ_BYTES.min(to_usize(expected.len()))];
    while crc.len() < expected.len() {
        let count = to_usize(expected.len() - crc.len()).min(buffer.len());
        match file.read_exact_at(&mut buffer[..count], start + crc.len()) {
            Ok(()) => crc.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(crc == *expected)
}

fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_core::checksum::CrcAlgorithm;

    use super::*;
    use crate::remote::Version;
    use crate::sink::file::journal::{CrcName, Identity, Journal, Sealing};

    #[test]
    fn nothing_is_said_of_what_was_not_looked_at() {
        let file = tempfile::tempfile().unwrap();
        let identity = Identity {
            source: "digest:x".to_owned(),
            selected: None,
            revision: None,
            coding: None,
            version: Version::ETag("x".to_owned()),
            len_bytes: 3,
            crc: CrcName::Crc32c,
        };
        let sealing = Sealing::new(None, std::ffi::OsStr::new("part"));
        let mut journal = Journal::create(&file, &sealing, &identity).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        let mark = Mark { start: 0, crc: Crc::of(CrcAlgorithm::Crc32c, b"abc") };
        journal.append(&file, mark).unwrap();
        let found = Journal::find(&file, &sealing).unwrap().journal().unwrap();
        let cancel = CancellationToken::new();
        assert_eq!(verified_marks(&file, &found.marks, &cancel), Some(vec![mark]));
        cancel.cancel();
        assert_eq!(verified_marks(&file, &found.marks, &cancel), None);
    }
}
