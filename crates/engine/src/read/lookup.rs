//! The facts of a first answer and, beside it, the checksums of a remote whose answers lack them.

use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;

use super::{Known, RangeOptions, RangeStream, ReadStats, stat};
use crate::budget::{Budget, RequestPermit};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{BlobInfo, Location, Version};
use crate::verified::Unverified;

/// A stat is asked this often at most: the read waits for it, and can do without it.
const STAT_ATTEMPTS_MAX: u32 = 4;

/// What is needed to ask.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) location: Arc<Location>,
    /// The version that is read, where it is known.
    pub(crate) version: Option<Version>,
    pub(crate) retry: RetryPolicy,
    pub(crate) budget: Budget,
    pub(crate) stats: Arc<ReadStats>,
}

/// The stream with its first answer, and that answer's facts; or why there are no checksums.
pub(super) type Looking = Pin<Box<dyn Future<Output = Looked> + Send>>;
pub(super) type Looked = (RangeStream, Result<(BlobInfo, Option<Unverified>)>);

impl Lookup {
    /// Opens `stream` and asks for the blob's checksums at the same time.
    pub(super) fn beside(self, mut stream: RangeStream) -> Looking {
        Box::pin(async move {
            let facts = self.facts(&mut stream).await;
            (stream, facts)
        })
    }

    /// The facts of the first answer, with the checksums that a stat beside it tells; or why there
    /// are none.
    pub(crate) async fn facts(
        &self,
        stream: &mut RangeStream,
    ) -> Result<(BlobInfo, Option<Unverified>)> {
        // Both permits at once: whoever waited for one beside an open body could wait for ever.
        let (mut info, stat) = if let Some((ours, theirs)) = self.budget.request_pair().await {
            stream.lend(ours);
            let (answer, stat) = tokio::join!(stream.info(), self.ask(theirs));
            (answer?.clone(), stat)
        } else {
            let stat = self.stat().await;
            (stream.info().await?.clone(), stat)
        };
        // An answer that names no version has only its length to compare, and facts need not tell
        // one.
        let same = |stat: &BlobInfo| {
            (info.version.is_none() || stat.version == info.version)
                && stat.len_bytes.zip(info.len_bytes).is_none_or(|(stat, told)| stat == told)
        };
        let stat = match stat {
            // Which of the two came first is not known: the answer may be of the newer version.
            Ok(other) if !same(&other) => {
                stream.suspend();
                let stat = self.stat().await?;
                if !same(&stat) {
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
                info.checksums = stat.checksums;
                Ok((info, None))
            }
            Err(error) => Ok((info, Some(Unverified::LookupFailed(error.to_string())))),
        }
    }

    /// Facts about the blob, its length among them wherever the remote tells it at all: where the
    /// facts lack it, or say that there is nothing, the answer to a range may have it.
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

    /// Facts about the blob alone.
    pub(crate) async fn stat(&self) -> Result<BlobInfo> {
        let permit = self.budget.request().await;
        self.ask(permit).await
    }

    async fn ask(&self, _permit: RequestPermit) -> Result<BlobInfo> {
        let attempts_max = self.retry.attempts_max.min(STAT_ATTEMPTS_MAX);
        let policy = RetryPolicy { attempts_max, ..self.retry.clone() };
        stat::ask(&self.location, self.version.as_ref(), &policy, &self.stats).await
    }
}
