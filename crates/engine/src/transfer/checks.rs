//! Which checksums are computed during a transfer, and what they verify at the end.
//!
//! A CRC is always computed for each shard, and the shards' CRCs are combined. It costs almost
//! nothing, and the journal needs it. If the remote provides a CRC of the whole blob, that
//! algorithm is used, and a match verifies the blob. The exception is a journal that was begun with
//! another CRC. If the remote provides only a hash, or the user gives one, the bytes are hashed in
//! order during the transfer. A checksum of the parts' checksums cannot verify bytes, and the
//! report says so.

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer, CrcAlgorithm};
use tidegate_core::digest::Digest;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::BlobInfo;
use crate::verified::{Unverified, Verified};

#[derive(Clone, Debug)]
pub(crate) struct Checks {
    /// The CRC that shards compute.
    pub(crate) crc: CrcAlgorithm,
    /// Checksums that are computed in order, in addition to the CRC.
    pub(crate) hashes: Vec<ChecksumAlgorithm>,
    // The caller's first, then the remote's.
    expected: Vec<Checksum>,
    by_hand: usize,
    /// The reason that is reported if no checksum is expected.
    unverified: Unverified,
}

/// The result of verifying a blob.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    pub(crate) computed: Vec<Checksum>,
    pub(crate) verified: Verified,
}

/// Whether a checksum is a cryptographic hash. Bytes can easily be made to match a CRC.
pub(crate) fn is_hash(checksum: &Checksum) -> bool {
    let algorithm = checksum.algorithm();
    algorithm.crc().is_none() && algorithm.is_computable()
}

impl Checks {
    /// Chooses the checksums for a blob that the remote describes as `info`. `journal` is the CRC
    /// of an earlier run's journal. `lookup` is the reason why the remote's checksums are not
    /// available.
    pub(crate) fn choose(
        info: &BlobInfo,
        by_hand: &[Checksum],
        journal: Option<CrcAlgorithm>,
        lookup: Option<Unverified>,
    ) -> Result<Self> {
        let stored = info
            .checksums
            .iter()
            .filter(|stored| stored.is_verifiable())
            .min_by_key(|stored| stored.checksum.algorithm().preference());
        if let Some(stored) = stored {
            unanimous(info, &stored.checksum)?;
        }
        let stored_crc = stored.and_then(|stored| stored.checksum.algorithm().crc());
        let crc = journal.or(stored_crc).unwrap_or(CrcAlgorithm::Crc32c);
        let expected: Vec<Checksum> =
            by_hand.iter().chain(stored.map(|stored| &stored.checksum)).cloned().collect();
        let mut hashes: Vec<ChecksumAlgorithm> = Vec::new();
        for algorithm in expected.iter().map(Checksum::algorithm) {
            if !algorithm.is_computable() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    Operation::Verify,
                    algorithm.name(),
                    "this checksum cannot be computed",
                ));
            }
            if algorithm != crc.algorithm() && !hashes.contains(&algorithm) {
                hashes.push(algorithm);
            }
        }
        let unverified = lookup.unwrap_or_else(|| Unverified::of(&info.checksums));
        Ok(Self { crc, hashes, expected, by_hand: by_hand.len(), unverified })
    }

    /// The checks of a blob that is named by its digest.
    pub(crate) fn of_digest(digest: &Digest) -> Self {
        let checksum = digest.checksum();
        Self {
            crc: CrcAlgorithm::Crc32c,
            hashes: vec![checksum.algorithm()],
            expected: vec![checksum],
            by_hand: 0,
            unverified: Unverified::Partial,
        }
    }

    /// The checks of a part of a blob, which cannot be verified.
    pub(crate) fn none() -> Self {
        Self {
            crc: CrcAlgorithm::Crc32c,
            hashes: Vec::new(),
            expected: Vec::new(),
            by_hand: 0,
            unverified: Unverified::Partial,
        }
    }

    pub(crate) fn hashers(&self) -> Vec<Checksummer> {
        self.hashes.iter().filter_map(|algorithm| Checksummer::new(*algorithm).ok()).collect()
    }

    /// Compares the computed checksums with those expected of `target`.
    pub(crate) fn verify(&self, computed: Vec<Checksum>, target: &str) -> Result<Proof> {
        let mut verified = Vec::new();
        for (index, expected) in self.expected.iter().enumerate() {
            let actual = computed.iter().find(|sum| sum.algorithm() == expected.algorithm());
            match actual {
                Some(actual) if actual == expected => verified.push(expected.clone()),
                actual => {
                    let got = actual.map_or("nothing".to_owned(), ToString::to_string);
                    let message = format!("expected {expected}, got {got}");
                    let error =
                        Error::new(ErrorKind::Integrity, Operation::Verify, target, message);
                    return Err(if index < self.by_hand {
                        error.with_hint("check the checksum that was given, and the blob's name")
                    } else {
                        error
                    });
                }
            }
        }
        let verified = if verified.is_empty() {
            Verified::Not(self.unverified.clone())
        } else {
            Verified::By(verified)
        };
        Ok(Proof { computed, verified })
    }
}

/// Refuses a remote that gives two values for the chosen checksum.
fn unanimous(info: &BlobInfo, chosen: &Checksum) -> Result<()> {
    let mut others = info.checksums.iter().filter(|stored| {
        let same = stored.checksum.algorithm() == chosen.algorithm();
        stored.is_verifiable() && same && stored.checksum != *chosen
    });
    let Some(other) = others.next() else { return Ok(()) };
    let message = format!("the server names two values, {chosen} and {}", other.checksum);
    let algorithm = chosen.algorithm().name();
    Err(Error::new(ErrorKind::Integrity, Operation::Verify, algorithm, message))
}

#[cfg(test)]
mod tests {
    use tidegate_core::checksum::{Coverage, StoredChecksum};

    use super::*;

    fn sum(algorithm: ChecksumAlgorithm) -> Checksum {
        Checksummer::of(algorithm, b"abc").unwrap()
    }

    fn info(algorithms: &[(ChecksumAlgorithm, Coverage)]) -> BlobInfo {
        let checksums = algorithms
            .iter()
            .map(|(algorithm, coverage)| StoredChecksum {
                checksum: sum(*algorithm),
                coverage: *coverage,
            })
            .collect();
        BlobInfo { checksums, ..BlobInfo::default() }
    }

    #[test]
    fn the_remotes_crc_is_preferred_to_its_hash() {
        let info = info(&[
            (ChecksumAlgorithm::Md5, Coverage::FullObject),
            (ChecksumAlgorithm::Crc64Nvme, Coverage::FullObject),
        ]);
        let checks = Checks::choose(&info, &[], None, None).unwrap();
        assert_eq!((checks.crc, checks.hashes.len()), (CrcAlgorithm::Crc64Nvme, 0));
    }

    #[test]
    fn a_lone_hash_is_computed_in_order() {
        let info = info(&[(ChecksumAlgorithm::Md5, Coverage::FullObject)]);
        let checks = Checks::choose(&info, &[], None, None).unwrap();
        assert_eq!(checks.hashes, [ChecksumAlgorithm::Md5]);
        assert!(checks.verify(vec![sum(ChecksumAlgorithm::Md5)], "x").is_ok());
        let wrong = Checksummer::of(ChecksumAlgorithm::Md5, b"abd").unwrap();
        assert_eq!(checks.verify(vec![wrong], "x").unwrap_err().kind(), ErrorKind::Integrity);
        assert!(checks.verify(vec![], "x").is_err(), "what was not computed proves nothing");
    }

    #[test]
    fn a_composite_checksum_verifies_nothing_and_says_so() {
        let composite = Coverage::Composite { parts: Some(3) };
        let checks =
            Checks::choose(&info(&[(ChecksumAlgorithm::Crc32c, composite)]), &[], None, None)
                .unwrap();
        let proof = checks.verify(vec![sum(ChecksumAlgorithm::Crc32c)], "x").unwrap();
        let reason = Unverified::Composite(ChecksumAlgorithm::Crc32c);
        assert_eq!(proof.verified, Verified::Not(reason));
    }

    #[test]
    fn the_hint_says_that_a_wrong_checksum_was_given() {
        let wrong = Checksummer::of(ChecksumAlgorithm::Sha256, b"other").unwrap();
        let checks = Checks::choose(&info(&[]), &[wrong], None, None).unwrap();
        let error = checks.verify(vec![sum(ChecksumAlgorithm::Sha256)], "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity);
        assert!(error.hint().unwrap().contains("given"), "{error:?}");
    }

    #[test]
    fn a_journal_of_another_crc_makes_the_remotes_be_computed_in_order() {
        let info = info(&[(ChecksumAlgorithm::Crc64Nvme, Coverage::FullObject)]);
        let checks = Checks::choose(&info, &[], Some(CrcAlgorithm::Crc32c), None).unwrap();
        assert_eq!(checks.crc, CrcAlgorithm::Crc32c);
        assert_eq!(checks.hashes, [ChecksumAlgorithm::Crc64Nvme]);
    }
}
