//! Downloads many shards of one blob into one sink.
//!
//! The first request is already the first shard. Its response gives size, version and checksums.
//! The rest is planned from the size. Up to a window of shards is in flight, and each is a
//! [`ReadChannel`] that restarts on its own. When nothing is left to start, the shard with the most
//! bytes left is split. If no bytes arrive for it, it is raced by a second reader. The shards' CRCs
//! are combined and compared with the remote's before a file gets its name.
//!
//! | file | idea |
//! |---|---|
//! | `options` | the caller's choices |
//! | `opening`, `resume` | the first response, and the part file of an earlier run |
//! | `reflink` | a local file that is cloned instead of copied |
//! | `transfer` | one download, from the first response to the verified target |
//! | `units` | which shards are in flight, and the last ones |
//! | `shard_range` | which reader owns which byte when shards are split and raced |
//! | `shard` | one reader, from the network to the sink |
//! | `mirrors` | several places that hold the blob |
//! | `report` | the report at the end |
//!
//! [`ReadChannel`]: crate::read::ReadChannel

mod mirrors;
mod opening;
mod options;
mod reflink;
mod report;
mod resume;
mod shard;
mod shard_range;
mod transfer;
mod units;

#[cfg(all(test, feature = "gcs"))]
#[expect(clippy::unwrap_used, reason = "what sets a test up may panic, too")]
mod tests;

pub(crate) use options::ShardedDownloadOptions;

use std::sync::Arc;
use std::time::Instant;

use mirrors::Mirrors;
use opening::Opening;
use reflink::Cloned;
use resume::RefutedResume;

use crate::error::{Operation, Result};
use crate::read::Flow;
use crate::remote::Location;
use crate::report::Report;
use crate::transfer::attempt::Calls;
use crate::transfer::deadline;
use crate::transfer::target::{Prepared, Target};

/// The parts of one download that are known from its start.
struct Job<'a> {
    location: &'a Location,
    options: &'a ShardedDownloadOptions,
    calls: Calls,
    flow: Arc<Flow>,
}

/// Fetches one blob into `target`.
///
/// A file target gets its name only when every byte has been written and every known checksum
/// matches. Until then an existing target stays. On failure the part file stays for the next call
/// to resume, unless nothing in it is worth keeping.
///
/// Dropping the future cancels the download: no request outlives it. To keep the last bytes for a
/// later resume, cancel through [`ShardedDownloadOptions::cancel`] and await the result.
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
    let (operation, name) = (Operation::Download, location.display());
    deadline::in_time(deadline_ms, &options.cancel, operation, name, |cancel| async move {
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
    let mut mirrors = Mirrors::new(location, options);
    let (mut target, mut resume, mut notes) = (target, options.resume, Vec::new());
    let mut transfer = loop {
        let again = again(&target);
        let options = &ShardedDownloadOptions { resume, ..options.clone() };
        let mut refuted_resume = None;
        mirrors.begin_attempt();
        let attempted = attempt(location, &mut mirrors, target, options, &mut refuted_resume).await;
        mirrors.end().await;
        let error = match attempted {
            Ok(transfer) => break transfer,
            Err(error) => error,
        };
        let Some(again) = again else { return Err(error) };
        if let Some(RefutedResume { bytes, resumed_bytes }) = refuted_resume {
            options.progress.begin_anew(bytes, resumed_bytes);
            notes.push(resume::NOT_OF_THIS_BLOB.to_owned());
            resume = false;
        } else if let Some(round) = mirrors.begin_again(&error) {
            let expected = round.expected.unwrap_or(0);
            options.progress.forget(round.done_bytes, round.resumed_bytes, expected);
        } else {
            return Err(error);
        }
        target = again;
    };
    transfer.notes.append(&mut notes);
    Ok(report::report(transfer, mirrors.report(), options, start.elapsed()))
}

/// The same target for another attempt, if the first one leaves nothing in it.
fn again(target: &Target) -> Option<Target> {
    match target {
        Target::File(path) => Some(Target::File(path.clone())),
        Target::Memory => Some(Target::Memory),
        Target::Discard => Some(Target::Discard),
        Target::Writer { .. } | Target::Buffer(_) => None,
    }
}

/// One attempt, from the first request to the finished target. `refuted` is set if the attempt
/// fails because the bytes of an earlier run were wrong.
async fn attempt(
    location: &Location,
    mirrors: &mut Mirrors,
    target: Target,
    options: &ShardedDownloadOptions,
    refuted_resume: &mut Option<RefutedResume>,
) -> Result<transfer::Transferred> {
    // The part file of a range must not be mistaken for the start of the whole blob.
    let resume = options.resume && options.range.is_none();
    let sources = resume.then(|| mirrors.names());
    let mut target = Prepared::new(target, sources, 0, &options.state, &options.cancel).await?;
    let calls = Calls {
        policy: options.retry.clone(),
        budget: options.budget.clone(),
        cancel: options.cancel.clone(),
        operation: Operation::Download,
        target: location.display().into(),
        stats: Arc::clone(options.progress.stats()),
    };
    let _owner = target.owner();
    let first_bytes = transfer::first_bytes(&target, options);
    let opened = calls.unless_cancelled(async {
        // Bytes before requests: the order in which all transfers take them from the budget.
        let permit = options.budget.bytes(first_bytes).await;
        let opened = open(mirrors, options, &calls, &mut target).await;
        opened.map(|(lead, flow, opening)| (lead, flow, opening, permit))
    });
    match opened.await.and_then(|opened| opened) {
        Ok((lead, flow, opening, permit)) => {
            if let Some(described) = &options.described {
                described.send_replace(Some(opening.info.clone()));
            }
            let job = Job { location: &lead, options, calls, flow };
            match reflink::clone(&job, target, opening).await? {
                Cloned::Done(transferred) => Ok(*transferred),
                Cloned::Not(target, opening) => {
                    transfer::transfer(&job, mirrors, target, *opening, permit, refuted_resume)
                        .await
                }
            }
        }
        Err(error) => {
            let rest = target.abandon(&error).await;
            Err(error.with_rest(rest))
        }
    }
}

/// Opens the blob at the first mirror that answers, and compares the descriptions of the others with
/// its answer.
async fn open(
    mirrors: &mut Mirrors,
    options: &ShardedDownloadOptions,
    calls: &Calls,
    target: &mut Prepared,
) -> Result<(Arc<Location>, Arc<Flow>, Opening)> {
    loop {
        let Some(lead) = mirrors.choose_lead() else { return Err(mirrors.all_failed()) };
        mirrors.ask(options, calls);
        let (calls, flow) = (calls.clone(), Flow::of_download(&options.retry));
        let job = Job { location: &lead, options, calls, flow };
        // The bytes of an earlier run are read back, too, which may take long.
        let may_be_late = target.found().is_none() && !mirrors.has_given_way();
        // CANCEL: a late response is dropped before any of its bytes was used.
        let opened = tokio::select! {
            biased;
            opened = opening::open(&job, target) => opened,
            () = mirrors.lead_is_late(), if may_be_late => {
                mirrors.give_way();
                continue;
            }
        };
        match opened {
            Ok(mut opening) => {
                let may_lead = mirrors.opened(&opening.info, opening.single);
                if may_lead && mirrors.settle(options).await? {
                    opening.lend(mirrors.declared());
                    let flow = job.flow;
                    return Ok((lead, flow, opening));
                }
            }
            Err(error) => {
                if let Some(error) = mirrors.drop_lead(error) {
                    return Err(error);
                }
            }
        }
    }
}
