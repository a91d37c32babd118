//! One upload with one fault, and what must hold afterwards.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::future::pending;
use std::path::Path;

use bytes::Bytes;
use tidegate::{Client, Error, ErrorKind, Report, RetryPolicy};
use tidegate_testkit::{Fault, Flavour, Gate, Logged, Rule};

use super::fault::{FaultRow, Faulty};
use super::way::{GRANULE, Way};
use crate::bed::{Bed, noise};

/// How often the fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    Once,
    /// From its request on.
    Always,
}

/// See the module docs.
pub(crate) struct Play<'a> {
    pub(crate) way: &'a Way,
    pub(crate) row: &'a FaultRow,
    pub(crate) times: Times,
    /// The request with the fault, from 1.
    pub(crate) nth: usize,
    /// The bytes of its body in a run without a fault.
    pub(crate) body_bytes: u64,
}

impl fmt::Display for Play<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { way, row, times, nth, .. } = self;
        write!(f, "{}: {} {times:?} at request {nth}", way.name, row.name)
    }
}

/// The length of the body of each request of an upload without a fault.
pub(crate) async fn bodies(way: &Way) -> Vec<u64> {
    let bed = Bed::new(way.flavour).await.trusting();
    let bytes = noise(way.len);
    let path = bed.file(&bytes);
    upload(&bed, &bed.client, way, &path, retry()).await.unwrap();
    bed.server.idle().await;
    bed.server.log().iter().map(|seen| seen.body_bytes_received).collect()
}

/// Uploads with one request at a time, so that the order of requests is always the same.
pub(crate) async fn upload(
    bed: &Bed,
    client: &Client,
    way: &Way,
    path: &Path,
    retry: RetryPolicy,
) -> Result<Report, Error> {
    let upload = client.upload(path, &bed.target_of(client)).part_bytes(way.part_bytes as u64);
    upload.window(1).write(way.options()).retry(retry).await
}

/// Lets the time pass while a request hangs, until the next one arrives. Never returns.
async fn hurry(bed: &Bed, gate: &Gate) {
    gate.reached(1).await;
    let arrived = bed.server.requests();
    tokio::time::pause();
    let next = bed.server.arrived(arrived + 1);
    // The time must go on for the next test, too.
    let running = Running;
    next.await;
    drop(running);
    pending::<()>().await;
}

/// Time is no longer paused once it is dropped.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// Waits long for a response, and not long between two attempts.
pub(crate) fn retry() -> RetryPolicy {
    RetryPolicy {
        delay_ms_min: 1,
        delay_ms_max: 5,
        attempts_max: 4,
        seed: Some(1),
        ..RetryPolicy::default()
    }
}

impl Play<'_> {
    /// Plays it. Returns whether the upload had a request with that number; a text says what was
    /// wrong.
    pub(crate) async fn run(&self) -> Result<bool, String> {
        let Self { way, row, .. } = self;
        let bed = Bed::new(way.flavour).await.trusting();
        let bytes = noise(way.len);
        let path = bed.file(&bytes);
        let gate = Gate::new();
        let faulty =
            Faulty { flavour: way.flavour, body_bytes: self.body_bytes, gate: gate.clone() };
        let rule = Rule::new((row.fault)(&faulty)).nth(self.nth as u64);
        bed.server.script().push(match self.times {
            Times::Once => rule,
            Times::Always => rule.always(),
        });
        let outcome = tokio::select! {
            outcome = upload(&bed, &bed.client, way, &path, retry()) => outcome,
            () = hurry(&bed, &gate) => unreachable!("it waits"),
        };
        let was_applied = bed.server.script().applied() > 0;
        if !row.hangs {
            bed.server.idle().await;
        }
        let log = bed.server.log();
        match outcome {
            Ok(_) => {
                self.has(&bed, &bytes, &log)?;
                self.sends_little(&log)?;
            }
            Err(error) => {
                ensure(was_applied, || format!("{self}: {}", error.chain()))?;
                self.fails_well(&bed, &bytes, &error)?;
                self.goes_on(&bed, &bytes, &path, &log, &error).await?;
            }
        }
        Ok(was_applied)
    }

    /// The blob is there, and nothing else.
    fn has(&self, bed: &Bed, bytes: &Bytes, first: &[Logged]) -> Result<(), String> {
        let stored = bed.stored().ok_or_else(|| format!("{self}: no blob"))?;
        ensure(stored.bytes.as_ref() == Some(bytes), || format!("{self}: other bytes"))?;
        let paths = bed.server.paths();
        ensure(paths == [bed.path()], || format!("{self}: {paths:?}"))?;
        if self.row.denies() {
            return Ok(());
        }
        // The response to the first request has the upload's id: one that is lost cannot be aborted.
        let begun = |seen: &&Logged| seen.method == "POST" && !seen.query().contains("uploadId=");
        let lost = first.iter().filter(begun).filter(|seen| !seen.faults.is_empty()).count();
        let left = bed.server.unfinished_uploads().len();
        let left_max = if self.row.has_effect { lost } else { 0 };
        ensure(left <= left_max, || format!("{self}: {left} uploads stay"))
    }

    /// Each request is sent once, and once more for each fault that it met.
    fn sends_little(&self, log: &[Logged]) -> Result<(), String> {
        let is_new_upload = self.row.denies() || !self.row.kinds.is_empty();
        if is_new_upload || self.row.hangs || self.times == Times::Always {
            return Ok(());
        }
        let mut seen: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for request in log.iter().filter(|request| request.body_bytes_received > 0) {
            let key = (&*request.method, &*request.path_and_query);
            let (sent, faulty) = seen.entry(key).or_default();
            *sent += 1;
            *faulty += usize::from(!request.faults.is_empty());
        }
        if self.way.is_session() {
            let sent: u64 = session_puts(log).map(|seen| seen.body_bytes_received).sum();
            let faulty = log.iter().filter(|seen| !seen.faults.is_empty());
            let damaged: u64 = faulty.map(|seen| seen.body_bytes_received).sum();
            let sent_max = self.way.len as u64 + damaged;
            return ensure(sent <= sent_max, || format!("{self}: {sent} bytes were sent"));
        }
        for ((method, target), (sent, faulty)) in seen {
            let message = || format!("{self}: {method} {target} was sent {sent} times");
            ensure(sent <= 1 + faulty, message)?;
        }
        Ok(())
    }

    /// The error says what was done, to what, and why; nothing has the name.
    fn fails_well(&self, bed: &Bed, bytes: &Bytes, error: &Error) -> Result<(), String> {
        let flaw = |what: &str| format!("{self}: {what}: {:?}: {}", error.kind(), error.chain());
        if error.kind() == ErrorKind::Exhausted {
            ensure(self.times == Times::Always, || flaw("a fault that passes"))?;
            ensure(error.attempts() > 1, || flaw("no attempts"))?;
            let cause = error.source().and_then(|cause| cause.downcast_ref::<Error>());
            ensure(cause.is_some(), || flaw("no cause"))?;
        } else {
            let is_expected = self.row.kinds.contains(&error.kind());
            ensure(is_expected, || flaw("a kind that does not fit"))?;
        }
        ensure(error.target().contains("blob.bin"), || flaw("no target"))?;
        let paths = bed.server.paths();
        match bed.stored() {
            None => ensure(paths.is_empty(), || flaw("something stays")),
            // Its response was lost, and so were those to all questions.
            Some(stored) => {
                let is_right = stored.bytes.as_ref() == Some(bytes);
                let is_possible = self.row.has_effect || self.row.denies();
                ensure(is_possible && is_right, || flaw("a blob stays"))
            }
        }
    }

    /// The next run makes the blob, with what the first one has stored.
    async fn goes_on(
        &self,
        bed: &Bed,
        bytes: &Bytes,
        path: &Path,
        first: &[Logged],
        error: &Error,
    ) -> Result<(), String> {
        bed.server.script().clear();
        bed.server.clear_log();
        let (was_made, kept) = (bed.stored().is_some(), self.known(bed, first));
        let second = upload(bed, &bed.another_client(), self.way, path, retry()).await;
        bed.server.idle().await;
        let log = bed.server.log();
        let is_one_request = self.way.parts() == 0 && !self.way.is_session();
        match second {
            // Without a journal another process cannot know the blob for its own.
            Err(again) if was_made && self.way.absent && (is_one_request || self.row.denies()) => {
                let is_right = again.kind() == ErrorKind::AlreadyExists;
                return ensure(is_right, || format!("{self}: {}", again.chain()));
            }
            Err(again) => {
                return Err(format!("{self}: {} after {}", again.chain(), error.chain()));
            }
            Ok(_) => self.has(bed, bytes, first)?,
        }
        let begins_anew = matches!(error.kind(), ErrorKind::Changed | ErrorKind::AlreadyExists);
        if begins_anew || self.row.denies() {
            return Ok(());
        }
        if self.way.parts() > 0 {
            let sent = log.iter().filter(|seen| is_part(seen)).count();
            let expected = if was_made { 0 } else { self.way.parts() - kept };
            let flaw = || format!("{self}: the second run sent {sent} parts, not {expected}");
            ensure(sent == expected, flaw)?;
        }
        if self.way.is_session() {
            let sent: u64 = session_puts(&log).map(|seen| seen.body_bytes_received).sum();
            let expected = if was_made { 0 } else { self.way.len - kept_by_session(first) };
            let flaw = || format!("{self}: the second run sent {sent} bytes, not {expected}");
            ensure(sent == expected as u64, flaw)?;
        }
        Ok(())
    }

    /// The parts that the next run can know to be stored. Only S3 lists checksums; of other remotes
    /// a part counts if its response arrived.
    fn known(&self, bed: &Bed, log: &[Logged]) -> usize {
        if self.way.flavour == Flavour::S3 {
            return bed.server.parts_received().len();
        }
        log.iter().filter(|seen| is_part(seen) && is_success(seen)).count()
    }
}

fn ensure(holds: bool, flaw: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(flaw()) }
}

fn is_success(seen: &Logged) -> bool {
    let is_refused = seen.faults.iter().any(|fault| matches!(fault, Fault::ErrorInBody { .. }));
    seen.status.is_some_and(|status| (200..300).contains(&status)) && !is_refused
}

/// Whether a request has the bytes of a part. The block of Azure that no blob uses has number 0,
/// which the last character of its id in base64 tells.
fn is_part(seen: &Logged) -> bool {
    let query = seen.query();
    let is_block = query.contains("comp=block&") && !query.ends_with("MA%3D%3D");
    seen.method == "PUT" && (query.contains("partNumber=") || is_block)
}

fn session_puts(log: &[Logged]) -> impl Iterator<Item = &Logged> {
    log.iter().filter(|seen| seen.method == "PUT" && seen.query().contains("upload_id="))
}

/// The bytes that a session has: those that arrived, without the last that make no granule.
fn kept_by_session(log: &[Logged]) -> usize {
    let kept = |seen: &Logged| {
        let is_dropped = seen.faults.iter().any(|fault| {
            matches!(fault, Fault::AfterBody(_) | Fault::ErrorInBody { has_effect: false, .. })
        });
        let range = seen.header("content-range")?.strip_prefix("bytes ")?;
        let start: usize = range.split_once('-')?.0.parse().ok()?;
        let end = start + usize::try_from(seen.body_bytes_received).ok()?;
        (!is_dropped).then_some(end / GRANULE * GRANULE)
    };
    session_puts(log).filter_map(kept).max().unwrap_or(0)
}
