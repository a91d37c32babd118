//! [`ShardUnits`]: which shards of a blob are in flight, from which mirror, when the next may start,
//! and how the last ones are split or raced.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::extents::Extents;
use tidegate_core::plan::{PlanOptions, ShardPlan, Shards};
use tidegate_core::range::ByteRange;
use tidegate_core::window::WindowOptions;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Job;
use super::mirrors::{Answer, Mirrors};
use super::shard::{self, PieceReader, ShardEnd, ShardJob};
use super::shard_range::{Pace, ShardRange};
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Result};
use crate::read::RangeStream;
use crate::sink::Sink;
use crate::transfer::driver::{Flight, UnitFuture, Units, drive_to_end};
use crate::transfer::limits::{ORDERED_SHARE, UNIT_BYTES};
use crate::transfer::window::TransferWindow;

/// How often the last shards are checked.
const TAIL_TICK_MS: u64 = 50;

/// A shard is raced at most this often. If that does not help, its own restarts must.
const RACES_MAX: u32 = 3;

/// Readers at most until the first byte of the blob arrives. Usually it arrives with the head of
/// the first response, and then the whole window starts. So a server that sends only heads gets few
/// requests.
const READERS_BEFORE_BYTES: usize = 3;

/// A straggler is split only if each half has at least this many bytes, enough to be worth a
/// request.
const SPLIT_BYTES_MIN: u64 = 1 << 20;

/// The shards of one download.
pub(super) struct ShardUnits<'a> {
    job: &'a Job<'a>,
    shared: Arc<ShardJob>,
    mirrors: &'a mut Mirrors,
    window: TransferWindow,
    /// Shards that have not been started.
    rest: Shards,
    next: Option<Range<u64>>,
    /// A shard waits for its grant.
    is_waiting: bool,
    /// Pieces in flight, by number.
    pieces: HashMap<u64, Piece>,
    /// The rests of shards whose mirror was dropped. They go on as soon as a mirror is ready.
    returned: Vec<GrantedShard>,
    count: u64,
    /// From the first request to its first byte.
    waited: Duration,
    tail: Interval,
}

/// A shard in flight, and the mirror of its reader.
#[derive(Clone)]
struct Piece {
    range: Arc<ShardRange>,
    mirror: usize,
}

/// A shard that may start.
pub(super) struct GrantedShard {
    range: Range<u64>,
    permit: Option<BytesPermit>,
}

/// A reader that has ended.
pub(super) struct EndedShard {
    number: u64,
    permit: Option<BytesPermit>,
    end: ShardEnd,
}

/// Other events of a download.
pub(super) enum ShardEvent {
    SinkFailed(Error),
    /// The first byte has arrived: the whole window may start.
    FirstByte,
    /// Nothing is left to start: it is time to check the last shards.
    Tail,
    /// A mirror has answered, or never will.
    Answered(Option<Answer>),
}

impl<'a> ShardUnits<'a> {
    /// The shards of `range` that are not `done`. With `single`, one request must deliver
    /// everything.
    pub(super) fn new(
        job: &'a Job<'a>,
        shared: &Arc<ShardJob>,
        mirrors: &'a mut Mirrors,
        range: Range<u64>,
        single: bool,
        mut done: Extents,
    ) -> Self {
        let is_ordered = matches!(shared.destination.sink, Sink::Ordered(_));
        let options = job.options;
        let plan = ShardPlan::new(&PlanOptions {
            window: options.window,
            shard_bytes_min: options.shard_bytes_min,
            shard_bytes_max: options.shard_bytes_max,
            bytes_budget: is_ordered.then(|| options.budget.limits().bytes / ORDERED_SHARE),
        });
        let window = if single { 1 } else { plan.window().max(1) };
        done.insert(0..range.start);
        if single {
            done.insert(0..u64::MAX);
        }
        Self {
            job,
            shared: Arc::clone(shared),
            mirrors,
            window: TransferWindow::new(WindowOptions::fixed(window)),
            rest: plan.shards(range.end, &done),
            next: None,
            is_waiting: false,
            pieces: HashMap::new(),
            returned: Vec::new(),
            count: 0,
            waited: Duration::ZERO,
            tail: tail_ticks(),
        }
    }

    /// Fetches all shards. `first` is the stream of the first shard, which is already open. Returns
    /// when every reader has ended.
    pub(super) async fn run(
        &mut self,
        first: Option<(RangeStream, Option<BytesPermit>)>,
    ) -> Result<()> {
        let (shared, cancel) = (Arc::clone(&self.shared), &self.job.options.cancel);
        let mut flight = Flight::default();
        if let Some((channel, permit)) = first {
            self.waited = channel.waited();
            let range = channel.position()..channel.end().unwrap_or(u64::MAX);
            if !range.is_empty() {
                let (range, mirror) = (Arc::new(ShardRange::new(range)), self.mirrors.lead());
                self.spawn(&mut flight, Piece { range, mirror }, channel, permit);
            }
        }
        self.next = self.rest.next();
        drive_to_end(self, flight, cancel, &shared.stop, || shared.destination.sink.abort()).await
    }

    fn channel(&self, mirror: usize, range: &Range<u64>) -> Option<RangeStream> {
        self.mirrors.stream(mirror, ByteRange::Bounded(range.clone()), self.job.options)
    }

    fn spawn(
        &mut self,
        flight: &mut Flight<EndedShard>,
        piece: Piece,
        channel: RangeStream,
        permit: Option<BytesPermit>,
    ) {
        let (number, calls) = (self.count, self.job.calls.clone());
        self.count += 1;
        self.pieces.insert(number, piece.clone());
        let (bytes, stop) = self.mirrors.begin_reader(piece.mirror);
        let reader = PieceReader { piece: piece.range, channel, bytes, stop };
        let shared = Arc::clone(&self.shared);
        let in_flight = self.shared.progress.begin_unit();
        let reader = async move {
            let _in_flight = in_flight;
            let end = shard::read(reader, &shared).await;
            EndedShard { number, permit, end }
        };
        flight.spawn(reader, move |error| {
            let lost = calls.error(ErrorKind::Cancelled, "the task of a shard ended early");
            EndedShard { number, permit: None, end: ShardEnd::Failed(lost.caused_by(error)) }
        });
    }

    /// A mirror has failed at a shard. If another mirror is left, the rest of the shard is returned.
    fn broken(
        &mut self,
        piece: &Piece,
        permit: Option<BytesPermit>,
        error: Option<Error>,
        is_last: bool,
    ) -> Result<()> {
        // A second reader of the same mirror may still finish the shard.
        let is_decisive = is_last || self.mirrors.choose_other(piece.mirror).is_some();
        if let Some(error) = error.filter(|_| is_decisive)
            && let Some(error) = self.mirrors.fail(piece.mirror, error)
        {
            return Err(error);
        }
        if is_last && !piece.range.is_finished() {
            let range = piece.range.pace().remaining;
            self.returned.push(GrantedShard { range, permit });
        }
        Ok(())
    }

    /// Called when nothing is left to start: splits the shard with the most bytes left, or races it
    /// if no bytes arrive for it.
    fn help_straggler(&mut self, flight: &mut Flight<EndedShard>) {
        let patience = Duration::from_millis(250).max(self.waited * 4);
        let worst = self
            .pieces
            .values()
            .map(|piece| (piece, piece.range.pace()))
            .filter(|(piece, pace)| !piece.range.is_finished() && pace.remaining.end != u64::MAX)
            .max_by_key(|(_, pace)| pace.remaining.end - pace.remaining.start);
        let Some((piece, pace)) = worst else { return };
        let piece = piece.clone();
        let left = pace.remaining.end - pace.remaining.start;
        let eta = left.saturating_mul(1000).checked_div(pace.rate).unwrap_or(u64::MAX);
        let stuck = pace.idle > patience.max(Duration::from_secs(1));
        let slow = u128::from(eta) > patience.as_millis();
        // An ordered sink reserved the bytes with the shard that is split or raced. Memory reserved
        // them with the blob.
        let covered = match &self.shared.destination.sink {
            Sink::Ordered(_) => true,
            Sink::Memory(sink) => sink.covers_shards,
            Sink::File(_) | Sink::Discard => false,
        };
        let permit = if covered {
            None
        } else {
            let Some(permit) = self.job.options.budget.try_bytes(UNIT_BYTES) else { return };
            Some(permit)
        };
        if stuck && may_race(&pace) {
            let other = self.mirrors.choose_other(piece.mirror);
            self.race(&piece, other.unwrap_or(piece.mirror), flight, permit);
            return;
        }
        // If no byte has arrived yet, two halves would not deliver more.
        if !slow || stuck || !self.job.flow.has_begun() {
            return;
        }
        if let Some(far) = piece.range.split(SPLIT_BYTES_MIN) {
            self.start(GrantedShard { range: far, permit }, flight);
        } else if may_race(&pace)
            && let Some(other) = self.mirrors.choose_other(piece.mirror)
            && self.mirrors.is_much_slower(piece.mirror, other)
        {
            self.race(&piece, other, flight, permit);
        }
    }

    /// Adds a reader, from this mirror, to a piece.
    fn race(
        &mut self,
        piece: &Piece,
        mirror: usize,
        flight: &mut Flight<EndedShard>,
        permit: Option<BytesPermit>,
    ) {
        let remaining = piece.range.pace().remaining;
        let Some(channel) = self.channel(mirror, &remaining) else { return };
        piece.range.join();
        let racer = Piece { range: Arc::clone(&piece.range), mirror };
        self.spawn(flight, racer, channel, permit);
    }
}

impl Units for ShardUnits<'_> {
    type Granted = GrantedShard;
    type Ended = EndedShard;
    type Event = ShardEvent;
    type Error = Error;

    fn advance(&mut self, flight: &mut Flight<EndedShard>) {
        for _ in 0..self.returned.len() {
            if let Some(shard) = self.returned.pop() {
                self.start(shard, flight);
            }
        }
    }

    fn next(&mut self, flight: &mut Flight<EndedShard>) -> Option<UnitFuture<GrantedShard>> {
        let has_begun = self.job.flow.has_begun();
        let limit = self.window.limit();
        let limit = if has_begun { limit } else { limit.min(READERS_BEFORE_BYTES) };
        if flight.len() >= limit || self.mirrors.choose().is_none() {
            return None;
        }
        let range = self.next.take()?;
        self.next = self.rest.next();
        self.is_waiting = true;
        let shared = Arc::clone(&self.shared);
        Some(Box::pin(async move {
            let budget = &shared.destination.bytes;
            let permit = match &shared.destination.sink {
                Sink::Ordered(sink) => {
                    let held_bytes_max = budget.limits().bytes / ORDERED_SHARE;
                    let len = range.end.saturating_sub(range.start);
                    sink.reserve(budget, len, held_bytes_max).await;
                    None
                }
                // All bytes that a download to memory holds were granted in one step.
                Sink::Memory(sink) if sink.covers_shards => None,
                _ => Some(budget.bytes(UNIT_BYTES).await),
            };
            GrantedShard { range, permit }
        }))
    }

    fn start(&mut self, granted: GrantedShard, flight: &mut Flight<EndedShard>) {
        self.is_waiting = false;
        let mirror = self.mirrors.choose();
        let chosen =
            mirror.and_then(|mirror| Some((mirror, self.channel(mirror, &granted.range)?)));
        let Some((mirror, channel)) = chosen else {
            self.returned.push(granted);
            return;
        };
        let range = Arc::new(ShardRange::new(granted.range));
        self.spawn(flight, Piece { range, mirror }, channel, granted.permit);
    }

    fn ended(&mut self, ended: EndedShard) -> Result<()> {
        let Some(piece) = self.pieces.remove(&ended.number) else { return Ok(()) };
        self.mirrors.end_reader(piece.mirror);
        match ended.end {
            ShardEnd::Done => Ok(()),
            ShardEnd::Failed(error) => Err(error),
            ShardEnd::Broken { error, is_last } => {
                self.broken(&piece, ended.permit, error, is_last)
            }
        }
    }

    async fn event(&mut self, in_flight: usize) -> ShardEvent {
        let (sink, flow) = (&self.shared.destination.sink, &self.job.flow);
        let has_begun = flow.has_begun();
        let is_tail = self.next.is_none() && !self.is_waiting && in_flight < self.window.limit();
        // CANCEL: a tick that is not ready stays in `tail`.
        tokio::select! {
            biased;
            error = sink.failed() => ShardEvent::SinkFailed(error),
            () = flow.begun(), if !has_begun => ShardEvent::FirstByte,
            answer = self.mirrors.answered() => ShardEvent::Answered(answer),
            _ = self.tail.tick(), if is_tail => ShardEvent::Tail,
        }
    }

    fn on_event(&mut self, event: ShardEvent, flight: &mut Flight<EndedShard>) -> Result<()> {
        match event {
            ShardEvent::SinkFailed(error) => return Err(error),
            ShardEvent::FirstByte => {}
            ShardEvent::Tail => self.help_straggler(flight),
            ShardEvent::Answered(answer) => self.mirrors.on_answer(answer, self.job.options)?,
        }
        Ok(())
    }

    fn is_over(&self, in_flight: usize) -> bool {
        self.next.is_none() && self.returned.is_empty() && in_flight == 0
    }

    fn cancelled(&self) -> Error {
        self.job.calls.cancelled()
    }
}

/// Whether another reader may join a piece.
fn may_race(pace: &Pace) -> bool {
    pace.readers < 2 && pace.races < RACES_MAX
}

fn tail_ticks() -> Interval {
    let mut ticks = interval(Duration::from_millis(TAIL_TICK_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
