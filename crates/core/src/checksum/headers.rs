//! Parses the checksums that servers store and send in headers.
//!
//! Pure text in, [`StoredChecksum`]s out. A malformed header is a [`ChecksumError`] that shows the
//! text; the caller decides what that means for a transfer. Unknown algorithms are skipped if a
//! header may hold several, as the formats require.
//!
//! | header | source |
//! |---|---|
//! | `x-goog-hash` | Google Cloud Storage, XML API reference |
//! | `x-amz-checksum-*` | Amazon S3, "Checking object integrity" |
//! | `Content-MD5` | RFC 1864 |
//! | `Repr-Digest` | RFC 9530, a structured dictionary of RFC 9651 |
//! | `Digest` | RFC 3230, which RFC 9530 replaced |
//! | `X-Checksum-*` | Artifactory and Nexus, in hexadecimal digits |
//! | `X-Linked-Etag` | Hugging Face, the SHA-256 of a file that a redirect leads to |

use super::{Checksum, ChecksumAlgorithm, ChecksumError};

mod repr_digest;

pub use repr_digest::parse_repr_digest;

/// A checksum that a server stores, and what it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChecksum {
    /// The value.
    pub checksum: Checksum,
    /// The bytes that it covers.
    pub coverage: Coverage,
}

/// The bytes that a stored checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coverage {
    /// The stored bytes of the whole object.
    FullObject,
    /// The checksums of the object's parts, in order, not its bytes. It can be verified by
    /// [`CompositeChecksummer`](super::CompositeChecksummer) if the ends of the parts are known.
    Composite {
        /// The number of parts, if the value contains it.
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
/// Each member is independent: a malformed one is an error next to the well-formed ones. The header
/// may occur several times, each with one or more members. Parse each, or all joined by commas.
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

/// Parses `x-amz-checksum-SUFFIX` with `x-amz-checksum-type`, if the server sent that.
///
/// The suffix is the rest of the header's name: `crc32c`, `crc64nvme`, `crc32`, `sha1`, `sha256`.
/// The value is base64. A composite value, over the parts' checksums, ends in a hyphen and the
/// number of parts, or has the type `COMPOSITE`. If the two disagree, the value counts as
/// composite. So no object is reported as damaged because of bytes that the value never covered.
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
/// It covers the response's body. In a ranged response that is the range, unless the store
/// documents it otherwise, and the caller must not use it for the whole object.
pub fn parse_content_md5(text: &str) -> Result<StoredChecksum, ChecksumError> {
    Checksum::from_base64(ChecksumAlgorithm::Md5, trim(text))
        .map(StoredChecksum::full_object)
        .ok()
        .ok_or_else(|| malformed("Content-MD5", text, "not the base64 of 16 bytes"))
}

/// Parses `Digest`: `SHA-256=base64,MD5=base64`.
///
/// Each member is independent: a malformed one is an error next to the well-formed ones. Unknown
/// algorithms are skipped. By RFC 3230 it covers the whole instance, also in a ranged response.
/// Servers differ there, so the caller should use it of whole responses only.
pub fn parse_digest(text: &str) -> Vec<Result<StoredChecksum, ChecksumError>> {
    let malformed = |reason| malformed("Digest", text, reason);
    let parse = |member: &str| {
        let Some((name, value)) = member.split_once('=') else {
            return Some(Err(malformed("no equals sign")));
        };
        let algorithm = match name.to_ascii_lowercase().as_str() {
            "sha-256" => ChecksumAlgorithm::Sha256,
            "sha" => ChecksumAlgorithm::Sha1,
            "md5" => ChecksumAlgorithm::Md5,
            _ => return None,
        };
        let checksum = Checksum::from_base64(algorithm, value).ok();
        let checksum = checksum.ok_or_else(|| malformed("not the base64 of a value"));
        Some(checksum.map(StoredChecksum::full_object))
    };
    text.split(',').map(trim).filter_map(parse).collect()
}

/// Parses `X-Checksum-SUFFIX`: hexadecimal digits. The suffix is the rest of the header's name:
/// `sha256`, `sha1`, `md5`. It covers the whole file, also in a ranged response.
pub fn parse_x_checksum(suffix: &str, value: &str) -> Result<StoredChecksum, ChecksumError> {
    const SENT: [ChecksumAlgorithm; 3] =
        [ChecksumAlgorithm::Sha256, ChecksumAlgorithm::Sha1, ChecksumAlgorithm::Md5];
    let algorithm = suffix.parse()?;
    if !SENT.contains(&algorithm) {
        return Err(ChecksumError::UnknownAlgorithm { name: suffix.to_owned() });
    }
    Checksum::from_hex(algorithm, trim(value))
        .map(StoredChecksum::full_object)
        .ok()
        .ok_or_else(|| malformed("X-Checksum", value, "not the hexadecimal digits of a value"))
}

/// Parses `X-Linked-Etag` of a redirect: an entity tag, which is the SHA-256 of the file if it has
/// 64 hexadecimal digits. `None` for any other tag, such as the name of a Git blob.
pub fn parse_linked_etag(text: &str) -> Option<StoredChecksum> {
    let text = trim(text);
    let opaque = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    let checksum = Checksum::from_hex(ChecksumAlgorithm::Sha256, opaque).ok()?;
    Some(StoredChecksum::full_object(checksum))
}

fn amz_algorithm(suffix: &str) -> Result<ChecksumAlgorithm, ChecksumError> {
    let algorithm = suffix.parse()?;
    match algorithm {
        // S3 has no header for these, so such a suffix is a mistake and not a checksum of S3.
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
