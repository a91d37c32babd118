//! The window: which shards are in flight, when the next may start, and what is done about the
//! last ones. One task drives it; each shard is a task that it owns.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::extents::Extents;
use tidegate_core::parts::CrcParts;
use tidegate_core::plan::{PlanOptions, ShardPlan, Shards};
use tidegate_core::range::ByteRange;
use tokio::task::{Id, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::checks::{self, Checks, Proof};
use super::destination::{Committed, Destination};
use super::opening::{self, Opening};
use super::piece::Piece;
use super::resume::{Belief, Refuted};
use super::shard::{self, Shared};
use super::target::Prepared;
use super::{ShardedDownloadOptions, cancelled, report};
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{Flow, Known, RangeStream};
use crate::remote::{BlobInfo, Location};
use crate::sink::Sink;
use crate::transfer::limits::{BATCH_BYTES, ORDERED_SHARE, STREAM_BYTES, UNIT_BYTES};

/// Bytes between marks in the journal, at least: what a killed run loses of each shard.
const MARK_BYTES_MIN: u64 = 1 << 20;

/// Marks of a blob, at most; beyond 64 GiB they grow further apart, so that the journal does not.
const MARKS_MAX: u64 = 65_536;

/// How often the last shards are looked at.
const TAIL_TICK_MS: u64 = 50;

/// A shard is raced this often at most: where that does not help, its own restarts must.
const RACES_MAX: u32 = 3;

/// Readers until the first byte of the blob has come. It comes with the head of the first response,
/// as a rule, and the whole window starts then. A server that sends heads only is asked by few.
const READERS_BEFORE_BYTES: usize = 3;

/// A straggler is split only into halves that are worth a request.
const SPLIT_BYTES_MIN: u64 = 1 << 20;

/// Outcome of a transfer; becomes a [`super::Report`].
pub(super) struct Transfer {
    pub(super) bytes: u64,
    pub(super) resumed_bytes: u64,
    pub(super) info: BlobInfo,
    pub(super) proof: Proof,
    pub(super) notes: Vec<String>,
    pub(super) memory: Option<Bytes>,
}

pub(super) async fn transfer(
    location: &Location,
    prepared: Prepared,
    (mut opening, permit): (Opening, BytesPermit),
    (options, flow): (&ShardedDownloadOptions, Arc<Flow>),
    refuted: &mut Option<Refuted>,
) -> Result<Transfer> {
    let checks = match checks(&opening, options) {
        Ok(checks) => checks,
        Err(error) => {
            let rest = prepared.abandon(&error).await;
            return Err(error.with_rest(rest));
        }
    };
    let (mut destination, permit) =
        Destination::new(prepared, location, &mut opening, &checks, permit, options).await?;
    let sink = std::mem::replace(&mut destination.sink, Sink::Discard);
    let Opening { channel, info, range, single, resumed, belief, mut notes, .. } = opening;
    notes.append(&mut destination.notes);
    let resumed_bytes = resumed.iter().map(|mark| mark.crc.len()).sum();
    options.progress.expect(Some(range.end - range.start).filter(|_| range.end != u64::MAX));
    options.progress.reused(resumed_bytes);

    let mut parts = CrcParts::new(checks.crc);
    let mut done = Extents::new();
    for mark in &resumed {
        done.insert(mark.start..mark.start + mark.crc.len());
        // Checked not to overlap when they were read back.
        let _ = parts.insert(mark.start, mark.crc);
    }
    let shared = Arc::new(Shared {
        parts: Mutex::new(parts),
        progress: Arc::clone(&options.progress),
        stop: options.cancel.child_token(),
        // Files and memory begin with what is wanted, which may be a part of the blob.
        origin: if matches!(sink, Sink::Ordered(_)) { 0 } else { range.start },
        // Memory takes bytes at once: gathering them would only hold them longer.
        batch_bytes: if matches!(sink, Sink::Memory(_)) { 0 } else { BATCH_BYTES },
        sink,
        mark_bytes: MARK_BYTES_MIN.max(info.len_bytes.unwrap_or(0) / MARKS_MAX),
    });
    let mut window = Window::new(location, (options, flow), &shared, Known::of(&info));
    let run = window.run((channel, permit), range.clone(), single, done).await;
    drop(window);
    // Every shard has been joined: nobody else holds what they shared.
    let Some(Shared { sink, parts, .. }) = Arc::into_inner(shared) else {
        return Err(Error::new(
            ErrorKind::Cancelled,
            Operation::Download,
            location.display(),
            "a shard outlived its download",
        ));
    };
    destination.sink = sink;
    let whole = run.and_then(|()| whole(&parts, &range, location));
    let crc = match whole {
        Ok(crc) => crc,
        Err(error) => {
            let rest = destination.abandon(&error, options).await;
            return Err(error.with_rest(rest));
        }
    };
    let bytes = crc.len();
    let committed = destination.commit(crc.to_checksum(), &checks, bytes, location, options).await;
    let Committed { proof, memory, note } = committed.inspect_err(|error| {
        if error.kind() == ErrorKind::Integrity && belief != Belief::Known && resumed_bytes > 0 {
            *refuted = Some(Refuted { bytes, resumed_bytes });
        }
    })?;
    notes.extend(note);
    notes.extend(report::unproved_end(&info, &proof, bytes, options));
    Ok(Transfer { bytes, resumed_bytes, info, proof, notes, memory })
}

fn checks(opening: &Opening, options: &ShardedDownloadOptions) -> Result<Checks> {
    if options.range.is_some() {
        return Ok(Checks::none());
    }
    let (journal, lookup) = (opening.journal_crc, opening.lookup.clone());
    match opening.belief {
        // A CRC proves nothing against bytes that were made to have it.
        Belief::ByHash => {
            let mut info = opening.info.clone();
            info.checksums.retain(|stored| checks::is_hash(&stored.checksum));
            Checks::choose(&info, &options.expected, journal, lookup)
        }
        _ => Checks::choose(&opening.info, &options.expected, journal, lookup),
    }
}

/// The CRC of everything, if everything is there.
fn whole(parts: &Mutex<CrcParts>, range: &Range<u64>, location: &Location) -> Result<Crc> {
    let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
    let mut runs = parts.iter();
    let crc = match (runs.next(), runs.next()) {
        (None, _) => Some((range.start, Crc::empty(parts.algorithm()))),
        (only, None) => only,
        _ => None,
    };
    let crc = crc.filter(|(start, crc)| {
        let end = start.saturating_add(crc.len());
        *start == range.start && (end == range.end || range.end == u64::MAX)
    });
    crc.map(|(_, crc)| crc).ok_or_else(|| {
        Error::new(
            ErrorKind::Integrity,
            Operation::Verify,
            location.display(),
            "some of its bytes were never brought",
        )
    })
}

/// What is taken from the budget before the first request, for what its answer may bring.
pub(super) fn first_bytes(prepared: &Prepared, options: &ShardedDownloadOptions) -> u64 {
    match prepared {
        Prepared::Writer { .. } if options.window > 1 => opening::first_bytes(options),
        Prepared::Writer { .. } => STREAM_BYTES,
        // May turn out to be ordered, where only the remote's hash can be compared.
        Prepared::Discard => opening::first_bytes(options).max(UNIT_BYTES),
        _ => UNIT_BYTES,
    }
}

type Reserve = Pin<Box<dyn Future<Output = Option<BytesPermit>> + Send>>;

struct Window<'a> {
    location: &'a Location,
    options: &'a ShardedDownloadOptions,
    flow: Arc<Flow>,
    shared: Arc<Shared>,
    // By the first answer.
    known: Known,
    tasks: JoinSet<Result<()>>,
    pieces: HashMap<Id, Arc<Piece>>,
    waited: Duration,
}

impl<'a> Window<'a> {
    fn new(
        location: &'a Location,
        (options, flow): (&'a ShardedDownloadOptions, Arc<Flow>),
        shared: &Arc<Shared>,
        known: Known,
    ) -> Self {
        Self {
            location,
            options,
            flow,
            shared: Arc::clone(shared),
            known,
            tasks: JoinSet::new(),
            pieces: HashMap::new(),
            waited: Duration::ZERO,
        }
    }

    /// Brings everything in `range` that is not `done`. Returns once every task has ended.
    async fn run(
        &mut self,
        first: (Option<RangeStream>, Option<BytesPermit>),
        range: Range<u64>,
        single: bool,
        mut done: Extents,
    ) -> Result<()> {
        let (channel, first_permit) = first;
        if let Some(channel) = channel {
            self.waited = channel.waited();
            let end = channel.end().unwrap_or(u64::MAX);
            let first = channel.position()..end;
            if !first.is_empty() {
                done.insert(first.clone());
                self.spawn(Arc::new(Piece::new(first)), channel, first_permit);
            }
        }
        if single {
            done.insert(0..u64::MAX);
        }
        done.insert(0..range.start);
        let plan = self.plan();
        let rest = plan.shards(range.end, &done);
        let window = if single { 1 } else { plan.window().max(1) as usize };
        let outcome = self.drive(rest, window).await;
        // One has failed, or all have ended; either way none is left to run.
        self.shared.stop.cancel();
        if outcome.is_err() {
            self.shared.sink.abort();
        }
        while self.tasks.join_next().await.is_some() {
            self.shared.progress.ended();
        }
        outcome
    }

    fn plan(&self) -> ShardPlan {
        let ordered = matches!(self.shared.sink, Sink::Ordered(_));
        ShardPlan::new(&PlanOptions {
            window: self.options.window,
            shard_bytes_min: self.options.shard_bytes_min,
            shard_bytes_max: self.options.shard_bytes_max,
            bytes_budget: ordered.then(|| self.options.budget.limits().bytes / ORDERED_SHARE),
        })
    }

    async fn drive(&mut self, mut rest: Shards, window: usize) -> Result<()> {
        let mut next = rest.next();
        let mut reserving: Option<Reserve> = None;
        let mut tail = tail_ticks();
        loop {
            let begun = self.flow.has_begun();
            let readers_max = if begun { window } else { window.min(READERS_BEFORE_BYTES) };
            let room = self.tasks.len() < readers_max;
            if next.is_none() && self.tasks.is_empty() {
                return Ok(());
            }
            if let (None, Some(range), true) = (&reserving, &next, room) {
                reserving = Some(self.reserve(range.clone()));
            }
            let granted = async {
                match reserving.as_mut() {
                    Some(reserving) => reserving.await,
                    None => std::future::pending().await,
                }
            };
            // CANCEL: a reservation that is not ready stays in `reserving`; the rest is cancel-safe.
            tokio::select! {
                biased;
                () = self.options.cancel.cancelled() => return Err(cancelled(self.location)),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended)?,
                () = self.shared.sink.failed() => return Err(self.sink_failure().await),
                permit = granted => {
                    reserving = None;
                    if let Some(range) = next.take() {
                        self.start(range, permit);
                    }
                    next = rest.next();
                }
                // There is room for the whole window now.
                () = self.flow.begun(), if !begun => {}
                _ = tail.tick(), if next.is_none() && room => self.help_straggler(),
            }
        }
    }

    /// Waits for the right to hold what a shard of `range` holds.
    fn reserve(&self, range: Range<u64>) -> Reserve {
        let (shared, budget) = (Arc::clone(&self.shared), self.options.budget.clone());
        let held_bytes_max = budget.limits().bytes / ORDERED_SHARE;
        Box::pin(async move {
            match &shared.sink {
                Sink::Ordered(sink) => {
                    let len = range.end.saturating_sub(range.start);
                    sink.reserve(&budget, len, held_bytes_max).await;
                    None
                }
                // All that a download to memory holds was granted at once.
                Sink::Memory(sink) if sink.covers_shards => None,
                _ => Some(budget.bytes(UNIT_BYTES).await),
            }
        })
    }

    fn start(&mut self, range: Range<u64>, permit: Option<BytesPermit>) {
        let channel = self.channel(&range);
        self.spawn(Arc::new(Piece::new(range)), channel, permit);
    }

    fn channel(&self, range: &Range<u64>) -> RangeStream {
        let range = ByteRange::Bounded(range.clone());
        opening::channel(self.location, range, self.known.clone(), self.options, &self.flow)
    }

    fn spawn(&mut self, piece: Arc<Piece>, channel: RangeStream, permit: Option<BytesPermit>) {
        let (shared, theirs) = (Arc::clone(&self.shared), Arc::clone(&piece));
        shared.progress.started();
        let task =
            self.tasks.spawn(async move { shard::read(&theirs, channel, &shared, permit).await });
        self.pieces.insert(task.id(), piece);
    }

    fn ended(
        &mut self,
        ended: std::result::Result<(Id, Result<()>), tokio::task::JoinError>,
    ) -> Result<()> {
        self.shared.progress.ended();
        match ended {
            Ok((id, outcome)) => {
                self.pieces.remove(&id);
                outcome
            }
            Err(error) => {
                self.pieces.remove(&error.id());
                Err(Error::new(
                    ErrorKind::Cancelled,
                    Operation::Download,
                    self.location.display(),
                    "a shard's task ended early",
                )
                .caused_by(error))
            }
        }
    }

    async fn sink_failure(&self) -> Error {
        let nothing = crate::sink::Batch { offset: 0, frames: Vec::new(), mark: None, turn: None };
        match self.shared.sink.write(nothing).await {
            Err(error) => error,
            Ok(()) => cancelled(self.location),
        }
    }

    /// Nothing is left to start: splits the shard that would end last, or races it where nothing
    /// comes from it.
    fn help_straggler(&mut self) {
        let patience = Duration::from_millis(250).max(self.waited * 4);
        let worst = self
            .pieces
            .values()
            .map(|piece| (piece, piece.pace()))
            .filter(|(piece, pace)| !piece.is_finished() && pace.remaining.end != u64::MAX)
            .max_by_key(|(_, pace)| pace.remaining.end - pace.remaining.start);
        let Some((piece, pace)) = worst else { return };
        let piece = Arc::clone(piece);
        let left = pace.remaining.end - pace.remaining.start;
        let eta = left.saturating_mul(1000).checked_div(pace.rate).unwrap_or(u64::MAX);
        let stuck = pace.idle > patience.max(Duration::from_secs(1));
        let slow = u128::from(eta) > patience.as_millis();
        // In an ordered sink the bytes were reserved with the shard that is split or raced, in
        // memory with the blob.
        let covered = match &self.shared.sink {
            Sink::Ordered(_) => true,
            Sink::Memory(sink) => sink.covers_shards,
            Sink::File(_) | Sink::Discard => false,
        };
        let permit = if covered {
            None
        } else {
            let Some(permit) = self.options.budget.try_bytes(UNIT_BYTES) else { return };
            Some(permit)
        };
        if stuck && pace.readers < 2 && pace.races < RACES_MAX {
            let range = piece.join();
            let channel = self.channel(&range);
            self.spawn(piece, channel, permit);
        } else if slow
            && !stuck
            // The halves of what brings nothing bring nothing.
            && self.flow.has_begun()
            && let Some(far) = piece.split(SPLIT_BYTES_MIN)
        {
            self.start(far, permit);
        }
    }
}

fn tail_ticks() -> Interval {
    let mut ticks = interval(Duration::from_millis(TAIL_TICK_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
