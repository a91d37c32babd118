//! The parts in which a blob was uploaded, and the composite checksum that S3 stores for them.
//!
//! Source: Amazon S3 User Guide, "Checking object integrity": the checksum of the parts' raw
//! checksums, in base64, followed by a hyphen and the number of parts. The entity tag of such an
//! object is made the same way of MD5s, in hexadecimal digits.

use std::{fmt::Write as _, io, ops::Range};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;

use crate::blob::Content;

/// The algorithm of a composite checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartsAlgorithm {
    /// CRC-32.
    Crc32,
    /// CRC-32C.
    Crc32c,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// MD5: only the entity tag has it, and there is no checksum.
    Md5,
}

impl PartsAlgorithm {
    /// The header of the checksum; `None` if only the entity tag has it.
    pub(crate) fn header(self) -> Option<&'static str> {
        match self {
            Self::Crc32 => Some("x-amz-checksum-crc32"),
            Self::Crc32c => Some("x-amz-checksum-crc32c"),
            Self::Sha1 => Some("x-amz-checksum-sha1"),
            Self::Sha256 => Some("x-amz-checksum-sha256"),
            Self::Md5 => None,
        }
    }

    fn of(self, content: &Content, range: Range<u64>) -> io::Result<Vec<u8>> {
        match self {
            Self::Crc32 => crc(content, range, CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => crc(content, range, CrcAlgorithm::Crc32Iscsi),
            Self::Sha1 => hash::<Sha1>(content, range),
            Self::Sha256 => hash::<Sha256>(content, range),
            Self::Md5 => hash::<Md5>(content, range),
        }
    }
}

fn crc(content: &Content, range: Range<u64>, algorithm: CrcAlgorithm) -> io::Result<Vec<u8>> {
    let mut crc = crc_fast::Digest::new(algorithm);
    content.scan(range.start, range.end, |piece| crc.update(piece))?;
    let [_, _, _, _, value @ ..] = crc.finalize().to_be_bytes();
    Ok(value.to_vec())
}

fn hash<H: md5::Digest>(content: &Content, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut hash = H::new();
    content.scan(range.start, range.end, |piece| hash.update(piece))?;
    Ok(hash.finalize().to_vec())
}

/// The parts of a blob, as its remote remembers them.
#[derive(Debug, Clone)]
pub(crate) struct Uploaded {
    pub(crate) parts: Vec<Range<u64>>,
    pub(crate) algorithm: PartsAlgorithm,
    pub(crate) composite: Vec<u8>,
    pub(crate) md5: Vec<u8>,
}

impl Uploaded {
    /// The parts of these sizes; the last one has the rest of the content.
    pub(crate) fn new(
        content: &Content,
        sizes: &[u64],
        algorithm: PartsAlgorithm,
    ) -> io::Result<Self> {
        let mut parts = Vec::new();
        let mut start = 0_u64;
        for (index, size) in sizes.iter().enumerate() {
            let is_last = index + 1 == sizes.len();
            let end = if is_last { content.len() } else { content.len().min(start + size) };
            parts.push(start..end);
            start = end;
        }
        let composite = |algorithm: PartsAlgorithm| {
            let mut values = Vec::new();
            for part in &parts {
                values.extend(algorithm.of(content, part.clone())?);
            }
            let values = Content::Memory(values.into());
            algorithm.of(&values, 0..values.len())
        };
        let (composite, md5) = (composite(algorithm)?, composite(PartsAlgorithm::Md5)?);
        Ok(Self { parts, algorithm, composite, md5 })
    }

    /// The value of the checksum's header.
    pub(crate) fn value(&self, wrong: bool) -> String {
        let mut raw = self.composite.clone();
        if let (true, Some(first)) = (wrong, raw.first_mut()) {
            *first ^= 1;
        }
        format!("{}-{}", STANDARD.encode(raw), self.parts.len())
    }

    /// The entity tag without quotes.
    pub(crate) fn etag(&self) -> String {
        format!("{}-{}", hex(&self.md5), self.parts.len())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The entity tag of an object that was uploaded in one request: the MD5 of its content.
pub(crate) fn md5_etag(content: &Content) -> io::Result<String> {
    Ok(hex(&PartsAlgorithm::Md5.of(content, 0..content.len())?))
}
