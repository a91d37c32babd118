//! [`Asker`]: asks remotes for what they know, and reads files.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer, CompositeChecksummer};
use tokio_util::sync::CancellationToken;

use super::facts::{RemoteCopy, Side, algorithms, by_facts, compared};
use super::local::{LocalCopy, changed, hash, unreadable};
use super::{Comparison, Difference, Other};
use crate::client::Client;
use crate::error::{Operation, Result};
use crate::offload::offload;
use crate::progress::Progress;
use crate::read::{Facts, Lookup, PartsCheck, PartsWanted, md5_of_entity_tag};
use crate::remote::Location;
use crate::sink::hashers::{Hashers, Sums};
use crate::verified::{PartsChecksum, Unverified, Verified};

/// The checksum of two local files: neither of them names another one.
const BETWEEN_FILES: ChecksumAlgorithm = ChecksumAlgorithm::Sha256;

/// Asks remotes and reads files.
pub(super) struct Asker<'a> {
    pub(super) client: &'a Client,
    pub(super) progress: &'a Arc<Progress>,
    pub(super) stop: CancellationToken,
}

impl Asker<'_> {
    pub(super) async fn compare(&self, one: &Location, other: &Other) -> Result<Comparison> {
        let (one, other) = match other {
            Other::Checksums(expected) => {
                (self.side(one, false).await?, Side::Expected(expected.clone()))
            }
            Other::Blob(other) => {
                tokio::try_join!(self.side(one, is_file(other)), self.side(other, is_file(one)))?
            }
        };
        if let (Some(one), Some(other)) = (one.len(), other.len())
            && one != other
        {
            return Ok(Comparison::Different(Difference::Length { one, other }));
        }
        match (&one, &other) {
            (Side::File(file), Side::Remote(remote)) => self.file_with(file, remote, false).await,
            (Side::Remote(remote), Side::File(file)) => self.file_with(file, remote, true).await,
            (Side::File(file), Side::Expected(expected)) => {
                let algorithms = algorithms(expected);
                Ok(compared(&self.sums(file, &algorithms, None).await?.whole, expected))
            }
            (Side::File(one), Side::File(other)) => {
                let one = self.sums(one, &[BETWEEN_FILES], None).await?;
                let other = self.sums(other, &[BETWEEN_FILES], None).await?;
                Ok(compared(&one.whole, &other.whole))
            }
            _ => Ok(by_facts(&one, &other)),
        }
    }

    /// `with_file`: it is compared with a local file, so the parts of an upload are of use.
    async fn side(&self, location: &Location, with_file: bool) -> Result<Side> {
        location.check_is_blob()?;
        if is_file(location) {
            let (path, shown) = (PathBuf::from(&location.blob), location.display().to_owned());
            let copy = move || LocalCopy::find(path, shown);
            return offload(Operation::Stat, location.display(), copy).await.map(Side::File);
        }
        let lookup = self.lookup(location, with_file);
        let Facts { info, unverified, parts } = lookup.describe().await?;
        Ok(Side::Remote(Box::new(RemoteCopy { info, unverified, parts, lookup })))
    }

    pub(super) fn lookup(&self, location: &Location, with_file: bool) -> Lookup {
        let shared = &self.client.0;
        Lookup {
            location: Arc::new(location.clone()),
            version: None,
            retry: shared.retry.clone(),
            budget: shared.budget.clone(),
            stats: Arc::clone(self.progress.stats()),
            wants: PartsWanted { composites: with_file, entity_tags: with_file },
        }
    }

    /// Compares a file with the strongest kind of value that the remote provides. `swapped`: the
    /// remote's blob is the first one of the comparison.
    pub(super) async fn file_with(
        &self,
        file: &LocalCopy,
        remote: &RemoteCopy,
        swapped: bool,
    ) -> Result<Comparison> {
        let stored = remote.whole();
        if !stored.is_empty() {
            let sums = self.sums(file, &algorithms(&stored), None).await?.whole;
            return Ok(if swapped { compared(&stored, &sums) } else { compared(&sums, &stored) });
        }
        if let Some(check) = &remote.parts {
            return self.by_parts(file, remote, check).await;
        }
        if let Some((expected, None)) = md5_of_entity_tag(&remote.info) {
            let sums = self.sums(file, &[ChecksumAlgorithm::Md5], None).await?.whole;
            return Ok(match sums.first() {
                Some(sum) if *sum == expected => Comparison::Same(Verified::By(sums)),
                _ => Comparison::Unknown(Unverified::EntityTagDiffers),
            });
        }
        Ok(Comparison::Unknown(remote.why_unverified()))
    }

    async fn by_parts(
        &self,
        file: &LocalCopy,
        remote: &RemoteCopy,
        check: &PartsCheck,
    ) -> Result<Comparison> {
        let algorithm = check.expected.algorithm();
        let mut check = check.clone();
        loop {
            let composite = CompositeChecksummer::new(algorithm, check.layout.clone());
            let Ok(composite) = composite else {
                return Ok(Comparison::Unknown(Unverified::NotComputable(algorithm)));
            };
            let Some(sum) = self.sums(file, &[], Some(composite)).await?.parts else {
                return Err(changed(&file.shown));
            };
            if sum == check.expected {
                let parts = PartsChecksum { checksum: sum, parts: check.layout.count() };
                return Ok(Comparison::Same(Verified::ByParts(parts)));
            }
            if check.is_entity_tag {
                return Ok(Comparison::Unknown(Unverified::EntityTagDiffers));
            }
            let different = Comparison::Different(Difference::Checksum {
                one: sum,
                other: check.expected.clone(),
            });
            if !check.is_inferred {
                return Ok(different);
            }
            match remote.lookup.exact_layout(&check.layout).await {
                Err(reason) => {
                    return Ok(Comparison::Unknown(Unverified::PartSizes { algorithm, reason }));
                }
                Ok(layout) if layout == check.layout => return Ok(different),
                Ok(layout) => check = PartsCheck { layout, is_inferred: false, ..check },
            }
        }
    }

    /// Reads and hashes a file.
    async fn sums(
        &self,
        file: &LocalCopy,
        algorithms: &[ChecksumAlgorithm],
        parts: Option<CompositeChecksummer>,
    ) -> Result<Sums> {
        let whole = algorithms.iter().filter_map(|algorithm| Checksummer::new(*algorithm).ok());
        let hashers = Hashers::new(whole.collect(), parts);
        self.progress.expect(Some(file.len));
        let (path, shown, len) = (file.path.clone(), file.shown.clone(), file.len);
        let (progress, stop) = (Arc::clone(self.progress), self.stop.clone());
        offload(Operation::Verify, &file.shown, move || {
            let hashed = hash(&path, len, hashers, &stop, |bytes| progress.done(bytes));
            hashed.map_err(|error| unreadable(&shown, error))?.ok_or_else(|| changed(&shown))
        })
        .await
    }
}

fn is_file(location: &Location) -> bool {
    location.remote.scheme() == "file"
}
