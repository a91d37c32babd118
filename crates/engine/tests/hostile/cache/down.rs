//! Downloads: the target holds exactly the blob, or its name is as it was.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tidegate::{Durability, Error, ErrorKind, Target as Place};
use tidegate_core::window::WindowOptions;
use tidegate_testkit::reapi::{HostileCall, Rpc};

use super::scenario::{Kept, Target};
use super::stage::Bed;
use crate::call::{
    ChunkedDownloadOptions, DownloadOptions, ReadOptions, client_with, download, download_chunks,
};

/// The content of the target's name before the download.
const OLD: &[u8] = b"what was here before";

type Failure = Option<Error>;

/// Plays a download. Returns its error, or what it did wrong.
pub(crate) async fn play(bed: &Bed<'_>, target: Target) -> Result<Failure, String> {
    let old = (target == Target::OldFile).then(|| {
        // Half of it is right, so it can serve as a seed.
        let old = [&bed.data[..bed.data.len() / 2], OLD].concat();
        std::fs::write(bed.path(), &old).unwrap();
        old
    });
    let failure = match target {
        Target::Memory | Target::Writer => in_memory(bed, target).await?,
        Target::Channel => by_channel(bed).await?,
        Target::File | Target::OldFile | Target::RangesToFile => {
            let failure = to_file(bed, target).await;
            let there = std::fs::read(bed.path()).ok();
            let expected = if failure.is_none() { Some(bed.data.to_vec()) } else { old };
            if there != expected {
                let len = there.map(|there| there.len());
                return Err(format!("{failure:?}, and {len:?} bytes under the target's name"));
            }
            failure
        }
    };
    only_ours(bed)?;
    let must_succeed = bed.scenario.calls.is_empty() && bed.scenario.cache.kept != Kept::Nothing;
    match &failure {
        Some(error) if must_succeed && !excused(bed, error) => {
            Err(format!("an honest cache, and {}", error.chain()))
        }
        Some(_) => again(bed, target).await.map(|()| failure),
        None => Ok(None),
    }
}

/// Why a download from an honest cache may fail.
fn excused(bed: &Bed<'_>, error: &Error) -> bool {
    let is_lacking = bed.scenario.cache.kept == Kept::SomeChunks;
    let is_tight = bed.scenario.client.budget_bytes < bed.data.len() as u64 * 2;
    is_lacking && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Integrity)
        || is_tight && error.kind() == ErrorKind::Unsupported
}

/// The paused clock runs over real sockets. On a busy machine a response in flight can therefore be
/// late by that clock. If this uses up the attempts, the download is repeated.
async fn patiently(bed: &Bed<'_>, target: Target) -> Failure {
    let mut failure = to_file(bed, target).await;
    for _ in 0..8 {
        match &failure {
            Some(error) if error.kind() == ErrorKind::Exhausted => {}
            _ => break,
        }
        failure = to_file(bed, target).await;
    }
    failure
}

/// The leftovers of a failure must not harm a later download from an honest cache.
async fn again(bed: &Bed<'_>, target: Target) -> Result<(), String> {
    if !matches!(target, Target::File | Target::OldFile | Target::RangesToFile) {
        return Ok(());
    }
    bed.server.script().clear();
    bed.keep(Kept::Whole);
    // The client asks for the capabilities only once, so lies about them would stay.
    let lies = |call: &HostileCall| call.rpc == Rpc::Capabilities;
    if bed.scenario.calls.iter().any(lies) {
        return Ok(());
    }
    let mut failure = patiently(bed, target).await;
    if target == Target::RangesToFile
        && failure.as_ref().is_some_and(|error| error.kind() == ErrorKind::Integrity)
    {
        // Ranges of a blob have no digest of their own. Wrong bytes in the part file show only when
        // the whole blob is verified, and are then removed.
        failure = patiently(bed, target).await;
    }
    if let Some(error) = failure {
        return Err(format!("the cache is honest again, and {}", error.chain()));
    }
    if std::fs::read(bed.path()).ok().as_deref() != Some(&bed.data[..]) {
        return Err("what was left behind made another blob".to_owned());
    }
    only_ours(bed)
}

async fn to_file(bed: &Bed<'_>, target: Target) -> Failure {
    if target == Target::RangesToFile {
        let options = DownloadOptions {
            window: Some(bed.scenario.client.window),
            shard_bytes_min: Some(4_000),
            shard_bytes_max: Some(4_000),
            durability: Durability::None,
            retry: bed.retry(),
            budget: bed.budget.clone(),
            ..DownloadOptions::default()
        };
        let url = format!("{}/{}", bed.server.url(), bed.digest());
        let location = bed.remotes.locate(&url).unwrap();
        return download(&location, Place::File(bed.path()), &options).await.err();
    }
    chunked(bed, Place::File(bed.path())).await.err()
}

async fn chunked(bed: &Bed<'_>, place: Place) -> tidegate::Result<tidegate::Report> {
    let client = &bed.scenario.client;
    let options = ChunkedDownloadOptions {
        window: WindowOptions::fixed(client.window),
        whole_fallback: client.whole_fallback,
        durability: Durability::None,
        retry: bed.retry(),
        client: client_with(&bed.budget),
        ..ChunkedDownloadOptions::default()
    };
    let store = crate::call::store(&bed.remotes, &bed.server.url())?;
    download_chunks(&store, &bed.digest(), place, &options).await
}

async fn in_memory(bed: &Bed<'_>, target: Target) -> Result<Failure, String> {
    let output = Collect::default();
    let place = match target {
        Target::Memory => Place::Memory,
        _ => Place::Writer { writer: Box::new(output.clone()), name: "output".to_owned() },
    };
    let report = match chunked(bed, place).await {
        Ok(report) => report,
        Err(error) => return Ok(Some(error)),
    };
    let came = match target {
        Target::Memory => report.memory.map(|memory| memory.to_vec()),
        _ => Some(output.0.lock().unwrap().clone()),
    };
    if came.as_deref() != Some(&bed.data[..]) {
        return Err(format!("a success with {:?} bytes", came.map(|came| came.len())));
    }
    Ok(None)
}

async fn by_channel(bed: &Bed<'_>) -> Result<Failure, String> {
    let url = format!("{}/{}", bed.server.url(), bed.digest());
    let location = bed.remotes.locate(&url).unwrap();
    let options =
        ReadOptions { retry: bed.retry(), budget: bed.budget.clone(), ..ReadOptions::default() };
    let mut channel = crate::call::read(location, options);
    let mut came = Vec::new();
    loop {
        match channel.next().await {
            Ok(Some(bytes)) => came.extend_from_slice(&bytes),
            Ok(None) if came == bed.data => return Ok(None),
            Ok(None) => return Err(format!("an end after {} bytes", came.len())),
            Err(error) => return Ok(Some(error)),
        }
    }
}

/// The folder holds only the target and its own files.
fn only_ours(bed: &Bed<'_>) -> Result<(), String> {
    for entry in std::fs::read_dir(bed.folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "target" && !name.starts_with(".target.tidegate-") {
            return Err(format!("{name} was left behind"));
        }
    }
    Ok(())
}

/// A writer that keeps its bytes, so that a test can compare them.
#[derive(Clone, Default)]
struct Collect(Arc<Mutex<Vec<u8>>>);

impl Write for Collect {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
