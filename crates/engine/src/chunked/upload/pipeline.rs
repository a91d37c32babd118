//! [`Pipeline`]: cutting, asking and sending of one blob, all at once.
//!
//! ```text
//! SourceCutter --> Ledger --> (lead or follow) --> MissingQuery --> SendQueue --> send
//!              all          one upload         which         what
//!             chunks      of this process    chunks are     shares a
//!                            leads           missing?       request
//! ```
//!
//! One future drives the pipeline and owns everything in flight. Dropping it ends every request,
//! and then releases the chunks that it led, so that other uploads can lead them.
//!
//! A chunk is led from before the store is asked for it until its fate is known, not only while it
//! is sent. So if two uploads find the same chunk, the second one follows, or it asks after the
//! first one has put the chunk.
//!
//! Why no upload waits for ever:
//! - A chunk that this upload leads is asked for and sent, even while the upload follows other
//!   chunks. Too many open chunks pause only cutting; chunks that have been cut continue. So every
//!   lead ends.
//! - All memory of a load is reserved from the budget before the load is read, and held until the
//!   store has the load. A load that has its memory waits only for a request permit. A load that
//!   has its request permit waits only for the store. Cutting holds memory only while it works (see
//!   `cut`).
//! - One load at a time waits for memory. So a large blob does not put hundreds of reservations
//!   into the queue before the one of a small blob.

mod units;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::digest::Digest;

use super::cutting::{Cut, SourceCutter};
use super::held::HeldBytes;
use super::ledger::{ChunkStatus, Ledger, UploadChunk};
use super::missing_query::MissingQuery;
use super::send::{held_bytes, paid_bytes, send};
use super::send_queue::{Load, SendQueue};
use super::spare::{Spare, SpareMemory};
use super::transfer::Transfer;
use crate::budget::{Budget, BytesPermit};
use crate::chunked::StoreProfile;
use crate::chunked::inflight::{Joined, Key, Leader};
use crate::error::Result;
use crate::transfer::driver::{Flight, UnitFuture, drive};

/// How far cutting runs ahead of sending. Bytes that were cut are read again when they are sent;
/// 512 MiB are surely still in the page cache then.
const AHEAD_BYTES_MAX: u64 = 512 << 20;

/// Loads in flight hold at most this many sixteenths of the budget, and one load more. The rest is
/// for other blobs. With the default budget this is 48 MiB, which fill 10 Gbit/s at 40 ms.
const SIXTEENTHS: u64 = 3;

/// Chunks whose fate may be open at once. This bounds memory when chunks are tiny.
const OPEN_MAX: usize = 1 << 16;

/// A load that has its memory and may be sent.
pub(super) struct GrantedLoad {
    load: Load,
    permit: BytesPermit,
}

/// Events other than the end of a call.
pub(super) enum UploadEvent {
    Cut(Result<Cut>),
    /// The linger of a question is over: it goes without more chunks.
    Lingered,
}

/// The successful result of something in flight.
pub(super) enum EndedCall {
    Asked { ids: Vec<usize>, blob: Option<Digest>, missing: HashSet<Digest> },
    Sent { load: Load, paid_bytes: u64 },
    Followed { id: usize, is_done: bool },
}

/// The state of the question whether the store has the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlobQuery {
    /// There is nothing to ask, or the store has responded.
    None,
    /// The store is to be asked.
    Open(Digest),
    /// The store has been asked and has not responded.
    Put,
}

impl BlobQuery {
    /// Takes the blob to ask for, if the question is open.
    fn put(&mut self) -> Option<Digest> {
        let Self::Open(blob) = *self else { return None };
        *self = Self::Put;
        Some(blob)
    }
}

/// One upload in progress.
pub(super) struct Pipeline {
    transfer: Arc<Transfer>,
    /// Calls and waits that are to be added to those in flight.
    begun: Vec<UnitFuture<Result<EndedCall>>>,
    leads: HashMap<usize, Leader<Key, ()>>,
    cutting: Option<SourceCutter>,
    ledger: Ledger,
    missing_query: MissingQuery,
    send_queue: SendQueue,
    delivered_chunks: u64,
    sending: usize,
    held_bytes: u64,
    /// Whether the store has the blob.
    blob_query: BlobQuery,
    blob: Option<Digest>,
    is_present: bool,
    is_forced: bool,
    has_lingered: bool,
}

impl Pipeline {
    /// Starts with nothing cut. `asked` is the blob, if its digest is known and it is not its own
    /// only chunk.
    pub(super) fn new(
        transfer: &Arc<Transfer>,
        profile: &StoreProfile,
        cutting: SourceCutter,
        asked: Option<Digest>,
    ) -> Self {
        let send_queue = SendQueue::new(profile.batch, held_bytes_max(&transfer.budget));
        let mut this = Self {
            transfer: Arc::clone(transfer),
            begun: Vec::new(),
            leads: HashMap::new(),
            cutting: Some(cutting),
            ledger: Ledger::default(),
            missing_query: MissingQuery::new(),
            send_queue,
            delivered_chunks: 0,
            sending: 0,
            held_bytes: 0,
            blob_query: BlobQuery::None,
            blob: None,
            is_present: false,
            is_forced: false,
            has_lingered: false,
        };
        if asked.is_some() {
            this.blob_query = BlobQuery::Put;
            this.start_asking(Vec::new(), asked);
        }
        this
    }

    /// Runs until the fate of every chunk is known, or the store says that it has the blob. Nothing
    /// is in flight afterwards.
    pub(super) async fn run(&mut self) -> Result<()> {
        let cancel = self.transfer.calls.register.cancel.clone();
        let mut flight = Flight::default();
        let driven = drive(self, &mut flight, &cancel).await;
        // What is still in flight is not needed: either the question for the blob, if all chunks
        // were sent, or everything else, if the store has the blob. It would keep requests, memory
        // and chunks from other uploads, and perhaps from the next request of this one.
        drop(flight);
        driven?;
        self.begun.clear();
        self.cutting = None;
        // Only now: a lead may pass to another upload only when nothing of it is in flight.
        self.leads.clear();
        Ok(())
    }

    /// The store has lost chunks. Asks for the chunks `ids` again, or, with `is_forced`, sends them
    /// without asking.
    pub(super) async fn again(&mut self, ids: &[usize], is_forced: bool) -> Result<()> {
        self.is_forced = is_forced;
        self.blob_query = BlobQuery::None;
        for id in ids {
            self.ledger.settle(*id, ChunkStatus::Open);
            self.lead_or_follow(*id);
        }
        self.run().await
    }

    /// The blob, once the whole file has been read or the store says that it has the blob.
    pub(super) fn blob(&self) -> Option<Digest> {
        self.blob
    }

    /// Whether the store says that it has the blob.
    pub(super) fn is_present(&self) -> bool {
        self.is_present
    }

    /// Number of chunks that were missing and that this or another upload has sent since. A chunk
    /// that had to be sent twice counts twice.
    pub(super) fn delivered_chunks(&self) -> u64 {
        self.delivered_chunks
    }

    /// The chunks that have been cut, and their fates.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn has_room(&self) -> bool {
        self.missing_query.has_room()
            && self.ledger.open() < OPEN_MAX
            && self.send_queue.len_bytes() < AHEAD_BYTES_MAX
    }

    fn cut(&mut self, cut: Cut) {
        match cut {
            Cut::Chunks(chunks) => {
                for chunk in chunks {
                    self.transfer.progress.read(chunk.len);
                    match self.ledger.append(chunk) {
                        Some(id) => self.lead_or_follow(id),
                        None => self.transfer.progress.reused(chunk.len),
                    }
                }
            }
            Cut::End(blob) => {
                self.cutting = None;
                self.missing_query.close();
                // A blob that is its own only chunk is asked for as a chunk.
                let is_chunk = self.ledger.piece(0).is_some_and(|piece| piece.digest == blob);
                if !is_chunk && !self.transfer.file.is_named() {
                    self.blob_query = BlobQuery::Open(blob);
                }
                self.blob = Some(blob);
            }
        }
    }

    /// Leads a chunk, or follows the upload that leads it.
    fn lead_or_follow(&mut self, id: usize) {
        let Some(piece) = self.ledger.piece(id) else { return };
        let store = Arc::clone(&self.transfer.identity);
        match self.transfer.in_flight.sends.join(&Key { store, digest: piece.digest }) {
            Joined::Follower(follow) => self.begun.push(Box::pin(async move {
                let is_done = follow.outcome().await.is_some();
                Ok(EndedCall::Followed { id, is_done })
            })),
            Joined::Leader(lead) => {
                self.leads.insert(id, lead);
                if self.is_forced {
                    self.send_queue.push(piece);
                } else {
                    self.missing_query.push(id, self.transfer.now());
                }
            }
        }
    }

    fn ask(&mut self, has_lingered: bool) {
        while let Some(ids) = self.missing_query.next(self.transfer.now(), has_lingered) {
            let blob = self.blob_query.put();
            self.start_asking(ids, blob);
        }
        // If little is left to send, the question would take as long as sending.
        if (!self.send_queue.is_empty() || self.delivered_chunks == 0)
            && let Some(blob) = self.blob_query.put()
        {
            self.start_asking(Vec::new(), Some(blob));
        }
    }

    fn start_asking(&mut self, ids: Vec<usize>, blob: Option<Digest>) {
        let transfer = Arc::clone(&self.transfer);
        let pieces = ids.iter().filter_map(|id| self.ledger.piece(*id));
        let digests: Vec<Digest> = pieces.map(|piece| piece.digest).chain(blob).collect();
        self.begun.push(Box::pin(async move {
            let calls = &transfer.calls.missing;
            let limit = calls.patience(0);
            let missing = calls.attempt(limit, |_| transfer.store.missing(&digests)).await?;
            Ok(EndedCall::Asked { ids, blob, missing: missing.into_iter().collect() })
        }));
    }

    /// The next load, if the window and the budget have room. Waits for the load's memory only if
    /// the budget does not grant it at once.
    fn next_load(
        &mut self,
        flight: &mut Flight<Result<EndedCall>>,
    ) -> Option<UnitFuture<GrantedLoad>> {
        if !self.transfer.batches.load(Ordering::Relaxed) {
            self.send_queue.end_batches();
        }
        loop {
            let limit = self.transfer.window_limit();
            let free = limit.saturating_sub(self.sending);
            let held_bytes_max = held_bytes_max(&self.transfer.budget);
            if free == 0 || self.held_bytes >= held_bytes_max {
                return None;
            }
            let nothing_comes = self.missing_query.is_over();
            let spread_over = nothing_comes.then_some(free as u64);
            let share_bytes = held_bytes_max / limit.max(1) as u64;
            // More chunks may fill the load, and enough is in flight until then.
            if !nothing_comes && self.sending > limit / 2 && !self.send_queue.has_full(share_bytes)
            {
                return None;
            }
            let load = self.send_queue.next(share_bytes, spread_over)?;
            let bytes = paid_bytes(&load, &*self.transfer.store);
            if let Some((permit, room)) = self.memory(&load, bytes) {
                self.start_sending(flight, load, permit, room);
            } else {
                let budget = self.transfer.budget.clone();
                return Some(Box::pin(async move {
                    let permit = budget.bytes(bytes).await;
                    GrantedLoad { load, permit }
                }));
            }
        }
    }

    /// The memory of a load that takes `bytes`, if the budget grants it at once.
    fn memory(&self, load: &Load, bytes: u64) -> Option<(BytesPermit, Option<SpareMemory>)> {
        let Transfer { budget, spares, .. } = &*self.transfer;
        let spare = if matches!(load, Load::Batch(_)) { spares.take(bytes) } else { None };
        let spare_bytes = spare.as_ref().map_or(0, |spare| spare.permit.bytes());
        let in_use = self.held_bytes + bytes.max(spare_bytes);
        spares.shed(held_bytes_max(budget).saturating_sub(in_use));
        let Some(Spare { room, mut permit }) = spare else {
            return Some((budget.try_bytes(bytes)?, None));
        };
        if permit.bytes() < bytes {
            permit.merge(budget.try_bytes(bytes - permit.bytes())?);
        }
        Some((permit, Some(room)))
    }

    fn start_sending(
        &mut self,
        flight: &mut Flight<Result<EndedCall>>,
        load: Load,
        permit: BytesPermit,
        room: Option<SpareMemory>,
    ) {
        let transfer = Arc::clone(&self.transfer);
        let (bytes, paid_bytes) = (held_bytes(&load), permit.bytes());
        let held = match &load {
            Load::Batch(_) => HeldBytes::spared(permit, bytes, room, &transfer.spares),
            Load::Single(_) => HeldBytes::new(permit, bytes),
        };
        self.sending += 1;
        self.held_bytes += paid_bytes;
        flight.push(async move {
            let load = send(&transfer, load, held).await?;
            Ok(EndedCall::Sent { load, paid_bytes })
        });
    }

    fn on_ended(&mut self, ended: EndedCall) {
        match ended {
            EndedCall::Asked { ids, blob, missing } => {
                // A question for the blob alone is not counted by the inquiry.
                if !ids.is_empty() {
                    self.missing_query.answered();
                }
                if let Some(blob) = blob {
                    self.blob_query = BlobQuery::None;
                    self.is_present = !missing.contains(&blob);
                    self.blob = Some(blob).filter(|_| self.is_present).or(self.blob);
                }
                for id in ids {
                    let Some(piece) = self.ledger.piece(id) else { continue };
                    if missing.contains(&piece.digest) {
                        self.send_queue.push(piece);
                    } else {
                        self.settle(&piece, ChunkStatus::Present);
                    }
                }
            }
            EndedCall::Sent { load, paid_bytes } => {
                self.sending -= 1;
                self.held_bytes = self.held_bytes.saturating_sub(paid_bytes);
                self.delivered_chunks += load.pieces().len() as u64;
                for piece in load.pieces() {
                    self.settle(piece, ChunkStatus::Sent);
                }
            }
            EndedCall::Followed { id, is_done: true } => {
                self.delivered_chunks += 1;
                if let Some(piece) = self.ledger.piece(id) {
                    self.settle(&piece, ChunkStatus::Shared);
                }
            }
            EndedCall::Followed { id, is_done: false } => self.lead_or_follow(id),
        }
    }

    fn settle(&mut self, piece: &UploadChunk, fate: ChunkStatus) {
        let is_first = self.ledger.settle(piece.id, fate);
        match fate {
            _ if !is_first => {}
            ChunkStatus::Sent => self.transfer.progress.done(piece.digest.len),
            _ => self.transfer.progress.reused(piece.digest.len),
        }
        if let Some(lead) = self.leads.remove(&piece.id) {
            lead.succeed(());
        }
    }
}

/// The bytes that loads in flight may hold together before another load starts.
fn held_bytes_max(budget: &Budget) -> u64 {
    budget.limits().bytes / 16 * SIXTEENTHS
}
