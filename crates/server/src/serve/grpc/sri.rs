//! [`Integrity`]: a checksum in the form of Subresource Integrity (W3C), `sha256-` and base 64.
//!
//! Only SHA-256 is computed when a blob is stored. A text that has stronger hashes as well is taken by
//! its SHA-256; one that has none is refused.

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};

/// The SHA-256 that a blob must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integrity(pub(super) [u8; 32]);

impl Integrity {
    /// The text of `checksum.sri`: hashes with spaces between them, each with options behind `?`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let hash = text.split_ascii_whitespace().find_map(|hash| hash.strip_prefix("sha256-"));
        let hash = hash.ok_or("checksum.sri has no sha256-; no other function is supported")?;
        let hash = hash.split('?').next().unwrap_or_default();
        let checksum = Checksum::from_base64(ChecksumAlgorithm::Sha256, hash).ok();
        let bytes = checksum.and_then(|checksum| checksum.as_bytes().try_into().ok());
        bytes.map(Self).ok_or("the SHA-256 in checksum.sri is not 32 bytes in base 64")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_the_web() {
        let empty = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        let expected = Checksum::from_hex(
            ChecksumAlgorithm::Sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        )
        .unwrap();
        for text in [empty.to_owned(), format!("sha512-x  {empty}"), format!("{empty}?ct=a/b")] {
            assert_eq!(&Integrity::parse(&text).unwrap().0[..], expected.as_bytes(), "{text}");
        }
        for text in ["", "sha384-x", "sha256-", "sha256-AAAA", "sha256", "md5-x"] {
            assert!(Integrity::parse(text).is_err(), "{text}");
        }
    }
}
