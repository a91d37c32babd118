//! [`Digest`]: a blob's name by its content: hash function, hash and length together.
//!
//! Its text form is `sha256/HEX/LEN`. Every digest has exactly one text form, so texts can be
//! compared and used as keys.

use std::fmt;
use std::str::FromStr;

use crate::checksum::{Checksum, ChecksumAlgorithm, Checksummer};
use crate::excerpt::excerpt;

/// The hash functions that name blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DigestFunction {
    /// SHA-256.
    Sha256,
    /// BLAKE3 with 32 bytes of output.
    Blake3,
}

impl DigestFunction {
    /// The checksum algorithm of this function, for incremental computation.
    pub const fn algorithm(self) -> ChecksumAlgorithm {
        match self {
            Self::Sha256 => ChecksumAlgorithm::Sha256,
            Self::Blake3 => ChecksumAlgorithm::Blake3,
        }
    }

    /// The name in text: `sha256`, `blake3`.
    pub const fn name(self) -> &'static str {
        self.algorithm().name()
    }
}

impl fmt::Display for DigestFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A blob's name by its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    /// The hash function.
    pub function: DigestFunction,
    /// The hash of the blob's bytes.
    pub hash: [u8; 32],
    /// The blob's length in bytes.
    pub len: u64,
}

/// The error of a text that is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a digest such as sha256/HEX/LEN, got {}: {reason}", excerpt(text))]
pub struct DigestError {
    /// The text.
    pub text: String,
    /// The reason.
    pub reason: &'static str,
}

impl Digest {
    /// The digest of a complete byte slice.
    pub fn of(function: DigestFunction, bytes: &[u8]) -> Self {
        // Both functions can be computed, so the fallback is never taken.
        let hash = Checksummer::of(function.algorithm(), bytes)
            .ok()
            .and_then(|checksum| checksum.as_bytes().try_into().ok())
            .unwrap_or_default();
        Self { function, hash, len: bytes.len() as u64 }
    }

    /// Parses `sha256/HEX/LEN`, exactly as displayed.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        Self::parse_reasoned(text).map_err(|reason| DigestError { text: text.to_owned(), reason })
    }

    fn parse_reasoned(text: &str) -> Result<Self, &'static str> {
        let mut fields = text.split('/');
        let (Some(name), Some(hex), Some(digits), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err("not three fields");
        };
        let function = match name {
            "sha256" => DigestFunction::Sha256,
            "blake3" => DigestFunction::Blake3,
            _ => return Err("the hash function is unknown"),
        };
        if hex.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err("the hash is not in lower case");
        }
        let checksum = Checksum::from_hex(function.algorithm(), hex)
            .ok()
            .ok_or("the hash is not 64 hexadecimal digits")?;
        let hash = checksum.as_bytes().try_into().ok().ok_or("the hash is not 32 bytes")?;
        Ok(Self { function, hash, len: length(digits)? })
    }

    /// The hash as a checksum, for comparison with a computed one.
    pub fn checksum(&self) -> Checksum {
        Checksum::from_known(self.function.algorithm(), &self.hash)
    }
}

/// A decimal number in canonical form: no sign, no leading zeros.
fn length(digits: &str) -> Result<u64, &'static str> {
    let canonical = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if !canonical {
        return Err("the length is not a plain decimal number");
    }
    digits.parse().ok().ok_or("the length does not fit into 64 bits")
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.function, self.checksum().hex(), self.len)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Digest, DigestFunction};

    const ABC: &str = "sha256/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad/3";

    #[test]
    fn of_known_bytes() {
        assert_eq!(Digest::of(DigestFunction::Sha256, b"abc").to_string(), ABC);
        assert_eq!(
            Digest::of(DigestFunction::Blake3, b"abc").to_string(),
            "blake3/6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85/3"
        );
    }

    #[test]
    fn only_the_one_form_is_read() {
        for text in [
            String::new(),
            ABC.replace("sha256", "SHA256"),
            ABC.replace("sha256", "md5"),
            ABC.replace("ba78", "BA78"),
            ABC.replace("ba78", "ba7"),
            ABC.replace("ba78", "xx78"),
            ABC.replace("/3", "/"),
            ABC.replace("/3", "/+3"),
            ABC.replace("/3", "/03"),
            ABC.replace("/3", "/-3"),
            ABC.replace("/3", "/18446744073709551616"),
            ABC.replace("/3", "/3/4"),
            ABC.replace("/3", ""),
        ] {
            let error = Digest::parse(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn display_reads_back(hash in any::<[u8; 32]>(), len in any::<u64>(), blake3 in any::<bool>()) {
            let function = if blake3 { DigestFunction::Blake3 } else { DigestFunction::Sha256 };
            let digest = Digest { function, hash, len };
            prop_assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,90}") {
            let _ = Digest::parse(&text);
        }
    }
}
