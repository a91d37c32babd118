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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn sums(bytes: &[u8], algorithm: Option<ChecksumAlgorithm>) -> PartSums {
        let mut summer = PartSummer::new(algorithm);
        for piece in bytes.chunks(7) {
            summer.update(piece);
        }
        summer.finish()
    }

    proptest! {
        /// Parts end in any order; the CRC of the whole is combined in the order of their numbers.
        #[test]
        fn the_parts_have_the_crc_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
            cuts in proptest::collection::vec(0..2_000_usize, 0..12),
            seed in any::<u64>(),
        ) {
            for algorithm in [ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Crc32c] {
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
                cuts.extend([0, bytes.len()]);
                cuts.sort_unstable();
                let parts = cuts.windows(2).map(|cut| sums(&bytes[cut[0]..cut[1]], Some(algorithm)));
                let mut numbered: Vec<(usize, Crc)> =
                    parts.map(|sums| sums.crc).enumerate().collect();
                let turns = usize::try_from(seed % 13).unwrap() % numbered.len();
                numbered.rotate_left(turns);
                let done: BTreeMap<usize, Crc> = numbered.into_iter().collect();
                let whole = sums(&bytes, Some(algorithm));
                prop_assert_eq!(combined(done.values()), Some(whole.crc));
                prop_assert_eq!(whole.sent().cloned(), Checksummer::of(algorithm, &bytes).ok());
            }
        }
    }

    #[test]
    fn a_remote_that_verifies_md5_gets_it_beside_the_crc() {
        let sums = sums(b"abc", Some(ChecksumAlgorithm::Md5));
        assert_eq!(sums.sent().cloned(), Checksummer::of(ChecksumAlgorithm::Md5, b"abc").ok());
        assert_eq!(sums.crc, Crc::of(DEFAULT, b"abc"));
    }

    #[test]
    fn crcs_of_two_algorithms_or_of_nothing_have_no_whole() {
        let (one, other) = (CrcAlgorithm::Crc64Nvme, CrcAlgorithm::Crc32c);
        assert_eq!(combined(&[Crc::of(one, b"a"), Crc::of(other, b"b")]), None);
        assert_eq!(combined(&[]), None);
    }
}
