//! The checksums that a blob's remote has stored: computed once, off the runtime, on first need.
//!
//! This module uses the hash crates directly and not Tidegate's own types. An error in those types
//! therefore cannot hide itself.

use std::{io, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crc_fast::CrcAlgorithm;
use md5::{Digest as _, Md5};
use sha2::Sha256;
use tokio::sync::OnceCell;

use crate::blob::Content;

/// The checksums that a remote sends for a blob's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksums {
    /// Nothing stored.
    None,
    /// The right checksums that the flavour stores for a blob sent in one request.
    #[default]
    Correct,
    /// The same, each with one bit wrong.
    Wrong,
    /// The checksums that the flavour stores for a blob of `parts` parts. S3: a CRC32C of the
    /// parts' CRC32Cs, marked `-parts`, and no CRC64. GCS: CRC32C of the whole, no MD5.
    /// Azure and HTTP: nothing.
    Composite {
        /// How many equal parts (the last may be shorter); 0 counts as 1.
        parts: u64,
    },
}

/// One checksum to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Crc32c,
    Crc64Nvme,
    Md5,
    Sha256,
    CompositeCrc32c(u64),
}

/// The base64 of each checksum that was asked for.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sums {
    values: Vec<(Kind, String)>,
}

impl Sums {
    pub(crate) fn get(&self, kind: Kind) -> Option<&str> {
        self.values.iter().find(|(k, _)| *k == kind).map(|(_, value)| value.as_str())
    }
}

/// The cells that keep a blob's computed checksums.
#[derive(Debug, Default)]
pub(crate) struct Computed {
    crc32c: OnceCell<Vec<u8>>,
    crc64_nvme: OnceCell<Vec<u8>>,
    md5: OnceCell<Vec<u8>>,
    sha256: OnceCell<Vec<u8>>,
    composite: OnceCell<Vec<u8>>,
}

impl Computed {
    fn cell(&self, kind: Kind) -> &OnceCell<Vec<u8>> {
        match kind {
            Kind::Crc32c => &self.crc32c,
            Kind::Crc64Nvme => &self.crc64_nvme,
            Kind::Md5 => &self.md5,
            Kind::Sha256 => &self.sha256,
            Kind::CompositeCrc32c(_) => &self.composite,
        }
    }

    /// Sets a checksum, unless it was computed before.
    pub(crate) fn preset(&self, kind: Kind, raw: Vec<u8>) {
        // An error means that it was computed before, and then the content decides.
        let _ = self.cell(kind).set(raw);
    }

    /// A checksum that was computed or set before.
    pub(crate) fn known(&self, kind: Kind) -> Option<Vec<u8>> {
        self.cell(kind).get().cloned()
    }

    /// Base64 of the checksums of `content`, with one bit wrong in each if `wrong`.
    pub(crate) async fn sums(
        self: &Arc<Self>,
        content: &Content,
        kinds: &[Kind],
        wrong: bool,
    ) -> io::Result<Sums> {
        let mut sums = Sums::default();
        for kind in kinds.iter().copied() {
            let compute = || in_background(content.clone(), kind);
            let mut raw = self.cell(kind).get_or_try_init(compute).await?.clone();
            if let (true, Some(first)) = (wrong, raw.first_mut()) {
                *first ^= 1;
            }
            sums.values.push((kind, STANDARD.encode(raw)));
        }
        Ok(sums)
    }
}

async fn in_background(content: Content, kind: Kind) -> io::Result<Vec<u8>> {
    tokio::task::spawn_blocking(move || compute(&content, kind)).await.map_err(io::Error::other)?
}

fn compute(content: &Content, kind: Kind) -> io::Result<Vec<u8>> {
    let len = content.len();
    match kind {
        Kind::Crc32c => crc32c(content, 0, len).map(|crc| crc.to_vec()),
        Kind::Crc64Nvme => {
            let mut crc = crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme);
            content.scan(0, len, |piece| crc.update(piece))?;
            Ok(crc.finalize().to_be_bytes().to_vec())
        }
        Kind::Md5 => {
            let mut hash = Md5::new();
            content.scan(0, len, |piece| hash.update(piece))?;
            Ok(hash.finalize().to_vec())
        }
        Kind::Sha256 => {
            let mut hash = Sha256::new();
            content.scan(0, len, |piece| hash.update(piece))?;
            Ok(hash.finalize().to_vec())
        }
        Kind::CompositeCrc32c(parts) => composite_crc32c(content, parts),
    }
}

/// Big-endian, as every cloud writes it.
fn crc32c(content: &Content, start: u64, end: u64) -> io::Result<[u8; 4]> {
    let mut crc = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    content.scan(start, end, |piece| crc.update(piece))?;
    let [_, _, _, _, a, b, c, d] = crc.finalize().to_be_bytes();
    Ok([a, b, c, d])
}

/// S3's checksum of checksums: the CRC32C of the parts' CRC32Cs in order.
fn composite_crc32c(content: &Content, parts: u64) -> io::Result<Vec<u8>> {
    let part_bytes = content.len().div_ceil(parts.max(1)).max(1);
    let mut outer = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut start = 0;
    while start < content.len() {
        let end = start.saturating_add(part_bytes).min(content.len());
        outer.update(&crc32c(content, start, end)?);
        start = end;
    }
    let [_, _, _, _, crc @ ..] = outer.finalize().to_be_bytes();
    Ok(crc.to_vec())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn base64(kind: Kind) -> String {
        let content = Content::Memory(Bytes::from_static(b"123456789"));
        STANDARD.encode(compute(&content, kind).unwrap())
    }

    /// The check values that the CRC catalogue (0xe3069283, 0xae8b14860a799888), RFC 1321 and FIPS
    /// 180 give for "123456789".
    #[test]
    fn agrees_with_published_check_values() {
        assert_eq!(base64(Kind::Crc32c), "4waSgw==");
        assert_eq!(base64(Kind::Crc64Nvme), "rosUhgp5mIg=");
        assert_eq!(base64(Kind::Md5), "JfnnlDI7RTiF9RgfG2JNCw==");
        assert_eq!(base64(Kind::Sha256), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
    }

    #[test]
    fn a_composite_is_not_the_checksum_of_the_whole() {
        assert_ne!(base64(Kind::CompositeCrc32c(3)), base64(Kind::Crc32c));
        assert_ne!(base64(Kind::CompositeCrc32c(3)), base64(Kind::CompositeCrc32c(1)));
    }
}
