//! Finds what a composite checksum can be compared with: the sizes of the parts that were uploaded.
//!
//! A composite covers the parts' checksums, so it can be compared only if the ends of the parts are
//! known. Uploaders use parts of one size and a shorter last one. So one request for the first part
//! is usually enough: its size and the number of parts must cover the blob. Otherwise the size of
//! each part is asked for.
//!
//! Sizes from the first part alone are inferred: a blob of 8, 5, 11 and 8 MiB looks like four parts
//! of 8 MiB. So a mismatch proves damage only after [`Lookup::exact_layout`] has confirmed them.

use futures_util::{StreamExt, TryStreamExt, stream};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Coverage, PartLayout, StoredChecksum};

use super::Lookup;
use super::stat;
use crate::error::Result;
use crate::remote::{BlobInfo, UploadedPart, Version};
use crate::verified::Unverified;

/// Parts of different sizes are asked for before the transfer only up to this number: one after
/// another, at 20 ms each, that takes 2 s.
const ASKED_FIRST_MAX: u32 = 100;

/// Requests for parts at a time, at the end of a transfer: 10,000 parts at 20 ms take 13 s.
const ASKED_AT_ONCE: usize = 16;

/// Which checksums of parts a reader compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartsWanted {
    /// Composite checksums that the remote stores.
    pub(crate) composites: bool,
    /// Entity tags that may be the MD5 of the parts' MD5s.
    pub(crate) entity_tags: bool,
}

/// A composite checksum, and the parts that it covers.
#[derive(Clone, Debug)]
pub(crate) struct PartsCheck {
    pub(crate) expected: Checksum,
    pub(crate) layout: PartLayout,
    /// The sizes are inferred from the first part: a mismatch is no proof of damage.
    pub(crate) is_inferred: bool,
    /// The value is an entity tag, which may be something else than a checksum.
    pub(crate) is_entity_tag: bool,
}

/// A value that covers parts.
struct Candidate {
    checksum: Checksum,
    parts: Option<u32>,
    is_entity_tag: bool,
}

/// The MD5 in an entity tag of S3: of the whole blob, or of the MD5s of this number of parts.
pub(crate) fn md5_of_entity_tag(info: &BlobInfo) -> Option<(Checksum, Option<u32>)> {
    let Some(Version::ETag(tag)) = &info.version else { return None };
    let opaque = tag.strip_prefix('"')?.strip_suffix('"')?;
    let (hex, parts) = match opaque.split_once('-') {
        Some((hex, digits)) => (hex, Some(digits.parse().ok().filter(|count| *count > 0)?)),
        None => (opaque, None),
    };
    Some((Checksum::from_hex(ChecksumAlgorithm::Md5, hex).ok()?, parts))
}

impl PartsWanted {
    /// The value to compare, if there is no checksum of the whole blob.
    fn candidate(self, info: &BlobInfo) -> Option<Candidate> {
        if info.checksums.iter().any(StoredChecksum::is_verifiable) {
            return None;
        }
        let composites = info.checksums.iter().filter_map(|stored| match stored.coverage {
            Coverage::Composite { parts } if stored.checksum.algorithm().is_computable() => {
                Some(Candidate { checksum: stored.checksum.clone(), parts, is_entity_tag: false })
            }
            _ => None,
        });
        let preferred = composites.min_by_key(|found| found.checksum.algorithm().preference());
        let tag = || {
            let (checksum, parts) = md5_of_entity_tag(info)?;
            Some(Candidate { checksum, parts: Some(parts?), is_entity_tag: true })
        };
        preferred.filter(|_| self.composites).or_else(|| self.entity_tags.then(tag).flatten())
    }
}

impl Lookup {
    /// The check of a composite checksum, if the blob has no other. The caller holds the permit of
    /// the requests. The error is the reason why a composite cannot be compared.
    pub(crate) async fn parts_check(
        &self,
        info: &BlobInfo,
    ) -> std::result::Result<Option<PartsCheck>, Unverified> {
        let (Some(candidate), Some(len)) = (self.wants.candidate(info), info.len_bytes) else {
            return Ok(None);
        };
        let Candidate { checksum, parts, is_entity_tag } = candidate;
        let algorithm = checksum.algorithm();
        let because = |reason: String| Unverified::PartSizes { algorithm, reason };
        let check = |layout, is_inferred| {
            Some(PartsCheck { expected: checksum.clone(), layout, is_inferred, is_entity_tag })
        };
        if parts == Some(1) {
            return Ok(PartLayout::from_sizes(len, &[len]).and_then(|layout| check(layout, false)));
        }
        let version = self.version.as_ref().or(info.version.as_ref());
        let first = self.part(1, version).await.map_err(|error| because(error.to_string()))?;
        let Some(first) = first else { return Err(Unverified::Composite(algorithm)) };
        let count = parts
            .or(first.parts)
            .ok_or_else(|| because("the server provides no number of parts".to_owned()))?;
        let is_same = first.parts.is_none_or(|other| other == count);
        if first.range.start != 0 || first.len_bytes != len || !is_same {
            return Err(because("the server contradicts itself about the parts".to_owned()));
        }
        if let Some(layout) = PartLayout::equal(len, count, first.range.end) {
            return Ok(check(layout, count > 2));
        }
        if count > ASKED_FIRST_MAX {
            return Err(because(format!("its {count} parts are not of one size")));
        }
        let mut sizes = vec![first.range.end];
        for number in 2..=count {
            let part = self.part(number, version).await.map_err(|e| because(e.to_string()))?;
            sizes.extend(part.map(|part| part.range.end - part.range.start));
        }
        match PartLayout::from_sizes(len, &sizes) {
            Some(layout) => Ok(check(layout, false)),
            None => Err(because("the sizes do not add up to the blob's length".to_owned())),
        }
    }

    /// The layout by the size of each part, as the server provides it. The caller holds no permit.
    /// The error is the reason why it is not known.
    pub(crate) async fn exact_layout(
        &self,
        inferred: &PartLayout,
    ) -> std::result::Result<PartLayout, String> {
        let ask = |number| async move {
            let _permit = self.budget.request().await;
            self.part(number, self.version.as_ref()).await
        };
        let asked = stream::iter(1..=inferred.count()).map(ask).buffered(ASKED_AT_ONCE);
        let parts: Vec<Option<UploadedPart>> =
            asked.try_collect().await.map_err(|error| error.to_string())?;
        let sizes = parts.into_iter().flatten().map(|part| part.range.end - part.range.start);
        PartLayout::from_sizes(inferred.len_bytes(), &sizes.collect::<Vec<u64>>())
            .ok_or_else(|| "the sizes do not add up to the blob's length".to_owned())
    }

    async fn part(&self, number: u32, version: Option<&Version>) -> Result<Option<UploadedPart>> {
        stat::part(&self.location, number, version, &self.stat_policy(), &self.stats).await
    }
}
