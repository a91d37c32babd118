//! [`Mirrors`]: the places that hold one blob, and which of them deliver it.
//!
//! The first mirror that answers leads: its first response is the first shard. The others are asked
//! for their descriptions in the meantime, and join. A new shard goes to the mirror with the fewest
//! readers, so a fast mirror gets more shards than a slow one. A mirror that fails is dropped, and
//! its shards go on at the first missing byte from another mirror.
//!
//! Invariants:
//! - Each mirror is pinned to its own version, and its description agrees with those of the others
//!   (`agree`).
//! - Bytes of two mirrors are mixed only if a checksum of the whole blob decides at the end.
//!   Without one, the others stay in reserve: if the first mirror fails, the blob is fetched again
//!   from another one.
//! - A mirror that serves no ranges is used only alone.
//!
//! | file | idea |
//! |---|---|
//! | `ask` | the request for a mirror's description |
//! | `agree` | which descriptions are of one blob |
//! | `join` | from the first request until a mirror is ready |
//! | `outcome` | the errors, and the report |

mod agree;
mod ask;
mod join;
mod outcome;

pub(super) use ask::Answer;

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ShardedDownloadOptions, opening};
use crate::error::{Error, ErrorKind};
use crate::read::{Flow, Known, RangeStream};
use crate::remote::{BlobInfo, Location};

const NOTHING_DECIDES: &str = "no checksum is known that shows whether it has the same bytes as the others; give one to use it";

/// The mirrors of one download.
#[derive(Debug)]
pub(super) struct Mirrors {
    /// In the order of the caller, which prefers the first ones.
    all: Vec<Mirror>,
    lead: usize,
    asking: JoinSet<Answer>,
    round: Round,
}

#[derive(Debug)]
struct Mirror {
    location: Arc<Location>,
    flow: Option<Arc<Flow>>,
    state: MirrorState,
    info: Option<BlobInfo>,
    /// A request for its description was sent.
    is_asked: bool,
    /// Others answered long before it.
    is_late: bool,
    readers: u32,
    /// It has had a reader in this attempt.
    is_tried: bool,
    bytes: Arc<AtomicU64>,
    stop: CancellationToken,
}

#[derive(Debug)]
enum MirrorState {
    /// Not asked, or it has not answered.
    Unknown,
    /// It delivers, pinned to these facts.
    Ready(Known),
    /// Used alone, if no other mirror is left. The text says why.
    Reserve(&'static str),
    /// Never used again.
    Failed { kind: ErrorKind, reason: String },
}

/// What an attempt has added to the caller's progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) done_bytes: u64,
    pub(super) resumed_bytes: u64,
    /// The bytes that were expected, if their number is known.
    pub(super) expected: Option<u64>,
}

impl Mirror {
    fn name(&self) -> &str {
        self.location.display()
    }

    fn is_ready(&self) -> bool {
        matches!(self.state, MirrorState::Ready(_))
    }

    fn may_join(&self) -> bool {
        matches!(self.state, MirrorState::Unknown | MirrorState::Ready(_))
    }

    fn delivered_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Mirrors {
    /// The blob's own place and its mirrors.
    pub(super) fn new(location: &Location, options: &ShardedDownloadOptions) -> Self {
        let all = std::iter::once(location).chain(&options.mirrors);
        let all = all.map(|location| Mirror {
            location: Arc::new(location.clone()),
            flow: None,
            state: MirrorState::Unknown,
            info: None,
            is_asked: false,
            is_late: false,
            readers: 0,
            is_tried: false,
            bytes: Arc::default(),
            stop: CancellationToken::new(),
        });
        Self { all: all.collect(), lead: 0, asking: JoinSet::new(), round: Round::default() }
    }

    /// There is more than one.
    pub(super) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// An attempt begins: nothing has been delivered in it.
    pub(super) fn begin_attempt(&mut self) {
        self.round = Round::default();
        for mirror in &mut self.all {
            mirror.bytes = Arc::default();
            mirror.is_tried = false;
        }
    }

    /// The names of all, which an earlier run may have begun with.
    pub(super) fn names(&self) -> Vec<String> {
        self.all.iter().map(|mirror| mirror.name().to_owned()).collect()
    }

    /// The mirror that leads.
    pub(super) fn lead(&self) -> usize {
        self.lead
    }

    /// Whether several mirrors deliver, or may join later.
    pub(super) fn are_mixed(&self) -> bool {
        self.all.iter().filter(|mirror| mirror.may_join()).count() > 1
    }

    /// Only the leading mirror delivers, because nothing shows that the bytes of the others are the
    /// same.
    pub(super) fn forbid_mixing(&mut self) {
        self.keep_in_reserve(NOTHING_DECIDES);
    }

    fn keep_in_reserve(&mut self, why: &'static str) {
        self.asking.abort_all();
        let lead = self.lead;
        let others = self.all.iter_mut().enumerate().filter(|(index, _)| *index != lead);
        for (_, mirror) in others.filter(|(_, mirror)| mirror.may_join()) {
            mirror.state = MirrorState::Reserve(why);
        }
    }

    /// Connects the mirrors with a transfer: `stop` ends it, and `flow` is that of its first
    /// stream.
    pub(super) fn begin(
        &mut self,
        flow: &Arc<Flow>,
        policy: &RetryPolicy,
        stop: &CancellationToken,
        round: Round,
    ) {
        self.round = round;
        for (index, mirror) in self.all.iter_mut().enumerate() {
            mirror.stop = stop.child_token();
            let is_lead = index == self.lead;
            let own = if is_lead { Arc::clone(flow) } else { flow.of_another_source(policy) };
            mirror.flow = Some(own);
        }
    }

    /// The mirror for the next shard: of those with the fewest readers, one that was not tried, or
    /// else the one that has delivered most. `None` if none is ready.
    pub(super) fn choose(&self) -> Option<usize> {
        self.choose_but(None)
    }

    /// Likewise, but not this one.
    pub(super) fn choose_other(&self, than: usize) -> Option<usize> {
        self.choose_but(Some(than))
    }

    fn choose_but(&self, than: Option<usize>) -> Option<usize> {
        let ready = self.all.iter().enumerate().filter(|(_, mirror)| mirror.is_ready());
        ready
            .filter(|(index, _)| Some(*index) != than)
            .min_by_key(|(_, mirror)| {
                (mirror.readers, mirror.is_tried, Reverse(mirror.delivered_bytes()))
            })
            .map(|(index, _)| index)
    }

    /// Whether `one` has delivered much less than `other`.
    pub(super) fn is_much_slower(&self, one: usize, other: usize) -> bool {
        let bytes = |index: usize| self.all.get(index).map_or(0, Mirror::delivered_bytes);
        bytes(one).saturating_mul(4) < bytes(other)
    }

    /// A stream of `range` from the mirror; `None` if it is not ready.
    pub(super) fn stream(
        &self,
        index: usize,
        range: ByteRange,
        options: &ShardedDownloadOptions,
    ) -> Option<RangeStream> {
        let mirror = self.all.get(index)?;
        let (MirrorState::Ready(known), Some(flow)) = (&mirror.state, &mirror.flow) else {
            return None;
        };
        let location = Arc::clone(&mirror.location);
        Some(opening::stream(location, range, known.clone(), options, Arc::clone(flow)))
    }

    /// Counts a reader, and returns the mirror's counter of bytes and the token that ends its
    /// readers.
    pub(super) fn begin_reader(&mut self, index: usize) -> (Arc<AtomicU64>, CancellationToken) {
        let Some(mirror) = self.all.get_mut(index) else { return Default::default() };
        mirror.readers += 1;
        mirror.is_tried = true;
        (Arc::clone(&mirror.bytes), mirror.stop.clone())
    }

    pub(super) fn end_reader(&mut self, index: usize) {
        if let Some(mirror) = self.all.get_mut(index) {
            mirror.readers = mirror.readers.saturating_sub(1);
        }
    }

    /// Drops a mirror and ends its readers. Returns the error of the transfer if no mirror is left.
    pub(super) fn fail(&mut self, index: usize, error: Error) -> Option<Error> {
        if !self.are_several() {
            return Some(error);
        }
        self.set_failed(index, &error);
        if !self.is_gone() {
            return None;
        }
        Some(self.all_failed())
    }

    fn set_failed(&mut self, index: usize, error: &Error) {
        let Some(mirror) = self.all.get_mut(index) else { return };
        if matches!(mirror.state, MirrorState::Failed { .. }) {
            return;
        }
        tracing::debug!(mirror = mirror.name(), error = error.chain(), "mirror dropped");
        mirror.state = MirrorState::Failed { kind: error.kind(), reason: error.reason() };
        mirror.stop.cancel();
    }

    /// No mirror is ready, and none can become ready.
    fn is_gone(&self) -> bool {
        let may_answer = !self.asking.is_empty();
        !self.all.iter().any(|mirror| {
            mirror.is_ready() || may_answer && matches!(mirror.state, MirrorState::Unknown)
        })
    }

    /// The attempt has failed: drops what it used. Returns the attempt's progress if a mirror in
    /// reserve can begin again, `None` otherwise.
    pub(super) fn begin_again(&mut self, error: &Error) -> Option<Round> {
        let is_final = matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Storage);
        let is_reserve = |mirror: &Mirror| matches!(mirror.state, MirrorState::Reserve(_));
        if is_final || self.are_mixed() || !self.all.iter().any(is_reserve) {
            return None;
        }
        self.set_failed(self.lead, error);
        let fetched_bytes: u64 = self.all.iter().map(Mirror::delivered_bytes).sum();
        let round = std::mem::take(&mut self.round);
        Some(Round { done_bytes: fetched_bytes + round.resumed_bytes, ..round })
    }

    /// Ends the requests for descriptions. Nothing of them is in flight afterwards.
    pub(super) async fn end(&mut self) {
        self.asking.shutdown().await;
        for mirror in &mut self.all {
            mirror.readers = 0;
            mirror.is_asked = mirror.info.is_some();
        }
    }
}
