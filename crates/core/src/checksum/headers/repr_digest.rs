//! `Repr-Digest` (RFC 9530): a dictionary of algorithms and byte sequences (RFC 9651).
//!
//! The digest covers the whole selected representation (content coding applied), also in a ranged
//! response. That makes it better than `Content-MD5`. `sfv` parses the dictionary, and accepts
//! missing padding and set pad bits (RFC 9651, section 4.2.7).

use sfv::{Dictionary, ListEntry, Parser};

use super::{StoredChecksum, malformed, trim};
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumError};

/// Parses `Repr-Digest`: `sha-256=:base64:, crc32c=:base64:`.
///
/// Unknown algorithms are skipped. If two members have one name, the last counts, as in every
/// dictionary. An empty header has no members. A member that is not a byte sequence makes the whole
/// header malformed.
pub fn parse_repr_digest(text: &str) -> Result<Vec<StoredChecksum>, ChecksumError> {
    let malformed = |reason| malformed("Repr-Digest", text, reason);
    let members: Dictionary =
        Parser::new(trim(text)).parse().ok().ok_or_else(|| malformed("not a dictionary"))?;
    let mut found = Vec::new();
    for (key, member) in &members {
        let bytes = match member {
            ListEntry::Item(item) => item.bare_item.as_byte_sequence(),
            ListEntry::InnerList(_) => None,
        };
        let bytes = bytes.ok_or_else(|| malformed("a value that is not a byte sequence"))?;
        if let Some(algorithm) = registered(key.as_str()) {
            let checksum = Checksum::new(algorithm, bytes)
                .ok()
                .ok_or_else(|| malformed("wrong number of bytes"))?;
            found.push(StoredChecksum::full_object(checksum));
        }
    }
    Ok(found)
}

/// IANA's registry "Hash Algorithms for HTTP Digest Fields".
fn registered(key: &str) -> Option<ChecksumAlgorithm> {
    match key {
        "sha-256" => Some(ChecksumAlgorithm::Sha256),
        "sha" => Some(ChecksumAlgorithm::Sha1),
        "md5" => Some(ChecksumAlgorithm::Md5),
        "crc32c" => Some(ChecksumAlgorithm::Crc32c),
        _ => None,
    }
}
