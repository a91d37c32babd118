//! [`Pipeline`]: cutting, asking and sending of one blob, all at once.
//!
//! ```text
//! Cutting --> Ledger --> (lead or follow) --> Inquiry --> Outbox --> send
//!              what        who sees to it      what is     what goes
//!              there is    in this process     missing     together
//! ```
//!
//! One future drives it and owns all that is in flight: dropping it ends every request, and then
//! lets go of the chunks that it led, so that others take them over.
//!
//! A chunk is led from before it is asked for until its fate is known, not only while it is sent:
//! of two uploads that find the same chunk, the second either follows, or asks once the first has
//! put it.
//!
//! Why nobody waits for ever:
//! - What this upload leads goes its way whatever it follows; it stops cutting when much is open,
//!   but what has been cut is asked for and sent all the same. So every lead ends.
//! - A load's memory is taken from the budget before it is read, all of it at once, and held until
//!   the store has it. With it in hand, only a request is waited for; whoever holds a request waits
//!   for the store alone. What cuts holds memory only while it works (see `cut`).
//! - One load at a time waits for memory, so that a large blob does not stand in the queue with
//!   hundreds of wishes before a small one.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidegate_core::digest::Digest;

use super::cutting::{Cut, Cutting};
use super::held::Held;
use super::inquiry::Inquiry;
use super::ledger::{Fate, Ledger, Piece};
use super::outbox::{Load, Outbox};
use super::send::{held_bytes, paid_bytes, send};
use super::spare::{Room, Spare};
use super::transfer::Transfer;
use crate::budget::{Budget, BytesPermit};
use crate::chunked::StoreProfile;
use crate::chunked::inflight::{Joined, Key, Lead};
use crate::error::Result;

/// How far cutting runs ahead of sending: no further than what is surely still in the page cache
/// when it is read again.
const AHEAD_BYTES_MAX: u64 = 512 << 20;

/// Loads under way hold at most this many sixteenths of the budget, and one load more: there is room
/// for other blobs, and with the default budget 48 MiB, which fill 10 Gbit/s at 40 ms.
const SIXTEENTHS: u64 = 3;

/// Chunks whose fate may be open at once: a bound on memory where chunks are tiny.
const OPEN_MAX: usize = 1 << 16;

type Flight<'a> = Pin<Box<dyn Future<Output = Result<Event>> + Send + 'a>>;
type Reserving = Pin<Box<dyn Future<Output = BytesPermit> + Send>>;

/// Something in flight has ended well.
enum Event {
    Asked { ids: Vec<usize>, blob: Option<Digest>, missing: HashSet<Digest> },
    Sent { load: Load, paid_bytes: u64 },
    Followed { id: usize, is_done: bool },
}

/// Whether the blob is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Does not arise, or has been answered.
    None,
    /// Is to be put.
    Open(Digest),
    /// Has been put.
    Put,
}

impl Question {
    /// Puts it, where it is to be put.
    fn put(&mut self) -> Option<Digest> {
        let Self::Open(blob) = *self else { return None };
        *self = Self::Put;
        Some(blob)
    }
}

/// One upload under way.
pub(super) struct Pipeline<'a> {
    transfer: &'a Transfer,
    // Before the leads: they may be taken over only when nothing is in flight.
    flight: FuturesUnordered<Flight<'a>>,
    reserving: Option<(Load, Reserving)>,
    leads: HashMap<usize, Lead<Key, ()>>,
    cutting: Option<Cutting>,
    ledger: Ledger,
    inquiry: Inquiry,
    outbox: Outbox,
    brought: u64,
    sending: usize,
    held_bytes: u64,
    /// Whether the blob is there.
    question: Question,
    blob: Option<Digest>,
    is_present: bool,
    is_forced: bool,
}

impl<'a> Pipeline<'a> {
    /// Begins with nothing cut. `asked` is the blob where it is known and not its only chunk.
    pub(super) fn new(
        transfer: &'a Transfer,
        profile: &StoreProfile,
        cutting: Cutting,
        asked: Option<Digest>,
    ) -> Self {
        let outbox = Outbox::new(profile.batch, held_bytes_max(&transfer.budget));
        let mut this = Self {
            transfer,
            flight: FuturesUnordered::new(),
            reserving: None,
            leads: HashMap::new(),
            cutting: Some(cutting),
            ledger: Ledger::default(),
            inquiry: Inquiry::new(),
            outbox,
            brought: 0,
            sending: 0,
            held_bytes: 0,
            question: Question::None,
            blob: None,
            is_present: false,
            is_forced: false,
        };
        if asked.is_some() {
            this.question = Question::Put;
            this.start_asking(Vec::new(), asked);
        }
        this
    }

    /// Works until the fate of every chunk is known, or the blob turns out to be there. Nothing is
    /// in flight then.
    pub(super) async fn run(&mut self) -> Result<()> {
        self.work().await?;
        // What nobody waits for any more: whether the blob is there, where that is not known yet;
        // or all the rest, where it is. It would keep requests, memory and chunks from whoever
        // needs them, perhaps this upload's own next request.
        self.flight.clear();
        self.reserving = None;
        self.cutting = None;
        self.leads.clear();
        Ok(())
    }

    async fn work(&mut self) -> Result<()> {
        let mut has_lingered = false;
        loop {
            self.ask(std::mem::take(&mut has_lingered));
            self.send();
            if self.is_over() {
                return Ok(());
            }
            let has_room = self.has_room();
            let due = self.inquiry.due().map(|due| self.transfer.at(due));
            // CANCEL: all that is not ready stays where it is.
            tokio::select! {
                biased;
                Some(event) = self.flight.next() => self.on(event?),
                permit = reserved(&mut self.reserving) => self.granted(permit),
                cut = next_cut(&mut self.cutting, has_room) => self.cut(cut?),
                () = tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)),
                    if due.is_some() => has_lingered = true,
            }
        }
    }

    /// The store has lost chunks: finds out which, or takes it that `these` are, whatever it says.
    pub(super) async fn again(&mut self, ids: &[usize], is_forced: bool) -> Result<()> {
        self.is_forced = is_forced;
        self.question = Question::None;
        for id in ids {
            self.ledger.settle(*id, Fate::Open);
            self.lead_or_follow(*id);
        }
        self.run().await
    }

    /// The blob, once all of it has been read or it turned out to be there.
    pub(super) fn blob(&self) -> Option<Digest> {
        self.blob
    }

    /// Whether the store says that it has the blob.
    pub(super) fn is_present(&self) -> bool {
        self.is_present
    }

    /// Chunks that were not there and have been brought since, by anybody; one that had to be
    /// brought twice counts twice.
    pub(super) fn brought(&self) -> u64 {
        self.brought
    }

    /// What has been cut, and its fate.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn is_over(&self) -> bool {
        // Where nothing had to be brought, the blob is likely there: its answer saves making it.
        let is_awaited = self.brought == 0 && self.question != Question::None;
        self.is_present || (self.cutting.is_none() && self.ledger.open() == 0 && !is_awaited)
    }

    fn has_room(&self) -> bool {
        self.inquiry.has_room()
            && self.ledger.open() < OPEN_MAX
            && self.outbox.len_bytes() < AHEAD_BYTES_MAX
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
                self.inquiry.close();
                // One that is its only chunk is asked for as that.
                let is_chunk = self.ledger.piece(0).is_some_and(|piece| piece.digest == blob);
                if !is_chunk && !self.transfer.file.is_named() {
                    self.question = Question::Open(blob);
                }
                self.blob = Some(blob);
            }
        }
    }

    /// Sees to a chunk, or waits for the upload that does.
    fn lead_or_follow(&mut self, id: usize) {
        let Some(piece) = self.ledger.piece(id) else { return };
        let store = Arc::clone(&self.transfer.identity);
        match self.transfer.in_flight.sends.join(&Key { store, digest: piece.digest }) {
            Joined::Follow(follow) => self.flight.push(Box::pin(async move {
                let is_done = follow.outcome().await.is_some();
                Ok(Event::Followed { id, is_done })
            })),
            Joined::Lead(lead) => {
                self.leads.insert(id, lead);
                if self.is_forced {
                    self.outbox.push(piece);
                } else {
                    self.inquiry.push(id, self.transfer.now());
                }
            }
        }
    }

    fn ask(&mut self, has_lingered: bool) {
        while let Some(ids) = self.inquiry.next(self.transfer.now(), has_lingered) {
            let blob = self.question.put();
            self.start_asking(ids, blob);
        }
        // Where little is left to send, asking whether it need be sent takes as long.
        if (!self.outbox.is_empty() || self.brought == 0)
            && let Some(blob) = self.question.put()
        {
            self.start_asking(Vec::new(), Some(blob));
        }
    }

    fn start_asking(&mut self, ids: Vec<usize>, blob: Option<Digest>) {
        let transfer = self.transfer;
        let pieces = ids.iter().filter_map(|id| self.ledger.piece(*id));
        let digests: Vec<Digest> = pieces.map(|piece| piece.digest).chain(blob).collect();
        self.flight.push(Box::pin(async move {
            let calls = &transfer.calls.missing;
            let limit = calls.patience(0);
            let missing = calls.attempt(limit, |_| transfer.store.missing(&digests)).await?;
            Ok(Event::Asked { ids, blob, missing: missing.into_iter().collect() })
        }));
    }

    /// Sends what there is, as far as the window and the budget have room.
    fn send(&mut self) {
        if !self.transfer.batches.load(Ordering::Relaxed) {
            self.outbox.end_batches();
        }
        while self.reserving.is_none() {
            let limit = self.transfer.window_limit();
            let free = limit.saturating_sub(self.sending);
            let held_bytes_max = held_bytes_max(&self.transfer.budget);
            if free == 0 || self.held_bytes >= held_bytes_max {
                return;
            }
            let nothing_comes = self.inquiry.is_over();
            let spread_over = nothing_comes.then_some(free as u64);
            let share_bytes = held_bytes_max / limit.max(1) as u64;
            // What comes next may fill it, and there is enough under way until then.
            if !nothing_comes && self.sending > limit / 2 && !self.outbox.has_full(share_bytes) {
                return;
            }
            let Some(load) = self.outbox.next(share_bytes, spread_over) else { return };
            let bytes = paid_bytes(&load, &*self.transfer.store);
            if let Some((permit, room)) = self.memory(&load, bytes) {
                self.start_sending(load, permit, room);
            } else {
                let budget = self.transfer.budget.clone();
                self.reserving = Some((load, Box::pin(async move { budget.bytes(bytes).await })));
            }
        }
    }

    fn granted(&mut self, permit: BytesPermit) {
        if let Some((load, _)) = self.reserving.take() {
            self.start_sending(load, permit, None);
        }
    }

    /// What is to be had at once for a load that takes `bytes`.
    fn memory(&self, load: &Load, bytes: u64) -> Option<(BytesPermit, Option<Room>)> {
        let Transfer { budget, spares, .. } = self.transfer;
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

    fn start_sending(&mut self, load: Load, permit: BytesPermit, room: Option<Room>) {
        let transfer = self.transfer;
        let (bytes, paid_bytes) = (held_bytes(&load), permit.bytes());
        let held = match &load {
            Load::Batch(_) => Held::spared(permit, bytes, room, &transfer.spares),
            Load::Single(_) => Held::new(permit, bytes),
        };
        self.sending += 1;
        self.held_bytes += paid_bytes;
        self.flight.push(Box::pin(async move {
            let load = send(transfer, load, held).await?;
            Ok(Event::Sent { load, paid_bytes })
        }));
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Asked { ids, blob, missing } => {
                // The blob by itself is asked for beside the batches.
                if !ids.is_empty() {
                    self.inquiry.answered();
                }
                if let Some(blob) = blob {
                    self.question = Question::None;
                    self.is_present = !missing.contains(&blob);
                    self.blob = Some(blob).filter(|_| self.is_present).or(self.blob);
                }
                for id in ids {
                    let Some(piece) = self.ledger.piece(id) else { continue };
                    if missing.contains(&piece.digest) {
                        self.outbox.push(piece);
                    } else {
                        self.settle(&piece, Fate::Present);
                    }
                }
            }
            Event::Sent { load, paid_bytes } => {
                self.sending -= 1;
                self.held_bytes = self.held_bytes.saturating_sub(paid_bytes);
                self.brought += load.pieces().len() as u64;
                for piece in load.pieces() {
                    self.settle(piece, Fate::Sent);
                }
            }
            Event::Followed { id, is_done: true } => {
                self.brought += 1;
                if let Some(piece) = self.ledger.piece(id) {
                    self.settle(&piece, Fate::Shared);
                }
            }
            Event::Followed { id, is_done: false } => self.lead_or_follow(id),
        }
    }

    fn settle(&mut self, piece: &Piece, fate: Fate) {
        let is_first = self.ledger.settle(piece.id, fate);
        match fate {
            _ if !is_first => {}
            Fate::Sent => self.transfer.progress.done(piece.digest.len),
            _ => self.transfer.progress.reused(piece.digest.len),
        }
        if let Some(lead) = self.leads.remove(&piece.id) {
            lead.succeed(());
        }
    }
}

/// What loads under way may hold together before another is begun.
fn held_bytes_max(budget: &Budget) -> u64 {
    budget.limits().bytes / 16 * SIXTEENTHS
}

async fn reserved(reserving: &mut Option<(Load, Reserving)>) -> BytesPermit {
    match reserving {
        Some((_, reserving)) => reserving.await,
        None => std::future::pending().await,
    }
}

async fn next_cut(cutting: &mut Option<Cutting>, has_room: bool) -> Result<Cut> {
    match cutting {
        Some(cutting) if has_room => cutting.next().await,
        _ => std::future::pending().await,
    }
}
