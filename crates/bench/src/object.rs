//! The object that every tool fetches: incompressible bytes on a real disk, with the checksums that
//! a cloud would store for it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, Digest};

/// Large enough that system calls cost nothing measurable, small enough for the processor's cache.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file with known content.
#[derive(Debug)]
pub(crate) struct Object {
    /// The path of the file.
    pub(crate) path: PathBuf,
    /// Its length.
    pub(crate) len_bytes: u64,
    /// CRC32C, Base64 of its four bytes, as in `x-goog-hash`.
    pub(crate) crc32c: String,
    /// CRC64-NVME, Base64 of its eight bytes, as in `x-amz-checksum-crc64nvme`.
    pub(crate) crc64nvme: String,
}

impl Object {
    /// Writes `len_bytes` of noise to `path`. The noise is the same every time.
    pub(crate) fn create(path: PathBuf, len_bytes: u64) -> Result<Self> {
        let mut file =
            File::create_new(&path).with_context(|| format!("creating {}", path.display()))?;
        let mut crc32c = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut crc64nvme = Digest::new(CrcAlgorithm::Crc64Nvme);
        let mut noise = Noise { state: 0 };
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut missing = len_bytes;
        while missing > 0 {
            let len = usize::try_from(missing).map_or(BUFFER_BYTES, |n| n.min(BUFFER_BYTES));
            let piece = &mut buffer[..len];
            noise.fill(piece);
            crc32c.update(piece);
            crc64nvme.update(piece);
            file.write_all(piece).with_context(|| format!("writing {}", path.display()))?;
            missing -= len as u64;
        }
        // CRC32C has 32 bits: the upper half of the common result type is empty.
        let crc32c = &crc32c.finalize().to_be_bytes()[4..];
        Ok(Self {
            path,
            len_bytes,
            crc32c: STANDARD.encode(crc32c),
            crc64nvme: STANDARD.encode(crc64nvme.finalize().to_be_bytes()),
        })
    }

    /// Reads it once, so that the server sends from the page cache.
    pub(crate) fn warm(&self) -> io::Result<u64> {
        io::copy(&mut File::open(&self.path)?, &mut io::sink())
    }

    /// Fails unless `copy` has exactly the same bytes.
    pub(crate) fn ensure_same(&self, copy: &Path) -> Result<()> {
        let context = || format!("comparing {} with the object", copy.display());
        let mut actual = File::open(copy).with_context(context)?;
        let actual_len = actual.metadata().with_context(context)?.len();
        ensure!(
            actual_len == self.len_bytes,
            "{} has {actual_len} bytes, expected {}",
            copy.display(),
            self.len_bytes
        );
        let mut expected = File::open(&self.path).with_context(context)?;
        let (mut left, mut right) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
        let mut offset = 0;
        while offset < self.len_bytes {
            let len = usize::try_from(self.len_bytes - offset)
                .map_or(BUFFER_BYTES, |n| n.min(BUFFER_BYTES));
            actual.read_exact(&mut left[..len]).with_context(context)?;
            expected.read_exact(&mut right[..len]).with_context(context)?;
            ensure!(
                left[..len] == right[..len],
                "{} differs from the object within the {len} bytes from {offset}",
                copy.display()
            );
            offset += len as u64;
        }
        Ok(())
    }
}

/// `SplitMix64` (Steele, Lea and Flood 2014): fast, and not compressible.
struct Noise {
    state: u64,
}

impl Noise {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fill(&mut self, target: &mut [u8]) {
        for piece in target.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_reproducible_and_knows_its_checksums() {
        let folder = tempfile::tempdir().unwrap();
        // More than one buffer, and not a multiple of eight.
        let len = BUFFER_BYTES as u64 + 13;
        let first = Object::create(folder.path().join("first"), len).unwrap();
        let second = Object::create(folder.path().join("second"), len).unwrap();
        first.ensure_same(&second.path).unwrap();
        let bytes = std::fs::read(&first.path).unwrap();
        let crc32c = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &bytes);
        let crc32c = u32::try_from(crc32c).unwrap();
        assert_eq!(first.crc32c, STANDARD.encode(crc32c.to_be_bytes()));
        let crc64nvme = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &bytes);
        assert_eq!(first.crc64nvme, STANDARD.encode(crc64nvme.to_be_bytes()));
    }

    #[test]
    fn a_damaged_or_short_copy_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let object = Object::create(folder.path().join("object"), 100_000).unwrap();
        let copy = folder.path().join("copy");
        let mut bytes = std::fs::read(&object.path).unwrap();
        bytes[99_999] ^= 1;
        std::fs::write(&copy, &bytes).unwrap();
        let damaged = object.ensure_same(&copy).unwrap_err().to_string();
        assert!(damaged.contains("differs"), "{damaged}");
        bytes.pop();
        std::fs::write(&copy, &bytes).unwrap();
        let short = object.ensure_same(&copy).unwrap_err().to_string();
        assert!(short.contains("99999 bytes, expected 100000"), "{short}");
    }
}
