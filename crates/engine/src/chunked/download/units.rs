//! [`ChunkUnits`]: the units of a blob that are in flight, and when the next unit starts.
//!
//! A slow unit does not stall the others: each chunk is written at its place as it arrives, in any
//! order. Only a target that takes bytes in order makes chunks wait, within the budget. A unit
//! frees its slot in the window when the sink has received its bytes, before they are written. So
//! the latency of the disk does not reduce the number of requests in flight. The budget still
//! limits the bytes that wait for the disk.
//!
//! Why units cannot deadlock:
//!
//! - A unit reserves its bytes before it starts, and takes its request permit afterwards. It
//!   releases the request before it waits for its sink.
//! - The units of an ordered sink reserve their bytes in the order of the blob (see
//!   [`crate::sink`]).
//! - A chunk longer than [`held_bytes_max`] is streamed into the sink and holds its request
//!   meanwhile. Either its bytes were granted in full, or all bytes before them have been
//!   delivered. While the sink's reader pauses, the request is released.
//! - A unit that follows another transfer's fetch holds its own bytes and no request. It leads
//!   nothing meanwhile (see `inflight`).
//! - A leader holds its bytes. It waits only for a request or for a disk.
//! - A unit that streams into an ordered sink never leads, because it may wait for the sink's
//!   reader.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate_core::digest::Digest;
use tokio::sync::Notify;

use super::fetch::Fetcher;
use super::fetch_error::FetchError;
use super::long::{FetchedFrom, LongChunk};
use super::place::Placing;
use super::plan::PlannedChunk;
use super::queue::{Batching, ChunkUnit, ChunkUnitKind, Queue};
use super::run::stream_bytes;
use crate::budget::{Budget, BudgetOptions, BytesPermit};
use crate::chunked::chunk::Chunk;
use crate::error::{Error, ErrorKind};
use crate::sink::Sink;
use crate::transfer::blocking::blocking;
use crate::transfer::driver::{Flight, UnitFuture, Units};
use crate::transfer::limits::{ORDERED_SHARE, UNIT_BYTES};

/// The longest chunk that is held whole in memory. Such a chunk is verified before it is written,
/// and is shared with concurrent downloads. This is the longest chunk that the Remote Execution
/// API's parameters allow for `FastCDC` 2020.
const HELD_BYTES_MAX: u64 = 4 << 20;

/// ... but at most the budget divided by this. With a budget of 16 MiB the limit is 2 MiB.
const HELD_SHARE: u64 = 8;

/// The longest chunk that is held whole in memory with this budget.
pub(super) fn held_bytes_max(budget: &Budget) -> u64 {
    HELD_BYTES_MAX.min(budget.limits().bytes / HELD_SHARE)
}

/// One blob may hold this much, or an eighth of the budget if that is more. A grown window over a
/// long distance needs it: 56 chunks of 1 MiB give 18 Gbit/s over 25 ms. With the bytes in its sink
/// and its hasher, that is less than 64 MiB in all.
const OWN_BYTES_MIN: u64 = 56 << 20;
const OWN_SHARE: u64 = 8;

/// The budget of one blob. It bounds the memory of a blob when the process-wide budget is large,
/// and leaves room for other blobs. A unit reserves here first. A unit that holds a reservation
/// here needs no second one to end.
pub(super) fn own_share(budget: &Budget) -> Budget {
    let limits = budget.limits();
    Budget::new(BudgetOptions { bytes: OWN_BYTES_MIN.max(limits.bytes / OWN_SHARE), ..limits })
}

/// What the units of one download share.
#[derive(Debug)]
pub(super) struct ChunkJob {
    pub(super) fetcher: Fetcher,
    pub(super) placing: Placing,
    pub(super) batching: Batching,
    /// The bytes that this blob may hold; see [`own_share`].
    pub(super) own: Budget,
    /// The longest chunk that is held whole in memory; see [`held_bytes_max`].
    pub(super) held_bytes_max: u64,
    pub(super) copied_chunks: AtomicU64,
    pub(super) copied_bytes: AtomicU64,
}

/// Slots of the units in flight. Fetches are limited by the window, copies by the number of cores.
#[derive(Debug, Default)]
struct Slots {
    fetching: AtomicUsize,
    copying: AtomicUsize,
    freed: Notify,
}

/// One slot; freed when dropped.
struct Slot(Arc<Slots>, ChunkUnitKind);

impl Slots {
    fn of(&self, kind: ChunkUnitKind) -> &AtomicUsize {
        match kind {
            ChunkUnitKind::Fetch => &self.fetching,
            ChunkUnitKind::Copy => &self.copying,
        }
    }

    fn used(&self, kind: ChunkUnitKind) -> usize {
        self.of(kind).load(Ordering::Acquire)
    }

    fn take(self: &Arc<Self>, kind: ChunkUnitKind) -> Slot {
        self.of(kind).fetch_add(1, Ordering::AcqRel);
        Slot(Arc::clone(self), kind)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.of(self.1).fetch_sub(1, Ordering::AcqRel);
        self.0.freed.notify_one();
    }
}

/// The reservations of a unit: in the blob's own budget, and in the process-wide budget.
type Held = (BytesPermit, BytesPermit);

/// The chunks of one download that have not been started.
pub(super) struct ChunkUnits {
    shared: Arc<ChunkJob>,
    queue: Queue,
    slots: Arc<Slots>,
    copies_max: usize,
}

/// A unit that has its reservation and may start.
pub(super) struct GrantedUnit {
    unit: ChunkUnit,
    /// `None` if an ordered sink holds the permit.
    held: Option<Held>,
}

/// Events other than the end of a unit.
pub(super) enum ChunkEvent {
    SinkFailed(Error),
    /// A unit has freed its slot in the window.
    SlotFreed,
}

impl ChunkUnits {
    pub(super) fn new(shared: &Arc<ChunkJob>, queue: Queue) -> Self {
        let copies_max = std::thread::available_parallelism().map_or(1, usize::from);
        Self { shared: Arc::clone(shared), queue, slots: Arc::default(), copies_max }
    }
}

impl Units for ChunkUnits {
    type Granted = GrantedUnit;
    type Ended = Result<(), FetchError>;
    type Event = ChunkEvent;
    type Error = FetchError;

    fn next(&mut self, _flight: &mut Flight<Self::Ended>) -> Option<UnitFuture<GrantedUnit>> {
        let window = self.shared.fetcher.window.limit();
        let may_fetch = self.slots.used(ChunkUnitKind::Fetch) < window;
        let may_copy = self.slots.used(ChunkUnitKind::Copy) < self.copies_max;
        let unit = self.queue.next(window, may_fetch, may_copy)?;
        Some(Box::pin(reserve(Arc::clone(&self.shared), unit)))
    }

    fn start(&mut self, granted: GrantedUnit, flight: &mut Flight<Self::Ended>) {
        let GrantedUnit { unit, held } = granted;
        let (shared, calls) = (Arc::clone(&self.shared), self.shared.fetcher.calls.clone());
        let slot = self.slots.take(unit.kind);
        let running = async move { shared.run_unit(unit, held, slot).await };
        flight.spawn(running, move |error| {
            let lost = calls.error(ErrorKind::Cancelled, "a unit's task ended early");
            Err(lost.caused_by(error).into())
        });
    }

    fn ended(&mut self, ended: Self::Ended) -> Result<(), FetchError> {
        ended
    }

    async fn event(&mut self, _in_flight: usize) -> ChunkEvent {
        tokio::select! {
            biased;
            error = self.shared.placing.destination.sink.failed() => ChunkEvent::SinkFailed(error),
            () = self.slots.freed.notified() => ChunkEvent::SlotFreed,
        }
    }

    fn on_event(
        &mut self,
        event: ChunkEvent,
        _flight: &mut Flight<Self::Ended>,
    ) -> Result<(), FetchError> {
        match event {
            ChunkEvent::SinkFailed(error) => Err(error.into()),
            ChunkEvent::SlotFreed => Ok(()),
        }
    }

    fn is_over(&self, in_flight: usize) -> bool {
        self.queue.is_empty() && in_flight == 0
    }

    fn cancelled(&self) -> FetchError {
        self.shared.fetcher.calls.cancelled().into()
    }
}

/// Waits for the reservation of a unit.
async fn reserve(shared: Arc<ChunkJob>, unit: ChunkUnit) -> GrantedUnit {
    let bytes = unit.bytes();
    let destination = &shared.placing.destination;
    let is_long = bytes > shared.held_bytes_max && unit.plan.len() == 1;
    if let Sink::Ordered(sink) = &destination.sink {
        let held_bytes_max = destination.bytes.limits().bytes / ORDERED_SHARE;
        let ahead_bytes = if is_long { stream_bytes(&destination.bytes) } else { bytes };
        sink.reserve_streamed(&destination.bytes, bytes, ahead_bytes, held_bytes_max).await;
        return GrantedUnit { unit, held: None };
    }
    let held_bytes = if is_long { UNIT_BYTES.min(bytes) } else { bytes };
    let own = shared.own.bytes(held_bytes).await;
    let permit = destination.bytes.bytes(held_bytes).await;
    GrantedUnit { unit, held: Some((own, permit)) }
}

impl ChunkJob {
    /// Runs one unit: fetches or copies its chunks, and writes them into the sink.
    async fn run_unit(
        &self,
        unit: ChunkUnit,
        held: Option<Held>,
        slot: Slot,
    ) -> Result<(), FetchError> {
        let in_flight = self.placing.progress.begin_unit();
        let outcome = self.load_unit(&unit, slot).await;
        drop(in_flight);
        // The reservation lasts until here.
        drop(held);
        outcome
    }

    async fn load_unit(&self, unit: &ChunkUnit, slot: Slot) -> Result<(), FetchError> {
        if let [planned] = unit.plan.as_slice()
            && planned.digest.len > self.held_bytes_max
        {
            return self.load_long(planned).await;
        }
        let chunks = match unit.kind {
            ChunkUnitKind::Copy => self.copy(unit).await?,
            ChunkUnitKind::Fetch => {
                let batched =
                    unit.plan.iter().all(|planned| self.batching.takes(planned.digest.len));
                self.fetcher.fetch(&unit.plan, batched).await?
            }
        };
        self.placing.place(&unit.plan, &chunks, slot, &self.fetcher.calls).await?;
        if let Some(recurring) = &self.fetcher.recurring {
            unit.plan.iter().for_each(|planned| recurring.placed(&planned.digest));
        }
        Ok(())
    }

    /// Streams a chunk that is too long to be held in memory.
    async fn load_long(&self, planned: &PlannedChunk) -> Result<(), FetchError> {
        let long = LongChunk { fetcher: &self.fetcher, placing: &self.placing, planned };
        let loaded = long.load().await;
        let part = self.fetcher.part(planned);
        match loaded.map_err(|failure| failure.with(&part, &self.fetcher.calls))? {
            FetchedFrom::Seed => self.copied(&planned.digest),
            FetchedFrom::Leader => self.fetcher.shared(&planned.digest),
            // Already counted while it arrived.
            FetchedFrom::Store => {}
        }
        Ok(())
    }

    /// Copies chunks from seeds. Fetches the chunks that no longer match.
    async fn copy(&self, unit: &ChunkUnit) -> Result<Vec<Chunk>, FetchError> {
        let plan = unit.plan.clone();
        let read = blocking(move || {
            let read = plan.iter().map(|planned| planned.seed.as_ref()?.read(&planned.digest));
            Ok(read.collect::<Vec<Option<Chunk>>>())
        });
        let mut chunks = read.await?;
        let is_there = |chunk: &Option<Chunk>| chunk.is_some();
        unit.plan
            .iter()
            .zip(&chunks)
            .filter(|(_, chunk)| is_there(chunk))
            .for_each(|(planned, _)| self.copied(&planned.digest));
        let lost = unit.plan.iter().zip(&chunks).filter(|(_, chunk)| !is_there(chunk));
        // Without the seed, so that it is not read again.
        let lost = lost.map(|(planned, _)| PlannedChunk { seed: None, ..planned.clone() });
        let mut lost: VecDeque<PlannedChunk> = lost.collect();
        let mut fetched = VecDeque::new();
        while !lost.is_empty() {
            let plan = self.batching.request(&mut lost);
            let batched = plan.iter().all(|planned| self.batching.takes(planned.digest.len));
            fetched.extend(self.fetcher.fetch(&plan, batched).await?);
        }
        chunks
            .iter_mut()
            .filter(|chunk| chunk.is_none())
            .for_each(|lost| *lost = fetched.pop_front());
        Ok(chunks.into_iter().flatten().collect())
    }

    fn copied(&self, digest: &Digest) {
        self.copied_chunks.fetch_add(1, Ordering::Relaxed);
        self.copied_bytes.fetch_add(digest.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// A unit frees its slot when the sink has received its bytes, even if nothing is written yet.
    #[test]
    fn a_freed_slot_wakes_the_task_that_starts_units() {
        let slots = Arc::new(Slots::default());
        let (fetch, copy) = (slots.take(ChunkUnitKind::Fetch), slots.take(ChunkUnitKind::Copy));
        assert_eq!((slots.used(ChunkUnitKind::Fetch), slots.used(ChunkUnitKind::Copy)), (1, 1));
        assert!(slots.freed.notified().now_or_never().is_none());
        drop(fetch);
        assert!(slots.freed.notified().now_or_never().is_some());
        drop(copy);
        assert_eq!((slots.used(ChunkUnitKind::Fetch), slots.used(ChunkUnitKind::Copy)), (0, 0));
    }
}
