//! [`Client::compare`]: whether two blobs have the same bytes, without a transfer.
//!
//! Remotes are asked for lengths and checksums; local files are read and hashed. Equal checksums are
//! proof of equal bytes. Composite checksums and entity tags are proof only where they are equal: if
//! they differ, the parts or the meaning of the tag may differ instead of the bytes.

use std::fs::File;
use std::future::IntoFuture;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::checksum::{
    Checksum, ChecksumAlgorithm, Checksummer, CompositeChecksummer, Coverage,
};
use tokio_util::sync::CancellationToken;

use super::Client;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::progress::Progress;
use crate::read::{Facts, Lookup, PartsCheck, PartsWanted, md5_of_entity_tag};
use crate::remote::{BlobInfo, Location};
use crate::sink::hashers::{Hashers, Sums};
use crate::verified::{PartsChecksum, Unverified, Verified};

/// One read of a file.
const READ_BYTES: usize = 256 << 10;

/// The checksum of two local files: neither of them names another one.
const BETWEEN_FILES: ChecksumAlgorithm = ChecksumAlgorithm::Sha256;

/// The result of [`Client::compare`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// Both have the same bytes, by these checksums; never [`Verified::Not`].
    Same(Verified),
    /// They differ.
    Different(Difference),
    /// Not known: nothing that is known of both is proof.
    Unknown(Unverified),
}

/// How two blobs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// Their lengths in bytes.
    Length {
        /// Of the first blob.
        one: u64,
        /// Of the second blob.
        other: u64,
    },
    /// Their checksums by one algorithm.
    Checksum {
        /// Of the first blob.
        one: Checksum,
        /// Of the second blob, or the expected one.
        other: Checksum,
    },
}

/// A comparison of two blobs, or of a blob with checksums. Await it for a [`Comparison`].
/// Cancel-safe.
///
/// # Errors
///
/// As [`Client::stat`] of each remote. `NotFound`, `NoAccess` or `Storage` for a local file that
/// cannot be read, `Unsupported` for one without a length (a pipe), `Changed` if it changes
/// meanwhile.
#[derive(Clone, Debug)]
#[must_use = "nothing is compared before it is awaited"]
pub struct CompareBuilder {
    client: Client,
    one: Location,
    other: Other,
    progress: Arc<Progress>,
    cancel: CancellationToken,
}

/// What the first blob is compared with.
#[derive(Clone, Debug)]
enum Other {
    Blob(Box<Location>),
    Checksums(Vec<Checksum>),
}

impl Client {
    /// Compares two blobs without a transfer: by the lengths and checksums that remotes provide, and
    /// by those of local files, which are read. Await the result, or set options first.
    pub fn compare(&self, one: &Location, other: &Location) -> CompareBuilder {
        CompareBuilder::new(self, one, Other::Blob(Box::new(other.clone())))
    }

    /// Compares a blob with checksums of the whole blob, without a transfer. All that can be compared
    /// must be equal.
    pub fn compare_with(
        &self,
        blob: &Location,
        expected: impl IntoIterator<Item = Checksum>,
    ) -> CompareBuilder {
        CompareBuilder::new(self, blob, Other::Checksums(expected.into_iter().collect()))
    }

    /// Compares the file at `path` with a blob that `info` describes. Sends requests only for the
    /// sizes of the parts of an upload.
    pub(super) async fn compare_known(
        &self,
        blob: &Location,
        info: &BlobInfo,
        path: &str,
        cancel: &CancellationToken,
    ) -> Result<Comparison> {
        let (progress, stop) = (Arc::default(), cancel.child_token());
        // CANCEL: reading the file ends soon after the future is dropped.
        let _guard = stop.clone().drop_guard();
        let asker = Asker { client: self, progress: &progress, stop };
        let lookup = Lookup { version: info.version.clone(), ..asker.lookup(blob, true) };
        let compare = async {
            let (file, shown) = (PathBuf::from(path), path.to_owned());
            let find = move || LocalCopy::find(file, shown);
            let copy = offload(Operation::Stat, path, find).await?;
            let permit = self.0.budget.request().await;
            let (parts, unverified) = match lookup.parts_check(info).await {
                Ok(parts) => (parts, None),
                Err(why) => (None, Some(why)),
            };
            drop(permit);
            let remote = RemoteCopy { info: info.clone(), unverified, parts, lookup };
            asker.file_with(&copy, &remote, false).await
        };
        match cancel.run_until_cancelled(compare).await {
            Some(compared) => compared,
            None => {
                let (kind, message) = (ErrorKind::Cancelled, "it was cancelled");
                Err(Error::new(kind, Operation::Verify, blob.display(), message))
            }
        }
    }
}

impl CompareBuilder {
    fn new(client: &Client, one: &Location, other: Other) -> Self {
        let (client, one) = (client.clone(), one.clone());
        let (progress, cancel) = (Arc::default(), CancellationToken::new());
        Self { client, one, other, progress, cancel }
    }

    /// Counts the bytes of local files that are read.
    pub fn progress(mut self, progress: Arc<Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Ends the comparison.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    async fn run(self) -> Result<Comparison> {
        let Self { client, one, other, progress, cancel } = self;
        let _running = progress.begin_transfer();
        let target = one.display().to_owned();
        let stop = cancel.child_token();
        // CANCEL: reading a file ends soon after the future is dropped, and requests at once.
        let _guard = stop.clone().drop_guard();
        let asker = Asker { client: &client, progress: &progress, stop };
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                Err(Error::new(ErrorKind::Cancelled, Operation::Verify, target, "it was cancelled"))
            }
            compared = asker.compare(&one, &other) => compared,
        }
    }
}

impl IntoFuture for CompareBuilder {
    type Output = Result<Comparison>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// What is known of one blob.
enum Side {
    /// A local file, which any checksum can be computed of.
    File(LocalCopy),
    Remote(Box<RemoteCopy>),
    Expected(Vec<Checksum>),
}

struct LocalCopy {
    path: PathBuf,
    shown: String,
    len: u64,
}

struct RemoteCopy {
    info: BlobInfo,
    unverified: Option<Unverified>,
    parts: Option<PartsCheck>,
    lookup: Lookup,
}

/// Asks remotes and reads files.
struct Asker<'a> {
    client: &'a Client,
    progress: &'a Arc<Progress>,
    stop: CancellationToken,
}

impl Asker<'_> {
    async fn compare(&self, one: &Location, other: &Other) -> Result<Comparison> {
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

    fn lookup(&self, location: &Location, with_file: bool) -> Lookup {
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
    async fn file_with(
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

impl Side {
    fn len(&self) -> Option<u64> {
        match self {
            Self::File(file) => Some(file.len),
            Self::Remote(remote) => remote.info.len_bytes,
            Self::Expected(_) => None,
        }
    }

    /// Checksums of the whole blob that are known without reading it.
    fn whole(&self) -> Vec<Checksum> {
        match self {
            Self::File(_) => Vec::new(),
            Self::Remote(remote) => remote.whole(),
            Self::Expected(expected) => expected.clone(),
        }
    }

    fn info(&self) -> Option<&BlobInfo> {
        match self {
            Self::Remote(remote) => Some(&remote.info),
            Self::File(_) | Self::Expected(_) => None,
        }
    }
}

impl LocalCopy {
    fn find(path: PathBuf, shown: String) -> Result<Self> {
        let found = path.metadata().map_err(|error| unreadable(&shown, error))?;
        if found.is_file() {
            return Ok(Self { path, shown, len: found.len() });
        }
        let message = "only regular files can be compared";
        Err(Error::new(ErrorKind::Unsupported, Operation::Locate, shown, message))
    }
}

impl RemoteCopy {
    fn whole(&self) -> Vec<Checksum> {
        let stored = self.info.checksums.iter().filter(|stored| stored.is_verifiable());
        stored.map(|stored| stored.checksum.clone()).collect()
    }

    fn why_unverified(&self) -> Unverified {
        self.unverified.clone().unwrap_or_else(|| Unverified::of(&self.info.checksums))
    }
}

/// Compares two blobs by what is known of them, where neither is a file.
fn by_facts(one: &Side, other: &Side) -> Comparison {
    let compared = compared(&one.whole(), &other.whole());
    if !matches!(compared, Comparison::Unknown(_)) {
        return compared;
    }
    let (Some(one), Some(other)) = (one.info(), other.info()) else { return compared };
    let shared = composites(one).find(|composite| composites(other).any(|same| same == *composite));
    if let Some((checksum, parts)) = shared {
        return Comparison::Same(Verified::ByParts(PartsChecksum { checksum, parts }));
    }
    match (md5_of_entity_tag(one), md5_of_entity_tag(other)) {
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
fn compared(one: &[Checksum], other: &[Checksum]) -> Comparison {
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

fn algorithms(checksums: &[Checksum]) -> Vec<ChecksumAlgorithm> {
    let mut algorithms: Vec<ChecksumAlgorithm> =
        checksums.iter().map(Checksum::algorithm).filter(|one| one.is_computable()).collect();
    algorithms.sort_by_key(|algorithm| algorithm.name());
    algorithms.dedup();
    algorithms
}

fn is_file(location: &Location) -> bool {
    location.remote.scheme() == "file"
}

/// Hashes a file of `len` bytes; `None` if it has another length, or changes meanwhile.
fn hash(
    path: &Path,
    len: u64,
    mut hashers: Hashers,
    stop: &CancellationToken,
    mut done: impl FnMut(u64),
) -> io::Result<Option<Sums>> {
    let mut file = File::open(path)?;
    let before = state(&file)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut total = 0_u64;
    loop {
        if stop.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                hashers.update(buffer.get(..read).unwrap_or_default());
                total += read as u64;
                done(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let is_stable = total == len && state(&file)? == before;
    Ok(is_stable.then(|| hashers.finish()))
}

/// Length and modification time in nanoseconds.
fn state(file: &File) -> io::Result<(u64, i64, i64)> {
    let found = file.metadata()?;
    Ok((found.len(), found.mtime(), found.mtime_nsec()))
}

fn changed(shown: &str) -> Error {
    let message = "it changed while it was compared";
    Error::new(ErrorKind::Changed, Operation::Verify, shown, message)
}

fn unreadable(shown: &str, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "there is no such file"),
        io::ErrorKind::PermissionDenied => (ErrorKind::NoAccess, "the file may not be read"),
        io::ErrorKind::Interrupted => (ErrorKind::Cancelled, "it was cancelled"),
        _ => (ErrorKind::Storage, "the file cannot be read"),
    };
    Error::new(kind, Operation::Verify, shown, message).caused_by(error)
}
