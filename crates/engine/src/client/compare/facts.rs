//! What is known of two blobs, and whether that is proof.

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Coverage};

use super::local::LocalCopy;
use super::{Comparison, Difference};
use crate::read::{Lookup, PartsCheck, md5_of_entity_tag};
use crate::remote::BlobInfo;
use crate::verified::{PartsChecksum, Unverified, Verified};

/// What is known of one blob.
pub(super) enum Side {
    /// A local file, which any checksum can be computed of.
    File(LocalCopy),
    Remote(Box<RemoteCopy>),
    Expected(Vec<Checksum>),
}

pub(super) struct RemoteCopy {
    pub(super) info: BlobInfo,
    pub(super) unverified: Option<Unverified>,
    pub(super) parts: Option<PartsCheck>,
    pub(super) lookup: Lookup,
}

impl Side {
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Self::File(file) => Some(file.len),
            Self::Remote(remote) => remote.info.len_bytes,
            Self::Expected(_) => None,
        }
    }

    /// Checksums of the whole blob that are known without reading it.
    pub(super) fn whole(&self) -> Vec<Checksum> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Remote(remote) => remote.whole(),
            Self::Expected(expected) => expected.clone(),
        }
    }
}

impl RemoteCopy {
    pub(super) fn whole(&self) -> Vec<Checksum> {
        let stored = self.info.checksums.iter().filter(|stored| stored.is_verifiable());
        stored.map(|stored| stored.checksum.clone()).collect()
    }

    /// The MD5 in the entity tag of an object of S3. Two tags of other servers may be equal although
    /// the blobs differ: a tag distinguishes only versions of one blob.
    fn md5_of_s3(&self) -> Option<(Checksum, Option<u32>)> {
        let is_s3 = self.lookup.location.remote.scheme() == "s3";
        md5_of_entity_tag(&self.info).filter(|_| is_s3)
    }

    pub(super) fn why_unverified(&self) -> Unverified {
        self.unverified.clone().unwrap_or_else(|| Unverified::of(&self.info.checksums))
    }
}

/// Compares two blobs by what is known of them, where neither is a file.
pub(super) fn by_facts(one: &Side, other: &Side) -> Comparison {
    let compared = compared(&one.whole(), &other.whole());
    if !matches!(compared, Comparison::Unknown(_)) {
        return compared;
    }
    let (Side::Remote(one), Side::Remote(other)) = (one, other) else { return compared };
    let mut shared = composites(&one.info);
    let shared = shared.find(|found| composites(&other.info).any(|same| same == *found));
    if let Some((checksum, parts)) = shared {
        return Comparison::Same(Verified::ByParts(PartsChecksum { checksum, parts }));
    }
    match (one.md5_of_s3(), other.md5_of_s3()) {
        (Some((one, None)), Some((other, None))) if one == other => {
            Comparison::Same(Verified::By(vec![one]))
        }
        (Some((one, Some(parts))), Some((other, Some(same)))) if one == other && parts == same => {
            Comparison::Same(Verified::ByParts(PartsChecksum { checksum: one, parts }))
        }
        _ => compared,
    }
}

/// Composite checksums with the number of their parts.
fn composites(info: &BlobInfo) -> impl Iterator<Item = (Checksum, u32)> + '_ {
    info.checksums.iter().filter_map(|stored| match stored.coverage {
        Coverage::Composite { parts: Some(parts) } => Some((stored.checksum.clone(), parts)),
        _ => None,
    })
}

/// Compares the checksums of both that have the same algorithm. One that differs decides.
pub(super) fn compared(one: &[Checksum], other: &[Checksum]) -> Comparison {
    let mut same: Vec<Checksum> = Vec::new();
    for (one, other) in one.iter().flat_map(|one| other.iter().map(move |other| (one, other))) {
        if one.algorithm() != other.algorithm() {
            continue;
        }
        if one != other {
            let (one, other) = (one.clone(), other.clone());
            return Comparison::Different(Difference::Checksum { one, other });
        }
        if !same.contains(one) {
            same.push(one.clone());
        }
    }
    if same.is_empty() {
        return Comparison::Unknown(Unverified::NoSharedChecksum);
    }
    Comparison::Same(Verified::By(same))
}

pub(super) fn algorithms(checksums: &[Checksum]) -> Vec<ChecksumAlgorithm> {
    let mut algorithms: Vec<ChecksumAlgorithm> =
        checksums.iter().map(Checksum::algorithm).filter(|one| one.is_computable()).collect();
    algorithms.sort_by_key(|algorithm| algorithm.name());
    algorithms.dedup();
    algorithms
}
