//! Looks up checksums: the facts of a first response, and the checksums from a stat in parallel,
//! for remotes whose responses lack them. `parts` adds the parts that a composite checksum covers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use super::parts::{PartsCheck, PartsWanted};
use super::{Known, RangeOptions, RangeStream, ReadStats, stat};
use crate::budget::{Budget, RequestPermit};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{BlobInfo, Location, Version};
use crate::verified::Unverified;

/// Attempts of a stat at most: the read waits for it, and can continue without it.
const STAT_ATTEMPTS_MAX: u32 = 4;

/// Everything that a stat needs.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) location: Arc<Location>,
    /// The version that is read, if it is known.
    pub(crate) version: Option<Version>,
    pub(crate) retry: RetryPolicy,
    pub(crate) budget: Budget,
    pub(crate) stats: Arc<ReadStats>,
    /// The checksums of parts to compare if there is no other checksum.
    pub(crate) wants: PartsWanted,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").field("location", &self.location).finish_non_exhaustive()
    }
}

/// The facts about a blob that a reader needs before its first byte.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) info: BlobInfo,
    /// Why the remote's checksums are not known, or cannot be compared.
    pub(crate) unverified: Option<Unverified>,
    pub(crate) parts: Option<PartsCheck>,
}

impl Facts {
    /// Facts that need no lookup.
    pub(crate) fn of(info: BlobInfo) -> Self {
        Self { info, unverified: None, parts: None }
    }
}

/// The stream with its first response, and the facts or an error.
pub(super) type Looking = Pin<Box<dyn Future<Output = Looked> + Send>>;
pub(super) type Looked = (RangeStream, Result<Facts>);

impl Lookup {
    /// Opens `stream` and requests the blob's checksums at the same time.
    pub(super) fn beside(self, mut stream: RangeStream) -> Looking {
        Box::pin(async move {
            let facts = self.facts(&mut stream).await;
            (stream, facts)
        })
    }

    /// The facts of the first response, with the checksums of a stat and the parts that these cover.
    pub(crate) async fn facts(&self, stream: &mut RangeStream) -> Result<Facts> {
        // Both permits are taken at once: two readers that each held one permit and waited for a
        // second could deadlock.
        let (mut info, stat) = if let Some((ours, theirs)) = self.budget.request_pair().await {
            stream.give_permit(ours);
            let (answer, stat) = tokio::join!(stream.info(), self.described(theirs));
            (answer?.clone(), stat)
        } else {
            let stat = self.describe().await;
            (stream.info().await?.clone(), stat)
        };
        // If the response names no version, only the lengths can be compared, and one may be
        // missing.
        let same = |stat: &BlobInfo| {
            (info.version.is_none() || stat.version == info.version)
                && stat.len_bytes.zip(info.len_bytes).is_none_or(|(stat, first)| stat == first)
        };
        let stat = match stat {
            // The order of the two responses is unknown: the first response may be of the newer
            // version.
            Ok(other) if !same(&other.info) => {
                stream.suspend();
                let stat = self.describe().await?;
                if !same(&stat.info) {
                    return Err(Error::new(
                        ErrorKind::Changed,
                        Operation::Read,
                        self.location.display(),
                        "it changed while its checksums were looked up",
                    ));
                }
                Ok(stat)
            }
            stat => stat,
        };
        match stat {
            Ok(stat) => {
                info.checksums = stat.info.checksums;
                Ok(Facts { info, ..stat })
            }
            Err(error) => {
                let unverified = Some(Unverified::LookupFailed(error.to_string()));
                Ok(Facts { info, unverified, parts: None })
            }
        }
    }

    /// The facts from a stat, and the parts that its checksums cover.
    pub(crate) async fn describe(&self) -> Result<Facts> {
        let permit = self.budget.request().await;
        self.described(permit).await
    }

    async fn described(&self, permit: RequestPermit) -> Result<Facts> {
        let info = self.ask(&permit).await?;
        Ok(match self.parts_check(&info).await {
            Ok(parts) => Facts { info, unverified: None, parts },
            Err(why) => Facts { info, unverified: Some(why), parts: None },
        })
    }

    /// Facts about the blob with its length, if the remote provides one at all. If a stat has no
    /// length, or length 0, the response to a range request may have it.
    pub(super) async fn size(self) -> Result<BlobInfo> {
        let info = self.stat().await?;
        if info.len_bytes.is_some_and(|len| len > 0) {
            return Ok(info);
        }
        let options = RangeOptions {
            range: Some(ByteRange::first(1)),
            known: Known { version: info.version.clone(), ..Known::default() },
            retry: self.retry,
            ..RangeOptions::default()
        };
        let mut stream = RangeStream::new(self.location, options, self.budget, self.stats);
        let len_bytes = stream.info().await?.len_bytes;
        Ok(BlobInfo { len_bytes, ..info })
    }

    /// Facts about the blob from a stat alone.
    pub(crate) async fn stat(&self) -> Result<BlobInfo> {
        let permit = self.budget.request().await;
        self.ask(&permit).await
    }

    async fn ask(&self, _permit: &RequestPermit) -> Result<BlobInfo> {
        let version = self.version.as_ref();
        stat::ask(&self.location, version, &self.stat_policy(), &self.stats).await
    }

    pub(super) fn stat_policy(&self) -> RetryPolicy {
        let attempts_max = self.retry.attempts_max.min(STAT_ATTEMPTS_MAX);
        RetryPolicy { attempts_max, ..self.retry.clone() }
    }
}
