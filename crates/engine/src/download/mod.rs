//! Many shards of one blob into one sink.
//!
//! The first request is already the first shard; its answer gives size, version and checksums.
//! The rest is planned from the size, and up to a window of shards is in flight, each a
//! [`ReadChannel`] that restarts on its own. When nothing is left to start, the slowest shard is
//! split, or raced where nothing comes from it. Shards' CRCs are combined and compared with the
//! remote's before a file gets its name.
//!
//! | file | idea |
//! |---|---|
//! | `options` | what the caller chooses |
//! | `target`, `special` | where the bytes go, made ready before the first request; devices and pipes |
//! | `opening`, `resume` | the first answer, and what an earlier run left |
//! | `checks` | which checksums are computed, and what they prove |
//! | `window` | how many shards are in flight, and which |
//! | `destination` | the sink, from its making to the finished file |
//! | `piece` | who owns which byte when shards are split and raced |
//! | `shard` | one reader's way from the network to the sink |
//! | `report` | what is reported at the end |
//!
//! [`ReadChannel`]: crate::read::ReadChannel

mod checks;
mod destination;
mod opening;
mod options;
mod piece;
mod report;
mod resume;
mod shard;
mod special;
mod target;
mod window;

#[cfg(all(test, feature = "gcs"))]
#[expect(clippy::unwrap_used, reason = "what sets a test up may panic, too")]
mod tests;

pub(crate) use options::ShardedDownloadOptions;
pub use options::Target;
pub(crate) use target::{Prepared, blocking};

use std::time::Instant;

use resume::Refuted;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::Flow;
use crate::remote::Location;
use crate::report::Report;
use crate::transfer::deadline;

/// Fetches one blob into `target`.
///
/// A file target gets its name only when every byte has been written and every checksum that is
/// known agrees; until then what was there before stays. On failure the part file stays for the
/// next call to resume, unless nothing in it is worth keeping.
///
/// Dropping the future cancels the download: no request outlives it. To keep the last bytes for a
/// later resume too, cancel through [`ShardedDownloadOptions::cancel`] and await the result.
///
/// # Errors
///
/// Everything in [`ErrorKind`]; `Changed` and `Integrity` mean that nothing was delivered under
/// the target's name. An ordered target may have received a correct prefix.
pub(crate) async fn download(
    location: &Location,
    target: Target,
    options: &ShardedDownloadOptions,
) -> Result<Report> {
    let deadline_ms = options.retry.deadline_ms;
    let of = (Operation::Download, location.display());
    deadline::in_time(deadline_ms, &options.cancel, of, |cancel| async move {
        run(location, target, &ShardedDownloadOptions { cancel, ..options.clone() }).await
    })
    .await
}

async fn run(
    location: &Location,
    target: Target,
    options: &ShardedDownloadOptions,
) -> Result<Report> {
    let start = Instant::now();
    // Blobs share the budget fairly.
    let options = &ShardedDownloadOptions { budget: options.budget.share(), ..options.clone() };
    let path = match &target {
        Target::File(path) => Some(path.clone()),
        _ => None,
    };
    let mut refuted = None;
    let outcome = attempt(location, target, options, &mut refuted).await;
    let transfer = match (outcome, refuted, path) {
        (Err(_), Some(Refuted { bytes, resumed_bytes }), Some(path)) => {
            options.progress.begin_anew(bytes, resumed_bytes);
            let anew = ShardedDownloadOptions { resume: false, ..options.clone() };
            let mut transfer = attempt(location, Target::File(path), &anew, &mut None).await?;
            transfer.notes.push(resume::NOT_OF_THIS_BLOB.to_owned());
            transfer
        }
        (outcome, ..) => outcome?,
    };
    Ok(report::report(transfer, options, start.elapsed()))
}

/// Once from the first request to the finished target. `refuted` is set where it fails because of
/// what an earlier run left.
async fn attempt(
    location: &Location,
    target: Target,
    options: &ShardedDownloadOptions,
    refuted: &mut Option<Refuted>,
) -> Result<window::Transfer> {
    let mut target = Prepared::new(target, location, options).await?;
    let flow = Flow::of_download(&options.retry);
    let _owner = target.owner();
    let opened = tokio::select! {
        biased;
        () = options.cancel.cancelled() => Err(cancelled(location)),
        opened = async {
            // Bytes before requests: the order in which everything is taken from the budget.
            let permit = options.budget.bytes(window::first_bytes(&target, options)).await;
            opening::open(location, &mut target, options, &flow).await.map(|opened| (opened, permit))
        } => opened,
    };
    let (opened, permit) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let rest = target.abandon(&error).await;
            return Err(error.with_rest(rest));
        }
    };
    window::transfer(location, target, (opened, permit), (options, flow), refuted).await
}

fn cancelled(location: &Location) -> Error {
    Error::new(ErrorKind::Cancelled, Operation::Download, location.display(), "it was cancelled")
}
