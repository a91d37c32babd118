//! The checksums that a server may send, computed from any bytes.
//!
//! The generator sends them and the oracle compares them. Neither uses the engine's code.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha2::{Digest as _, Sha256};

/// An algorithm, by the name that the engine's reports give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sum {
    /// CRC-32C.
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// MD5.
    Md5,
    /// SHA-256.
    Sha256,
}

impl Sum {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Crc64Nvme => "crc64nvme",
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
        }
    }

    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Crc32c, Self::Crc64Nvme, Self::Md5, Self::Sha256]
            .into_iter()
            .find(|sum| sum.name() == name)
    }

    /// The checksum of `bytes`, big-endian.
    pub fn of(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Crc32c => {
                let crc = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
                crc.to_be_bytes()[4..].to_vec()
            }
            Self::Crc64Nvme => {
                crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes).to_be_bytes().to_vec()
            }
            Self::Md5 => Md5::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    /// The length of a value in bytes.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }
}

/// A value as headers write it.
pub(crate) fn base64(value: &[u8]) -> String {
    STANDARD.encode(value)
}

/// A value of `sum` from a header; `None` if the text is not a value.
pub(crate) fn value(sum: Sum, text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.trim()).ok().filter(|value| value.len() == sum.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the CRC catalogue, RFC 1321 and FIPS 180 for "123456789".
    #[test]
    fn agrees_with_published_check_values() {
        let of = |sum: Sum| base64(&sum.of(b"123456789"));
        assert_eq!(of(Sum::Crc32c), "4waSgw==");
        assert_eq!(of(Sum::Crc64Nvme), "rosUhgp5mIg=");
        assert_eq!(of(Sum::Md5), "JfnnlDI7RTiF9RgfG2JNCw==");
        assert_eq!(of(Sum::Sha256), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
    }
}
