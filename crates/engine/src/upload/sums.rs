//! [`PartSums`]: the checksums of a part. [`WholeSum`]: that of the whole, combined from them.
//!
//! A CRC of every part is computed whatever the remote verifies: it is compared while the bytes are
//! sent, and combined to the CRC of the whole. MD5 is computed in addition where a remote verifies
//! nothing else.

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer, Crc, CrcAlgorithm};

/// The CRC that is computed if the remote verifies none.
const DEFAULT: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// The CRC that is computed for a remote that verifies `algorithm`.
pub(super) fn crc_for(algorithm: Option<ChecksumAlgorithm>) -> CrcAlgorithm {
    algorithm.and_then(ChecksumAlgorithm::crc).unwrap_or(DEFAULT)
}

/// The checksums of the bytes of one request.
#[derive(Clone, Debug)]
pub(super) struct PartSums {
    pub(super) crc: Crc,
    sent: Option<Checksum>,
}

impl PartSums {
    /// Sums from a CRC alone.
    pub(super) fn of_crc(crc: Crc, algorithm: Option<ChecksumAlgorithm>) -> Self {
        let sent = algorithm.filter(|algorithm| algorithm.crc() == Some(crc.algorithm()));
        Self { crc, sent: sent.map(|_| crc.to_checksum()) }
    }

    /// The checksum that goes with the bytes, if the remote verifies one.
    pub(super) fn sent(&self) -> Option<&Checksum> {
        self.sent.as_ref()
    }
}

/// Computes [`PartSums`].
#[derive(Debug)]
pub(super) struct PartSummer {
    crc: Crc,
    other: Option<Checksummer>,
    algorithm: Option<ChecksumAlgorithm>,
}

impl PartSummer {
    pub(super) fn new(algorithm: Option<ChecksumAlgorithm>) -> Self {
        let other = algorithm
            .filter(|algorithm| algorithm.crc().is_none())
            .and_then(|algorithm| Checksummer::new(algorithm).ok());
        Self { crc: Crc::empty(crc_for(algorithm)), other, algorithm }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        if let Some(other) = &mut self.other {
            other.update(bytes);
        }
    }

    pub(super) fn finish(self) -> PartSums {
        let Self { crc, other, algorithm } = self;
        match other {
            Some(other) => PartSums { crc, sent: Some(other.finish()) },
            None => PartSums::of_crc(crc, algorithm),
        }
    }
}

/// The CRC of consecutive parts; `None` once one of them has another algorithm.
pub(super) fn combined<'a>(parts: impl IntoIterator<Item = &'a Crc>) -> Option<Crc> {
    let mut parts = parts.into_iter();
    let first = *parts.next()?;
    parts.try_fold(first, |whole, part| whole.combine(part).ok())
}
