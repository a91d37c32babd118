//! The checksums that servers keep and send in headers, read from the headers' values.
//!
//! Pure text in, [`StoredChecksum`]s out. What a malformed header means for a transfer is for the
//! caller to say; here it is a [`ChecksumError`] that shows the text. Algorithms that we do not
//! know are skipped where a header may hold several, as the formats ask.
//!
//! | header | source |
//! |---|---|
//! | `x-goog-hash` | Google Cloud Storage, XML API reference |
//! | `x-amz-checksum-*` | Amazon S3, "Checking object integrity" |
//! | `Content-MD5` | RFC 1864 |
//! | `Repr-Digest` | RFC 9530, a structured dictionary of RFC 9651 |

use super::{Checksum, ChecksumAlgorithm, ChecksumError};

mod repr_digest;

pub use repr_digest::parse_repr_digest;

/// A checksum that a server keeps, and of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChecksum {
    /// The value.
    pub checksum: Checksum,
    /// What it covers.
    pub coverage: Coverage,
}

/// What a stored checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coverage {
    /// The stored bytes of the whole object.
    FullObject,
    /// The checksums of the object's parts, in order, not its bytes: it cannot be verified without
    /// knowing where the parts were cut.
    Composite {
        /// How many parts, when the value says so.
        parts: Option<u32>,
    },
}

impl StoredChecksum {
    fn full_object(checksum: Checksum) -> Self {
        Self { checksum, coverage: Coverage::FullObject }
    }

    /// Whether the bytes of the whole object can be verified against it.
    pub const fn is_verifiable(&self) -> bool {
        matches!(self.coverage, Coverage::FullObject) && self.checksum.algorithm().is_computable()
    }
}

/// Parses `x-goog-hash`: `crc32c=n03x6A==,md5=Ojk9c3dhfxgoKVVHYwFbHQ==`.
///
/// Each member stands for itself: a malformed one is an error beside those that are well-formed.
/// The header may come several times, each with one or more; parse each, or all joined by commas.
/// Composite objects have no MD5.
pub fn parse_goog_hash(text: &str) -> Vec<Result<StoredChecksum, ChecksumError>> {
    let malformed = |reason| malformed("x-goog-hash", text, reason);
    let parse = |member: &str| {
        let Some((name, value)) = member.split_once('=') else {
            return Some(Err(malformed("no equals sign")));
        };
        let algorithm = name.parse().ok()?;
        let checksum = Checksum::from_base64(algorithm, value).ok();
        let checksum = checksum.ok_or_else(|| malformed("not the base64 of a value"));
        Some(checksum.map(StoredChecksum::full_object))
    };
    text.split(',').map(trim).filter_map(parse).collect()
}

/// Parses `x-amz-checksum-SUFFIX` with, where the server sent it, `x-amz-checksum-type`.
///
/// The suffix is the rest of the header's name: `crc32c`, `crc64nvme`, `crc32`, `sha1`, `sha256`.
/// The value is base64; one over the parts' checksums ends in a hyphen and their number, or is
/// told by the type `COMPOSITE`. Where the two disagree it is taken for composite, so that no
/// object is held to be damaged because of what the value never covered.
pub fn parse_amz_checksum(
    suffix: &str,
    value: &str,
    checksum_type: Option<&str>,
) -> Result<StoredChecksum, ChecksumError> {
    let algorithm = amz_algorithm(suffix)?;
    let malformed = |reason| malformed("x-amz-checksum", value, reason);
    let (encoded, parts) = match trim(value).split_once('-') {
        None => (trim(value), None),
        Some((encoded, digits)) => {
            let parts = part_count(digits).ok_or_else(|| malformed("not a number of parts"))?;
            (encoded, Some(parts))
        }
    };
    let checksum = Checksum::from_base64(algorithm, encoded)
        .ok()
        .ok_or_else(|| malformed("not the base64 of a value"))?;
    let composite = match checksum_type.map(trim) {
        None => false,
        Some(text) if text.eq_ignore_ascii_case("FULL_OBJECT") => false,
        Some(text) if text.eq_ignore_ascii_case("COMPOSITE") => true,
        Some(text) => {
            let reason = "neither FULL_OBJECT nor COMPOSITE";
            return Err(self::malformed("x-amz-checksum-type", text, reason));
        }
    };
    let coverage = if composite || parts.is_some() {
        Coverage::Composite { parts }
    } else {
        Coverage::FullObject
    };
    Ok(StoredChecksum { checksum, coverage })
}

/// Parses `Content-MD5`: the base64 of an MD5.
///
/// It is that of the response's body. In a ranged answer this is the range, unless the store
/// documents it otherwise, and the caller must not take it for the whole object's.
pub fn parse_content_md5(text: &str) -> Result<StoredChecksum, ChecksumError> {
    Checksum::from_base64(ChecksumAlgorithm::Md5, trim(text))
        .map(StoredChecksum::full_object)
        .ok()
        .ok_or_else(|| malformed("Content-MD5", text, "not the base64 of 16 bytes"))
}

fn amz_algorithm(suffix: &str) -> Result<ChecksumAlgorithm, ChecksumError> {
    let algorithm = suffix.parse()?;
    match algorithm {
        // S3 has no header for these; a suffix that says so is a mistake and no checksum of S3's.
        ChecksumAlgorithm::Md5 | ChecksumAlgorithm::Blake3 => {
            Err(ChecksumError::UnknownAlgorithm { name: suffix.to_owned() })
        }
        known => Ok(known),
    }
}

fn part_count(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|count| plain && *count > 0)
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn malformed(header: &'static str, text: &str, reason: &'static str) -> ChecksumError {
    ChecksumError::MalformedHeader { header, text: text.to_owned(), reason }
}

#[cfg(test)]
mod tests;
