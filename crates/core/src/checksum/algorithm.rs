//! [`ChecksumAlgorithm`]: names, sizes, and the order in which verification prefers them.
//!
//! The computation is in [`Checksummer`](super::Checksummer).

use std::fmt;
use std::str::FromStr;

use super::{ChecksumError, CrcAlgorithm};

/// A checksum algorithm that servers send or users ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChecksumAlgorithm {
    /// CRC-32/ISCSI (Castagnoli), RFC 3720. GCS stores it for every object.
    Crc32c,
    /// CRC-64/NVME. S3 stores it for every new object.
    Crc64Nvme,
    /// CRC-32/ISO-HDLC, as in gzip and zip.
    Crc32,
    /// MD5, RFC 1321. It detects accidents, but gives no protection against an adversary.
    Md5,
    /// SHA-1, FIPS 180-4. It detects accidents, but gives no protection against an adversary.
    Sha1,
    /// SHA-256, FIPS 180-4.
    Sha256,
    /// BLAKE3 with 32 bytes of output.
    Blake3,
}

impl ChecksumAlgorithm {
    /// All algorithms, in the order in which verification prefers them. CRCs come first, because
    /// those of shards can be combined in any order and cost almost nothing. The rest are ordered
    /// by their strength, then by their speed on one core.
    pub const ALL: [Self; 7] = [
        Self::Crc64Nvme,
        Self::Crc32c,
        Self::Crc32,
        Self::Blake3,
        Self::Sha256,
        Self::Md5,
        Self::Sha1,
    ];

    /// The name in text, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Crc64Nvme => "crc64nvme",
            Self::Crc32 => "crc32",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Blake3 => "blake3",
        }
    }

    /// Length of a value in bytes.
    pub const fn len_bytes(self) -> usize {
        match self {
            Self::Crc32c | Self::Crc32 => 4,
            Self::Crc64Nvme => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 | Self::Blake3 => 32,
        }
    }

    /// Whether the values of two adjacent pieces can be combined, so that shards can be checksummed
    /// separately.
    pub const fn is_combinable(self) -> bool {
        self.crc().is_some()
    }

    /// Whether [`Checksummer`](super::Checksummer) can compute it.
    pub const fn is_computable(self) -> bool {
        match self {
            Self::Crc32c
            | Self::Crc64Nvme
            | Self::Crc32
            | Self::Md5
            | Self::Sha1
            | Self::Sha256
            | Self::Blake3 => true,
        }
    }

    /// Position in the order of preference for verification; the lowest is preferred.
    pub const fn preference(self) -> u8 {
        match self {
            Self::Crc64Nvme => 0,
            Self::Crc32c => 1,
            Self::Crc32 => 2,
            Self::Blake3 => 3,
            Self::Sha256 => 4,
            Self::Md5 => 5,
            Self::Sha1 => 6,
        }
    }

    /// The CRC algorithm, if this is a CRC.
    pub const fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32c => Some(CrcAlgorithm::Crc32c),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Crc32 => Some(CrcAlgorithm::Crc32),
            Self::Md5 | Self::Sha1 | Self::Sha256 | Self::Blake3 => None,
        }
    }
}

impl fmt::Display for ChecksumAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// From its [name](ChecksumAlgorithm::name), in any case.
impl FromStr for ChecksumAlgorithm {
    type Err = ChecksumError;

    fn from_str(text: &str) -> Result<Self, ChecksumError> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ChecksumError::UnknownAlgorithm { name: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::ChecksumAlgorithm;

    #[test]
    fn all_are_in_order_of_preference_and_named_unambiguously() {
        for (index, algorithm) in ChecksumAlgorithm::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(algorithm.preference()), index);
            assert_eq!(algorithm.name().to_uppercase().parse(), Ok(algorithm));
        }
        assert!(
            "sha-512".parse::<ChecksumAlgorithm>().unwrap_err().to_string().contains("sha-512")
        );
    }

    #[test]
    fn combinable_ones_are_preferred() {
        let combinable: Vec<bool> =
            ChecksumAlgorithm::ALL.into_iter().map(ChecksumAlgorithm::is_combinable).collect();
        assert_eq!(combinable, [true, true, true, false, false, false, false]);
    }
}
