//! Resumes an earlier run: which checks its bytes need, and the first request for the rest.
//!
//! A journal names its blob by a URL without secrets, a version, and keyed hashes of everything
//! that selected the object. If these are the same, the version pins the content, and no other
//! check is needed. If they differ, the bytes may belong to another object that happens to have
//! this version. Then a checksum must tie the bytes to this object:
//!
//! | journal | what differs | accepted if |
//! |---|---|---|
//! | sealed | nothing | |
//! | sealed | only parts that grant access, such as a URL's signature | the revision is the same, or the whole blob has a checksum |
//! | sealed | anything else that selects, or it is not known | the whole blob has a checksum |
//! | sealed | it is of another mirror, or of several | the whole blob has a checksum |
//! | not known to be ours | | the whole blob has a hash, which cannot be forged as a CRC can |

use tidegate_core::checksum::Checksum;
use tidegate_core::extents::Extents;
use tidegate_core::range::ByteRange;

use super::Job;
use super::opening::{Opening, channel, facts, first_bytes, lookup};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{Facts, Known, RangeStream};
use crate::remote::{BlobInfo, Version};
use crate::sink::Mark;
use crate::sink::file::journal::{Found, Identity, Selected};
use crate::sink::file::part_file::verified_marks;
use crate::sink::file::target::storage_error;
use crate::transfer::blocking::blocking;
use crate::transfer::checks::is_hash;
use crate::transfer::target::Prepared;

/// Note for the user when the checksum of the whole blob did not match after a resume.
pub(super) const NOT_OF_THIS_BLOB: &str =
    "what an earlier attempt had left was not of this blob: started again";

/// Which check shows that the bytes of an earlier run belong to this blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequiredProof {
    /// None: it is already known.
    Known,
    /// A checksum of the whole blob.
    ByChecksum,
    /// A hash of the whole blob.
    ByHash,
}

/// The resumed bytes were not of this blob: the checksum of the whole blob did not match.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefutedResume {
    pub(super) bytes: u64,
    pub(super) resumed_bytes: u64,
}

/// The outcome of a resume.
pub(super) enum Resumption {
    Resumed(Box<Opening>),
    /// The journal is not trusted, for this reason.
    Declined(String),
}

/// The check that a journal of `identity` needs. `selected` is this run's selection, and `info` is
/// the remote's current description.
fn required_proof(
    identity: &Identity,
    is_sealed: bool,
    selected: Option<Selected>,
    info: &BlobInfo,
) -> RequiredProof {
    let (Some(then), Some(now), true) = (identity.selected, selected, is_sealed) else {
        return if is_sealed { RequiredProof::ByChecksum } else { RequiredProof::ByHash };
    };
    let is_same_revision = identity.revision.is_some() && identity.revision == info.revision;
    if then == now || then.object == now.object && is_same_revision {
        RequiredProof::Known
    } else {
        RequiredProof::ByChecksum
    }
}

/// Whether a checksum is available for the check of `required_proof`.
pub(super) fn can_prove(
    required_proof: RequiredProof,
    info: &BlobInfo,
    by_hand: &[Checksum],
) -> bool {
    let stored = info.checksums.iter().filter(|stored| stored.is_verifiable());
    let mut all = stored.map(|stored| &stored.checksum).chain(by_hand);
    match required_proof {
        RequiredProof::Known => true,
        RequiredProof::ByChecksum => all.any(|checksum| checksum.algorithm().is_computable()),
        RequiredProof::ByHash => all.any(is_hash),
    }
}

/// Why a journal is not trusted.
fn refusal(required_proof: RequiredProof) -> String {
    let why = match required_proof {
        RequiredProof::Known => "",
        RequiredProof::ByChecksum => {
            "its URL, user, endpoint, headers or mirrors were others, and the server gives no \
             checksum that would prove it to be the same object"
        }
        RequiredProof::ByHash => {
            "there is no key that tells its part file from bytes of a server, and the server gives \
             no hash that would"
        }
    };
    format!("the earlier attempt was not resumed: {why}")
}

/// Resumes an earlier run: requests the first gap, pinned to the version in the journal. Fails with
/// `Changed` or a similar kind if the blob has another version now.
pub(super) async fn resume(
    job: &Job<'_>,
    target: &mut Prepared,
    found: Found,
) -> Result<Resumption> {
    let Job { location, options, .. } = *job;
    let Found { identity, marks, journal, is_sealed } = found;
    let len = identity.len_bytes;
    // Another mirror has versions of its own, which are not compared.
    let is_of_another = identity.source != location.display();
    let version = (!is_of_another).then(|| identity.version.clone());
    let asked = ask(job, version.clone(), len, &marks).await?;
    let (channel, Facts { info, unverified, parts }) = asked;
    let ignores_ranges = channel.as_ref().is_some_and(RangeStream::ignores_ranges);
    let has_other_coding = identity.coding.is_some() && identity.coding != Known::of(&info).coding;
    if info.version.is_none()
        || version.is_some() && info.version != version
        || info.len_bytes != Some(len)
        || has_other_coding
        || ignores_ranges
    {
        return Err(Error::new(
            ErrorKind::Changed,
            Operation::Read,
            location.display(),
            "it is not the version that the earlier attempt began",
        ));
    }
    let selected = match target {
        _ if is_of_another => None,
        Prepared::File { part, .. } => part.selected(location.selection().as_ref()),
        _ => None,
    };
    let required_proof = required_proof(&identity, is_sealed, selected, &info);
    if !can_prove(required_proof, &info, &options.expected) {
        return Ok(Resumption::Declined(refusal(required_proof)));
    }
    let resumed = still_there(job, target, marks).await?;
    let notes = vec![format!(
        "resumed: {} of {len} bytes were there",
        resumed.iter().map(|mark| mark.crc.len()).sum::<u64>()
    )];
    Ok(Resumption::Resumed(Box::new(Opening {
        channel,
        info,
        range: 0..len,
        resumed,
        journal: Some(journal),
        journal_crc: Some(identity.crc.into()),
        required_proof,
        is_of_another,
        unverified,
        parts,
        ..Opening::nothing(notes)
    })))
}

/// Requests the first gap, or only the description if there is no gap.
async fn ask(
    job: &Job<'_>,
    version: Option<Version>,
    len: u64,
    marks: &[Mark],
) -> Result<(Option<RangeStream>, Facts)> {
    let mut done = Extents::new();
    for mark in marks {
        done.insert(mark.start..mark.start + mark.crc.len());
    }
    let Some(gap) = done.gaps(0..len).next() else {
        return Ok((None, lookup(job).describe().await?));
    };
    let end = if job.options.window > 1 {
        gap.end.min(gap.start.saturating_add(first_bytes(job.options)))
    } else {
        gap.end
    };
    let range = ByteRange::Bounded(gap.start..end);
    let known = Known { version, len_bytes: Some(len), ..Known::default() };
    let mut channel = channel(job, range, known);
    let facts = facts(&mut channel, job).await?;
    Ok((Some(channel), facts))
}

/// The marks whose bytes are in the part file, without overlaps.
async fn still_there(job: &Job<'_>, target: &mut Prepared, marks: Vec<Mark>) -> Result<Vec<Mark>> {
    let Prepared::File { part, .. } = target else { return Ok(Vec::new()) };
    let failed = |error| storage_error(Operation::Write, &part.target.display(), error);
    let file = part.file.try_clone().map_err(failed)?;
    let (calls, cancel) = (job.calls.clone(), job.options.cancel.clone());
    blocking(move || verified_marks(&file, &marks, &cancel).ok_or_else(|| calls.cancelled())).await
}

#[cfg(test)]
mod tests {
    use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer, Coverage, StoredChecksum};

    use super::*;
    use crate::sink::file::journal::CrcName;

    fn selected(object: u8, all: u8) -> Selected {
        Selected { all: [all; 32], object: [object; 32] }
    }

    fn then(selected: Option<Selected>, revision: Option<&str>) -> Identity {
        Identity {
            source: "x".to_owned(),
            selected,
            version: Version::ETag("\"a\"".to_owned()),
            revision: revision.map(str::to_owned),
            coding: None,
            len_bytes: 1,
            crc: CrcName::Crc32c,
        }
    }

    fn now(revision: Option<&str>) -> BlobInfo {
        BlobInfo { revision: revision.map(str::to_owned), ..BlobInfo::default() }
    }

    #[test]
    fn what_selects_the_same_needs_no_proof() {
        let identity = then(Some(selected(1, 1)), None);
        assert_eq!(
            required_proof(&identity, true, Some(selected(1, 1)), &now(None)),
            RequiredProof::Known
        );
        for other in [Some(selected(1, 2)), Some(selected(2, 2)), None] {
            assert_eq!(
                required_proof(&identity, true, other, &now(None)),
                RequiredProof::ByChecksum
            );
        }
        assert_eq!(
            required_proof(&then(None, None), true, None, &now(None)),
            RequiredProof::ByChecksum
        );
    }

    #[test]
    fn a_revision_counts_for_one_object_only() {
        let identity = then(Some(selected(1, 1)), Some("7"));
        assert_eq!(
            required_proof(&identity, true, Some(selected(1, 2)), &now(Some("7"))),
            RequiredProof::Known
        );
        for (other, revision) in
            [(selected(2, 2), Some("7")), (selected(1, 2), Some("8")), (selected(1, 2), None)]
        {
            assert_eq!(
                required_proof(&identity, true, Some(other), &now(revision)),
                RequiredProof::ByChecksum
            );
        }
    }

    #[test]
    fn a_journal_that_may_be_forged_needs_a_hash() {
        let identity = then(Some(selected(1, 1)), Some("7"));
        assert_eq!(
            required_proof(&identity, false, Some(selected(1, 1)), &now(Some("7"))),
            RequiredProof::ByHash
        );
    }

    #[test]
    fn crcs_prove_what_is_ours_and_hashes_prove_all() {
        let sum = |algorithm| Checksummer::of(algorithm, b"abc").unwrap();
        let info = |algorithm, coverage| BlobInfo {
            checksums: vec![StoredChecksum { checksum: sum(algorithm), coverage }],
            ..BlobInfo::default()
        };
        let whole = Coverage::FullObject;
        let (crc, md5) = (ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Md5);
        assert!(can_prove(RequiredProof::ByChecksum, &info(crc, whole), &[]));
        assert!(!can_prove(RequiredProof::ByHash, &info(crc, whole), &[]));
        assert!(can_prove(RequiredProof::ByHash, &info(md5, whole), &[]));
        assert!(can_prove(
            RequiredProof::ByHash,
            &info(crc, whole),
            &[sum(ChecksumAlgorithm::Sha256)]
        ));
        let parts = Coverage::Composite { parts: Some(2) };
        assert!(!can_prove(RequiredProof::ByHash, &info(md5, parts), &[]));
        assert!(!can_prove(RequiredProof::ByChecksum, &now(None), &[]));
    }
}
