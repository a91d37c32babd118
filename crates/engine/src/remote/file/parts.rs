//! Verifies the parts of an upload, and the whole blob, against their checksums, in one pass over
//! the file, in order. Blocks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tidegate_core::checksum::{Checksum, Checksummer, Crc};
use tokio_util::sync::CancellationToken;

use super::receive::{checksummer, compare};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::write::PartNumber;
use crate::sink::file::target::storage_error;

/// One read: the only memory that verifying takes.
const READ_BYTES: usize = 256 << 10;

/// One part: its number, and the CRC32C and length of its bytes.
#[derive(Debug)]
pub(super) struct FilePart {
    pub(super) number: PartNumber,
    pub(super) crc: Crc,
}

/// The bytes of all parts, concatenated.
#[derive(Debug)]
pub(super) struct UploadData<'a> {
    pub(super) data: &'a File,
    /// The blob's name, for errors.
    pub(super) blob: &'a str,
    /// Ends the pass early.
    pub(super) stop: &'a CancellationToken,
}

impl UploadData<'_> {
    /// Fails with `Integrity` if a part, or the whole, does not match its checksum.
    pub(super) fn verify(&self, parts: &[FilePart], expected: Option<&Checksum>) -> Result<()> {
        let whole = expected.map(|expected| checksummer(expected.algorithm(), self.blob));
        let mut whole = whole.transpose()?;
        let mut buffer = vec![0; READ_BYTES];
        let mut start = 0;
        for part in parts {
            let crc = self.hash(start, &part.crc, whole.as_mut(), &mut buffer)?;
            compare(&part.crc.to_checksum(), &crc.to_checksum(), self.blob)
                .map_err(|error| error.of_part(&format!("part {}", part.number)))?;
            start += part.crc.len();
        }
        match (expected, whole) {
            (Some(expected), Some(whole)) => compare(expected, &whole.finish(), self.blob),
            _ => Ok(()),
        }
    }

    /// The CRC of the bytes from `start` on, over the length of `expected`.
    fn hash(
        &self,
        start: u64,
        expected: &Crc,
        mut whole: Option<&mut Checksummer>,
        buffer: &mut [u8],
    ) -> Result<Crc> {
        let mut crc = Crc::empty(expected.algorithm());
        while crc.len() < expected.len() {
            if self.stop.is_cancelled() {
                let message = "the upload is no longer completed";
                let cancelled = ErrorKind::Cancelled;
                return Err(Error::new(cancelled, Operation::Commit, self.blob, message));
            }
            let left = usize::try_from(expected.len() - crc.len()).unwrap_or(usize::MAX);
            let count = left.min(buffer.len());
            let read = &mut buffer[..count];
            match self.data.read_exact_at(read, start + crc.len()) {
                Ok(()) => {}
                // Another process truncated the file; the CRC differs.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(crc),
                Err(error) => return Err(storage_error(Operation::Verify, self.blob, error)),
            }
            crc.update(read);
            if let Some(whole) = &mut whole {
                whole.update(read);
            }
        }
        Ok(crc)
    }
}
