//! The time to the first answer, and memory, with many entries. The first answer is one about 1,000
//! blobs that must be there.
//!
//! For `cold`, the pages of all files are dropped from the cache; names stay. For `after kill`, the
//! server is killed when it has stored entries since its start.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;

use super::Bed;
use super::contender::Contender;
use super::load::Caller;
use super::process::ServerProcess;
use super::workers::{Until, in_parallel};
use crate::progress::progress;

/// Entries of one batch, and of one question.
const TOGETHER: u64 = 1000;
/// Entries that are stored between a start and a kill.
const BEFORE_KILL: u64 = 100_000;

/// One start.
#[derive(Debug, Serialize)]
pub(crate) struct Start {
    pub(crate) entries: u64,
    pub(crate) after: &'static str,
    /// From the spawn to the first connection.
    pub(crate) listening_ms: f64,
    /// From the spawn to the first answer.
    pub(crate) answer_ms: f64,
    pub(crate) rss_mib: f64,
    /// After every entry was asked for.
    pub(crate) rss_mib_loaded: f64,
}

/// Fills a store of ours, and starts it again in several ways.
pub(super) async fn measure(bed: &Bed<'_>, entries: u64) -> Result<Vec<Start>> {
    let programs = &bed.options.programs;
    let start = || programs.start(Contender::Tidegate, &bed.folder, None);
    progress(&format!("filling a store with {entries} entries"));
    let server = start().await?;
    fill(&server, 0, entries).await?;
    let store = server.stop()?;
    let mut starts = Vec::new();
    for after in ["end, warm", "end, cold", "kill, warm", "kill, cold"] {
        if after.ends_with("cold") {
            drop_cached(&store).context("dropping cached pages")?;
        }
        let server = start().await?;
        let one = answer(&server, entries, after).await?;
        progress(&format!("  {one:?}"));
        starts.push(one);
        match after {
            "end, cold" | "kill, warm" => {
                fill(&server, entries, BEFORE_KILL).await?;
                server.kill()?;
            }
            "kill, cold" => server.end()?,
            _ => drop(server.stop()?),
        }
    }
    Ok(starts)
}

fn entry(number: u64) -> (Digest, Bytes) {
    let bytes = [number.to_le_bytes(), *b"an entry"].concat();
    (Digest::of(DigestFunction::Sha256, &bytes), bytes.into())
}

async fn fill(server: &ServerProcess, from: u64, count: u64) -> Result<()> {
    let caller = Caller::connect(server).await?;
    let batches = usize::try_from(count / TOGETHER)?;
    let call = move |number| {
        let start = from + number as u64 * TOGETHER;
        caller.clone().put((start..start + TOGETHER).map(entry).collect())
    };
    in_parallel(8, Until::Calls(batches), call).await?;
    Ok(())
}

fn question(start: u64) -> v2::FindMissingBlobsRequest {
    v2::FindMissingBlobsRequest {
        blob_digests: (start..start + TOGETHER).map(|number| to_proto(&entry(number).0)).collect(),
        ..v2::FindMissingBlobsRequest::default()
    }
}

async fn answer(server: &ServerProcess, entries: u64, after: &'static str) -> Result<Start> {
    let caller = Caller::connect(server).await?;
    let missing = caller.clone().missing(question(entries / 2)).await?;
    let answered = server.started.elapsed();
    ensure!(missing == 0, "{missing} entries are missing");
    let rss_kib = server.used()?.rss_kib;
    for start in (0..entries).step_by(usize::try_from(TOGETHER)?) {
        let missing = caller.clone().missing(question(start)).await?;
        ensure!(missing == 0, "{missing} entries are missing");
    }
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    #[expect(clippy::cast_precision_loss, reason = "memory far below 2^52 KiB")]
    let mib = |kib: u64| kib as f64 / 1024.0;
    Ok(Start {
        entries,
        after,
        listening_ms: ms(server.listening),
        answer_ms: ms(answered),
        rss_mib: mib(rss_kib),
        rss_mib_loaded: mib(server.used()?.rss_kib),
    })
}

fn drop_cached(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            drop_cached(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            // Only written pages can be dropped.
            file.sync_data()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
