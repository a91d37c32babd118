//! Transfers of one command: several blobs in parallel, one display, one report.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate::{
    CancellationToken, ChunkPolicy, Client, DownloadBuilder, Error, ErrorKind, Location, Operation,
    Progress, Result, Target,
};
use tidegate_core::{ByteRange, Checksum};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::args::{FileArgs, TransferArgs};
use crate::checksums::ChecksumList;
use crate::exit::Exit;
use crate::guard::{self, TextOnly};
use crate::outcomes::{self, Named, Outcome};
use crate::present;
use crate::progress::{Display, Followed};
use crate::report::{self, Done};
use crate::session::Session;
use crate::standard;

/// The target of one blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    Stdout,
}

/// One blob to fetch.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) source: Location,
    /// Other places that hold the same blob.
    pub(crate) mirrors: Vec<Location>,
    pub(crate) place: Place,
    pub(crate) chunks: Chunks,
}

/// How a blob is fetched as chunks.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    pub(crate) policy: ChunkPolicy,
    pub(crate) seeds: Vec<PathBuf>,
    /// Whether an index is kept next to the target, too.
    pub(crate) keeps_index: bool,
}

/// The blobs and options of one command.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) client: Client,
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) transfer: TransferArgs,
    /// Options for target files, if there are any.
    pub(crate) file: Option<FileArgs>,
    pub(crate) range: Option<ByteRange>,
    /// The list that names the checksum of every blob.
    pub(crate) checksums: Option<ChecksumList>,
}

impl Place {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdout => "-".to_owned(),
        }
    }

    /// Whether an interrupted transfer can resume: bytes that went to devices and pipes cannot be
    /// read back.
    fn resumes(&self) -> bool {
        let is_file = |path: &PathBuf| path.metadata().map_or(true, |found| found.is_file());
        matches!(self, Self::File(path) if is_file(path))
    }

    /// The error with what the target knows about it.
    fn explained(&self, error: Error) -> Error {
        match self {
            Self::Stdout if standard::output_is_terminal() => guard::explained(error),
            _ => error,
        }
    }

    /// `force` allows binary data on a terminal.
    fn target(&self, force: bool) -> Result<Target> {
        if let Self::File(path) = self {
            return Ok(Target::File(path.clone()));
        }
        let output = standard::output()?;
        let name = standard::OUTPUT.to_owned();
        if force || !standard::output_is_terminal() {
            return Ok(Target::Writer { writer: Box::new(output), name });
        }
        Ok(Target::Writer { writer: Box::new(TextOnly::new(output)), name })
    }
}

impl Fetch {
    /// A short name for the display: that of the file, or of the blob if there is no file.
    fn name(&self) -> String {
        let name = report::short_name(self.source.display(), &self.place.name()).to_owned();
        name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&name).to_owned()
    }

    fn followed(&self, session: &Session) -> Followed {
        let (source, target) = (self.source.display(), self.place.name());
        Followed::new(self.name()).between(&session.console, source, &target)
    }
}

impl Chunks {
    /// For a blob that is in no cache.
    pub(crate) fn none() -> Self {
        Self { policy: ChunkPolicy::Auto, seeds: Vec::new(), keeps_index: false }
    }
}

/// Fetches all blobs of the plan and reports. A failed blob does not stop the others. The exit code
/// is that of the first failed blob, in the order given.
pub(crate) async fn run(session: &Session, plan: Plan) -> Exit {
    let start = std::time::Instant::now();
    let plan = Arc::new(plan);
    let outcomes = fetch_all(session, &plan).await;
    let seconds = start.elapsed().as_secs_f64();
    let name = |fetch: &Fetch| Named::new(fetch.source.display(), &fetch.place.name());
    let names: Vec<Named> = plan.fetches.iter().map(name).collect();
    outcomes::finish(session, &names, &outcomes, seconds)
}

/// Fetches all blobs, some of them in parallel, with a display. The outcomes are in the order of
/// the plan.
async fn fetch_all(session: &Session, plan: &Arc<Plan>) -> Vec<Outcome> {
    let fetches = &plan.fetches;
    let blobs: Vec<Followed> = fetches.iter().map(|fetch| fetch.followed(session)).collect();
    let display = (!session.is_silent()).then(|| Display::start(&session.console, blobs.clone()));
    let slots = Arc::new(Semaphore::new(session.blobs_at_once));
    let mut running = JoinSet::new();
    for (index, (fetch, blob)) in fetches.iter().zip(blobs).enumerate() {
        let (fetch, slots, plan) = (fetch.clone(), Arc::clone(&slots), Arc::clone(plan));
        let session = session.clone();
        running.spawn(async move {
            // The semaphore is never closed; without a permit, only the limit on blobs would be
            // missing.
            let _slot = slots.acquire().await;
            blob.begin();
            let outcome = plan.fetch(&fetch, blob.progress(), session.cancel.clone()).await;
            blob.end(outcome.as_ref().err());
            if plan.fetches.len() > 1 {
                outcomes::tell(&session, &outcome);
            }
            (index, outcome)
        });
    }
    let mut outcomes: Vec<Option<Outcome>> = fetches.iter().map(|_| None).collect();
    while let Some(joined) = running.join_next().await {
        if let Ok((index, outcome)) = joined
            && let Some(slot) = outcomes.get_mut(index)
        {
            *slot = Some(outcome);
        }
    }
    if let Some(display) = display {
        display.end().await;
    }
    let ended = fetches.iter().zip(outcomes);
    ended.map(|(fetch, outcome)| outcome.unwrap_or_else(|| Err(lost(fetch)))).collect()
}

impl Plan {
    /// Fetches one blob, without output.
    async fn fetch(
        &self,
        fetch: &Fetch,
        progress: Arc<Progress>,
        cancel: CancellationToken,
    ) -> Outcome {
        if let Some(done) = self.present(fetch, &cancel).await? {
            return Ok(done);
        }
        let download =
            self.client.download(&fetch.source, fetch.place.target(self.transfer.force)?);
        let mut download = self.transfer.download_of(fetch.source.display(), download)?;
        download = download.progress(progress).cancel(cancel);
        if let Some(file) = &self.file {
            download = file.download(download);
        }
        if let Some(range) = &self.range {
            download = download.range(range.clone());
        }
        download = fetch.mirrors.iter().cloned().fold(download, DownloadBuilder::mirror);
        download = self.expected(fetch)?.into_iter().fold(download, DownloadBuilder::expect);
        let Chunks { policy, seeds, keeps_index } = &fetch.chunks;
        download = download.chunks(*policy).index_target(*keeps_index);
        let download = seeds.iter().fold(download, DownloadBuilder::seed);
        let outcome =
            download.await.map_err(|error| self.hinted(fetch, fetch.place.explained(error)));
        let report = outcome?;
        Ok(Done::new(fetch.source.display(), &fetch.place.name(), &report))
    }

    /// The report of a target that needs no transfer, if it is one.
    async fn present(&self, fetch: &Fetch, cancel: &CancellationToken) -> Result<Option<Done>> {
        let (Some(file), Place::File(path)) = (&self.file, &fetch.place) else { return Ok(None) };
        let mut expected = self.transfer.expected();
        expected.extend(self.expected(fetch)?);
        let source = &fetch.source;
        let found = present::find(&self.client, file, &expected, source, path, cancel).await?;
        let bytes = path.metadata().map_or(0, |found| found.len());
        Ok(found
            .map(|present| Done::present(source.display(), &fetch.place.name(), bytes, &present)))
    }

    /// The checksums of the blob in the list, if there is a list.
    pub(crate) fn expected(&self, fetch: &Fetch) -> Result<Vec<Checksum>> {
        let source = &fetch.source;
        let found =
            self.checksums.as_ref().map(|list| list.of(source.file_name(), source.display()));
        found.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// The error with a hint that applies to this command.
    fn hinted(&self, fetch: &Fetch, error: Error) -> Error {
        let resumes = self.file.as_ref().is_some_and(|file| !file.no_resume);
        if resumes && fetch.place.resumes() {
            return error;
        }
        report::without_resume(error, report::STARTS_OVER)
    }
}

/// The error of a task that panicked; its message is on standard error already.
fn lost(fetch: &Fetch) -> Error {
    failure(fetch, ErrorKind::Storage, "the transfer's task ended early")
}

fn failure(fetch: &Fetch, kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, Operation::Download, fetch.source.display(), message)
}
