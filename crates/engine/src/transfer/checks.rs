//! Which checksums are computed during a transfer, and what they verify at the end.
//!
//! A CRC is always computed for each shard, and the shards' CRCs are combined. It costs almost
//! nothing, and the journal needs it. If the remote provides a CRC of the whole blob, that
//! algorithm is used, and a match verifies the blob. The exception is a journal that was begun with
//! another CRC. If the remote provides only a hash, or the user gives one, the bytes are hashed in
//! order during the transfer. A composite checksum is compared if the parts are known and nothing
//! else is: from the shards' CRCs, which are then kept apart at the ends of the parts, or by hashing
//! in order.

use tidegate_core::checksum::{
    Checksum, ChecksumAlgorithm, Checksummer, CompositeChecksummer, CrcAlgorithm, PartLayout,
};
use tidegate_core::digest::Digest;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{Lookup, PartsCheck, md5_of_entity_tag};
use crate::remote::BlobInfo;
use crate::sink::Mark;
use crate::sink::hashers::{Hashers, Sums};
use crate::verified::{PartsChecksum, Unverified, Verified};

#[derive(Clone, Debug)]
pub(crate) struct Checks {
    /// The CRC that shards compute.
    pub(crate) crc: CrcAlgorithm,
    /// Checksums that are computed in order, in addition to the CRC.
    pub(crate) hashes: Vec<ChecksumAlgorithm>,
    // The caller's first, then the remote's.
    expected: Vec<Checksum>,
    by_hand: usize,
    /// Compared if nothing else is expected.
    parts: Option<PartsToCheck>,
    /// The MD5 in the entity tag: a match is a proof, a mismatch is not.
    entity_tag: Option<Checksum>,
    /// Compare the CRC of the written bytes, read back, with that of the units.
    reads_back: bool,
    /// The reason that is reported if no checksum is expected.
    unverified: Unverified,
}

/// A composite checksum to compare, and whom to ask for the sizes of its parts.
#[derive(Clone, Debug)]
pub(crate) struct PartsToCheck {
    pub(crate) check: PartsCheck,
    pub(crate) lookup: Lookup,
    /// The CRCs of the shards give the checksum, so no byte is hashed in order.
    by_crc: bool,
}

impl PartsToCheck {
    pub(crate) fn new(check: PartsCheck, lookup: Lookup) -> Self {
        Self { check, lookup, by_crc: false }
    }

    fn proof(&self) -> Verified {
        let PartsCheck { expected, layout, .. } = &self.check;
        Verified::ByParts(PartsChecksum { checksum: expected.clone(), parts: layout.count() })
    }
}

/// What is known when the checksums are chosen, in addition to the remote's description.
#[derive(Debug, Default)]
pub(crate) struct ChecksOptions<'a> {
    /// Checksums that the caller expects.
    pub(crate) by_hand: &'a [Checksum],
    /// The CRC of an earlier run's journal.
    pub(crate) journal: Option<CrcAlgorithm>,
    /// The bytes of that run whose CRCs are known.
    pub(crate) resumed: &'a [Mark],
    /// Why the remote's checksums are not available.
    pub(crate) lookup: Option<Unverified>,
    /// A composite checksum with known parts.
    pub(crate) parts: Option<PartsToCheck>,
    /// Compare the entity tag if nothing else can be compared.
    pub(crate) entity_tag: bool,
    /// Source and target are files. If no checksum is known, what was written is read back.
    pub(crate) is_file_copy: bool,
}

/// The result of a comparison.
#[derive(Debug)]
pub(crate) enum Verdict {
    Proof(Proof),
    /// A composite checksum does not match, with sizes of parts that are only inferred. If they are
    /// right, `error` is the outcome.
    Inferred {
        computed: Vec<Checksum>,
        error: Error,
    },
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
    /// Chooses the checksums for a blob that the remote describes as `info`.
    pub(crate) fn choose(info: &BlobInfo, options: ChecksOptions<'_>) -> Result<Self> {
        let ChecksOptions { by_hand, journal, resumed, lookup, parts, .. } = options;
        let ChecksOptions { entity_tag, is_file_copy, .. } = options;
        let stored = info
            .checksums
            .iter()
            .filter(|stored| stored.is_verifiable())
            .min_by_key(|stored| stored.checksum.algorithm().preference());
        if let Some(stored) = stored {
            unanimous(info, &stored.checksum)?;
        }
        let stored_crc = stored.and_then(|stored| stored.checksum.algorithm().crc());
        let mut parts = parts.filter(|_| stored.is_none() && by_hand.is_empty());
        let parts_crc = parts.as_ref().and_then(|parts| parts.check.expected.algorithm().crc());
        let crc = journal.or(stored_crc).or(parts_crc).unwrap_or(CrcAlgorithm::Crc32c);
        if let Some(parts) = &mut parts {
            let in_one =
                |mark: &Mark| parts.check.layout.holds(&(mark.start..mark.start + mark.crc.len()));
            parts.by_crc = parts_crc == Some(crc) && resumed.iter().all(in_one);
        }
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
        let mut unverified = lookup.unwrap_or_else(|| Unverified::of(&info.checksums));
        let wants_tag = entity_tag && expected.is_empty() && parts.is_none();
        let entity_tag = md5_of_entity_tag(info)
            .filter(|(_, parts)| wants_tag && parts.is_none())
            .map(|(md5, _)| md5);
        if entity_tag.is_some() {
            hashes.push(ChecksumAlgorithm::Md5);
        } else if wants_tag && unverified == Unverified::NoChecksum {
            unverified = Unverified::NoEntityTag;
        }
        let reads_back = is_file_copy && expected.is_empty();
        if reads_back {
            hashes.push(crc.algorithm());
        }
        let by_hand = by_hand.len();
        Ok(Self { crc, hashes, expected, by_hand, parts, entity_tag, reads_back, unverified })
    }

    /// The checks of a blob that is named by its digest.
    pub(crate) fn of_digest(digest: &Digest) -> Self {
        let checksum = digest.checksum();
        Self {
            crc: CrcAlgorithm::Crc32c,
            hashes: vec![checksum.algorithm()],
            expected: vec![checksum],
            by_hand: 0,
            parts: None,
            entity_tag: None,
            reads_back: false,
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
            parts: None,
            entity_tag: None,
            reads_back: false,
            unverified: Unverified::Partial,
        }
    }

    /// Whether a checksum of the whole blob decides at the end: a difference fails the transfer.
    pub(crate) fn decide(&self) -> bool {
        let by_parts = self.parts.as_ref().is_some_and(|parts| !parts.check.is_entity_tag);
        !self.expected.is_empty() || by_parts
    }

    pub(crate) fn hashers(&self) -> Hashers {
        let whole = self.hashes.iter().filter_map(|algorithm| Checksummer::new(*algorithm).ok());
        let parts = self.parts.as_ref().filter(|parts| !parts.by_crc).and_then(|parts| {
            let PartsCheck { expected, layout, .. } = &parts.check;
            CompositeChecksummer::new(expected.algorithm(), layout.clone()).ok()
        });
        Hashers::new(whole.collect(), parts)
    }

    /// The parts whose CRCs the shards must keep apart.
    pub(crate) fn crc_layout(&self) -> Option<&PartLayout> {
        self.parts.as_ref().filter(|parts| parts.by_crc).map(|parts| &parts.check.layout)
    }

    /// The composite checksum to compare.
    pub(crate) fn parts(&self) -> Option<&PartsToCheck> {
        self.parts.as_ref()
    }

    /// Compares the computed checksums with those expected of `target`.
    pub(crate) fn verify(&self, sums: Sums, target: &str) -> Result<Verdict> {
        let Sums { whole: computed, parts: composite } = sums;
        if self.reads_back {
            return self.compare_copy(computed, target);
        }
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
        if !verified.is_empty() {
            return Ok(Verdict::Proof(Proof { computed, verified: Verified::By(verified) }));
        }
        if let Some(parts) = &self.parts {
            return parts.compare(computed, composite, target);
        }
        let verified = match &self.entity_tag {
            Some(tag) if computed.contains(tag) => Verified::By(vec![tag.clone()]),
            Some(_) => Verified::Not(Unverified::EntityTagDiffers),
            None => Verified::Not(self.unverified.clone()),
        };
        Ok(Verdict::Proof(Proof { computed, verified }))
    }
}

impl Checks {
    /// Compares the CRC of the bytes that were read with that of the bytes that were written.
    fn compare_copy(&self, mut computed: Vec<Checksum>, target: &str) -> Result<Verdict> {
        let of_crc = |sum: &Checksum| sum.algorithm() == self.crc.algorithm();
        let written = computed.iter().rposition(of_crc).map(|index| computed.remove(index));
        let read = computed.iter().find(|sum| of_crc(sum)).cloned();
        match (read, written) {
            (Some(read), Some(written)) if read == written => {
                let verified = Verified::ReadBack(read);
                Ok(Verdict::Proof(Proof { computed, verified }))
            }
            (read, written) => {
                let shown = |sum: Option<Checksum>| sum.map_or("nothing".into(), |s| s.to_string());
                let (read, written) = (shown(read), shown(written));
                let message = format!("read {read}, but read back {written} from the target");
                Err(Error::new(ErrorKind::Integrity, Operation::Verify, target, message))
            }
        }
    }
}

impl PartsToCheck {
    /// Compares the composite checksum of the parts.
    pub(crate) fn compare(
        &self,
        computed: Vec<Checksum>,
        composite: Option<Checksum>,
        target: &str,
    ) -> Result<Verdict> {
        let PartsCheck { expected, layout, is_inferred, is_entity_tag } = &self.check;
        let verified = match composite {
            Some(actual) if actual == *expected => self.proof(),
            _ if *is_entity_tag => Verified::Not(Unverified::EntityTagDiffers),
            actual => {
                let got = actual.map_or("nothing".to_owned(), |actual| actual.to_string());
                let count = layout.count();
                let message = format!("expected {expected} of the {count} parts, got {got}");
                let error = Error::new(ErrorKind::Integrity, Operation::Verify, target, message);
                return if *is_inferred {
                    Ok(Verdict::Inferred { computed, error })
                } else {
                    Err(error)
                };
            }
        };
        Ok(Verdict::Proof(Proof { computed, verified }))
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

    fn sums(whole: Vec<Checksum>) -> Sums {
        Sums { whole, parts: None }
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
        let checks = Checks::choose(&info, ChecksOptions::default()).unwrap();
        assert_eq!((checks.crc, checks.hashes.len()), (CrcAlgorithm::Crc64Nvme, 0));
    }

    #[test]
    fn a_lone_hash_is_computed_in_order() {
        let info = info(&[(ChecksumAlgorithm::Md5, Coverage::FullObject)]);
        let checks = Checks::choose(&info, ChecksOptions::default()).unwrap();
        assert_eq!(checks.hashes, [ChecksumAlgorithm::Md5]);
        assert!(checks.verify(sums(vec![sum(ChecksumAlgorithm::Md5)]), "x").is_ok());
        let wrong = Checksummer::of(ChecksumAlgorithm::Md5, b"abd").unwrap();
        assert_eq!(checks.verify(sums(vec![wrong]), "x").unwrap_err().kind(), ErrorKind::Integrity);
        assert!(checks.verify(sums(vec![]), "x").is_err(), "what was not computed proves nothing");
    }

    #[test]
    fn a_composite_checksum_of_unknown_parts_verifies_nothing_and_says_so() {
        let composite = Coverage::Composite { parts: Some(3) };
        let info = info(&[(ChecksumAlgorithm::Crc32c, composite)]);
        let checks = Checks::choose(&info, ChecksOptions::default()).unwrap();
        let verdict = checks.verify(sums(vec![sum(ChecksumAlgorithm::Crc32c)]), "x").unwrap();
        let Verdict::Proof(proof) = verdict else { panic!("no sizes are inferred") };
        let reason = Unverified::Composite(ChecksumAlgorithm::Crc32c);
        assert_eq!(proof.verified, Verified::Not(reason));
    }

    #[test]
    fn the_hint_says_that_a_wrong_checksum_was_given() {
        let wrong = Checksummer::of(ChecksumAlgorithm::Sha256, b"other").unwrap();
        let options = ChecksOptions { by_hand: &[wrong], ..ChecksOptions::default() };
        let checks = Checks::choose(&info(&[]), options).unwrap();
        let error = checks.verify(sums(vec![sum(ChecksumAlgorithm::Sha256)]), "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity);
        assert!(error.hint().unwrap().contains("given"), "{error:?}");
    }

    #[test]
    fn a_journal_of_another_crc_makes_the_remotes_be_computed_in_order() {
        let info = info(&[(ChecksumAlgorithm::Crc64Nvme, Coverage::FullObject)]);
        let journal = Some(CrcAlgorithm::Crc32c);
        let options = ChecksOptions { journal, ..ChecksOptions::default() };
        let checks = Checks::choose(&info, options).unwrap();
        assert_eq!(checks.crc, CrcAlgorithm::Crc32c);
        assert_eq!(checks.hashes, [ChecksumAlgorithm::Crc64Nvme]);
    }
}
