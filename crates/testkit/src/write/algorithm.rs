//! The checksums that a client may send with a body, and their names in each place.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crc_fast::CrcAlgorithm;
use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::Sha256;

/// A checksum of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc64Nvme,
    Crc32c,
    Crc32,
    Sha256,
    Sha1,
}

/// All of them, in the order in which a request is searched.
pub(crate) const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32, Algorithm::Sha256, Algorithm::Sha1];

impl Algorithm {
    /// Its value of `x-amz-checksum-algorithm`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "CRC64NVME",
            Self::Crc32c => "CRC32C",
            Self::Crc32 => "CRC32",
            Self::Sha256 => "SHA256",
            Self::Sha1 => "SHA1",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        ALGORITHMS.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// The header with its value.
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Sha256 => "x-amz-checksum-sha256",
            Self::Sha1 => "x-amz-checksum-sha1",
        }
    }

    /// The XML element with its value.
    pub(crate) fn element(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "ChecksumCRC64NVME",
            Self::Crc32c => "ChecksumCRC32C",
            Self::Crc32 => "ChecksumCRC32",
            Self::Sha256 => "ChecksumSHA256",
            Self::Sha1 => "ChecksumSHA1",
        }
    }

    /// Whether checksums of parts can be combined to the checksum of the whole.
    pub(crate) fn combines(self) -> bool {
        !matches!(self, Self::Sha256 | Self::Sha1)
    }

    /// The checksum of these bytes alone, as S3 needs it for a checksum of checksums.
    pub(crate) fn over(self, bytes: &[u8]) -> Vec<u8> {
        let mut hasher = Hasher::new(Wanted { md5: false, sha1: true, sha256: true });
        hasher.update(bytes);
        hasher.finish().value(self)
    }
}

/// The hashes beyond the CRCs that a body needs. They take seconds per GiB, the CRCs do not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) md5: bool,
    pub(crate) sha1: bool,
    pub(crate) sha256: bool,
}

/// Computes the checksums of a body piece by piece.
pub(crate) struct Hasher {
    crc64_nvme: crc_fast::Digest,
    crc32c: crc_fast::Digest,
    crc32: crc_fast::Digest,
    md5: Option<Md5>,
    sha1: Option<Sha1>,
    sha256: Option<Sha256>,
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self {
            crc64_nvme: crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme),
            crc32c: crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi),
            crc32: crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc),
            md5: wanted.md5.then(Md5::new),
            sha1: wanted.sha1.then(Sha1::new),
            sha256: wanted.sha256.then(Sha256::new),
        }
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.crc64_nvme.update(piece);
        self.crc32c.update(piece);
        self.crc32.update(piece);
        if let Some(md5) = &mut self.md5 {
            md5.update(piece);
        }
        if let Some(sha1) = &mut self.sha1 {
            sha1.update(piece);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(piece);
        }
    }

    pub(crate) fn finish(self) -> Digests {
        Digests {
            crc64_nvme: self.crc64_nvme.finalize(),
            crc32c: self.crc32c.finalize(),
            crc32: self.crc32.finalize(),
            md5: self.md5.map(|hash| hash.finalize().to_vec()),
            sha1: self.sha1.map(|hash| hash.finalize().to_vec()),
            sha256: self.sha256.map(|hash| hash.finalize().to_vec()),
        }
    }
}

/// The checksums of a body or of an object. The CRCs are always there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) crc64_nvme: u64,
    pub(crate) crc32c: u64,
    pub(crate) crc32: u64,
    pub(crate) md5: Option<Vec<u8>>,
    pub(crate) sha1: Option<Vec<u8>>,
    pub(crate) sha256: Option<Vec<u8>>,
}

impl Digests {
    /// The raw value, big-endian if it is a CRC; empty if it was not computed.
    pub(crate) fn value(&self, algorithm: Algorithm) -> Vec<u8> {
        let narrow = |crc: u64| crc.to_be_bytes()[4..].to_vec();
        match algorithm {
            Algorithm::Crc64Nvme => self.crc64_nvme.to_be_bytes().to_vec(),
            Algorithm::Crc32c => narrow(self.crc32c),
            Algorithm::Crc32 => narrow(self.crc32),
            Algorithm::Sha256 => self.sha256.clone().unwrap_or_default(),
            Algorithm::Sha1 => self.sha1.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn base64(&self, algorithm: Algorithm) -> String {
        STANDARD.encode(self.value(algorithm))
    }

    /// The CRCs of these bytes followed by `len_bytes` bytes with the CRCs `next`.
    pub(crate) fn followed_by(&self, next: &Self, len_bytes: u64) -> Self {
        let combine = crc_fast::checksum_combine;
        Self {
            crc64_nvme: combine(
                CrcAlgorithm::Crc64Nvme,
                self.crc64_nvme,
                next.crc64_nvme,
                len_bytes,
            ),
            crc32c: combine(CrcAlgorithm::Crc32Iscsi, self.crc32c, next.crc32c, len_bytes),
            crc32: combine(CrcAlgorithm::Crc32IsoHdlc, self.crc32, next.crc32, len_bytes),
            md5: None,
            sha1: None,
            sha256: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(bytes: &[u8]) -> Digests {
        let mut hasher = Hasher::new(Wanted::default());
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn checksums_of_parts_combine_to_the_checksum_of_the_whole() {
        let data = crate::pseudo_random(1000, 1);
        for at in [0, 1, 500, 1000] {
            let (head, tail) = data.split_at(at);
            let tail_bytes = u64::try_from(tail.len()).unwrap();
            let whole = digests(head).followed_by(&digests(tail), tail_bytes);
            assert_eq!(whole, digests(&data), "cut at {at}");
        }
        assert_eq!(digests(b"123456789").base64(Algorithm::Crc64Nvme), "rosUhgp5mIg=");
        assert_eq!(digests(b"123456789").base64(Algorithm::Crc32), "y/Q5Jg==");
    }
}
