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

mod agree;
mod ask;

pub(super) use ask::Answer;

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::checksum::StoredChecksum;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use self::agree::Claim;
use super::{ShardedDownloadOptions, opening};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::{Flow, Known, RangeStream};
use crate::remote::{BlobInfo, Location};
use crate::report::MirrorReport;
use crate::transfer::attempt::Calls;

/// How long the transfer waits for the descriptions of the other mirrors, after the first one has
/// answered. Later answers join while it runs. With 1 s, mirrors on other continents are compared
/// before the first byte is used, and a dead mirror costs a short wait.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How long the first mirror may take to answer if another one has answered. Longer than a slow
/// server takes, and shorter than the timeout of a connection to a host that is down (10 s).
const LEAD_PATIENCE: Duration = Duration::from_secs(3);

const SERVES_NO_RANGES: &str = "it serves no ranges, or names no version or length: it can only be \
                                used alone";
const NOTHING_DECIDES: &str =
    "no checksum is known that shows whether it has the same bytes as the others";

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
    pub(super) len_bytes: Option<u64>,
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
            bytes: Arc::default(),
            stop: CancellationToken::new(),
        });
        Self { all: all.collect(), lead: 0, asking: JoinSet::new(), round: Round::default() }
    }

    /// There is more than one.
    pub(super) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The names of all, which an earlier run may have begun with.
    pub(super) fn names(&self) -> Vec<String> {
        self.all.iter().map(|mirror| mirror.name().to_owned()).collect()
    }

    /// The mirror that leads.
    pub(super) fn lead(&self) -> usize {
        self.lead
    }

    /// Makes the first usable mirror the leading one; `None` if all have failed.
    pub(super) fn choose_lead(&mut self) -> Option<Arc<Location>> {
        let first = |is_wanted: fn(&Mirror) -> bool| self.all.iter().position(is_wanted);
        self.lead = first(|mirror| mirror.may_join() && !mirror.is_late)
            .or_else(|| first(Mirror::may_join))
            .or_else(|| first(|mirror| matches!(mirror.state, MirrorState::Reserve(_))))?;
        self.all.get(self.lead).map(|mirror| Arc::clone(&mirror.location))
    }

    /// Drops the leading mirror, which delivered nothing. Returns the error if it is the only one.
    pub(super) fn drop_lead(&mut self, error: Error) -> Option<Error> {
        if !self.are_several() {
            return Some(error);
        }
        self.set_failed(self.lead, &error);
        // The next one should be one that answers.
        while let Some(joined) = self.asking.try_join_next() {
            if let Ok(answer) = joined {
                self.note(answer);
            }
        }
        None
    }

    /// Waits until the leading mirror is late: another one has answered, and some time has passed.
    /// Then that one should lead. Cancel-safe.
    pub(super) async fn lead_is_late(&mut self) {
        tokio::time::sleep(LEAD_PATIENCE).await;
        let lead = self.lead;
        let has_answered = |(index, mirror): (usize, &Mirror)| {
            index != lead && mirror.may_join() && mirror.info.is_some()
        };
        while !self.all.iter().enumerate().any(has_answered) {
            let answer = self.answered().await;
            self.note(answer);
        }
    }

    /// Lets another mirror lead. The leading one may join later.
    pub(super) fn give_way(&mut self) {
        if let Some(mirror) = self.all.get_mut(self.lead) {
            mirror.is_late = true;
        }
    }

    /// Asks the mirrors that have not been asked, but not the leading one.
    pub(super) fn ask(&mut self, options: &ShardedDownloadOptions, calls: &Calls) {
        let lead = self.lead;
        for (index, mirror) in self.all.iter_mut().enumerate().filter(|(index, _)| *index != lead) {
            if matches!(mirror.state, MirrorState::Unknown) && !mirror.is_asked {
                mirror.is_asked = true;
                let location = Arc::clone(&mirror.location);
                self.asking.spawn(ask::ask(index, location, options.clone(), calls.clone()));
            }
        }
    }

    /// Notes the first response of the leading mirror. `is_single`: one request must deliver
    /// everything. Returns whether the mirror may lead.
    pub(super) fn opened(&mut self, info: &BlobInfo, is_single: bool) -> bool {
        let lead = self.lead;
        let has_others =
            self.all.iter().enumerate().any(|(index, m)| index != lead && m.may_join());
        let Some(mirror) = self.all.get_mut(lead) else { return false };
        mirror.info = Some(info.clone());
        if is_single && has_others {
            mirror.state = MirrorState::Reserve(SERVES_NO_RANGES);
            return false;
        }
        mirror.state = MirrorState::Ready(Known::of(info));
        if is_single {
            self.keep_in_reserve(SERVES_NO_RANGES);
        }
        true
    }

    /// Waits for the descriptions of the others for a short time, and compares them. Returns whether
    /// the leading mirror may still lead.
    ///
    /// Fails with `Integrity` if the mirrors contradict each other and no majority decides.
    pub(super) async fn settle(&mut self, options: &ShardedDownloadOptions) -> Result<bool> {
        if !self.are_several() {
            return Ok(true);
        }
        let until = Instant::now() + SETTLE_MAX;
        while let Ok(Some(joined)) = timeout_at(until, self.asking.join_next()).await {
            // A task that panicked has no answer; its message is on standard error.
            if let Ok(answer) = joined {
                self.note(answer);
            }
        }
        self.compare(options)?;
        Ok(self.all.get(self.lead).is_some_and(Mirror::is_ready))
    }

    /// Handles an answer that came while the transfer runs.
    pub(super) fn on_answer(
        &mut self,
        answer: Answer,
        options: &ShardedDownloadOptions,
    ) -> Result<()> {
        self.note(answer);
        self.compare(options)?;
        if self.is_gone() { Err(self.all_failed()) } else { Ok(()) }
    }

    fn note(&mut self, answer: Answer) {
        let Some(mirror) = self.all.get_mut(answer.index) else { return };
        if answer.index == self.lead || !matches!(mirror.state, MirrorState::Unknown) {
            return;
        }
        match answer.description {
            Err(error) => self.set_failed(answer.index, &error),
            Ok(description) => {
                let info = description.info;
                let is_pinned = info.version.is_some() && info.len_bytes.is_some();
                if description.ignores_ranges || !is_pinned {
                    mirror.state = MirrorState::Reserve(SERVES_NO_RANGES);
                }
                mirror.info = Some(info);
            }
        }
    }

    /// Compares the descriptions of all that have answered. Those that agree are ready.
    fn compare(&mut self, options: &ShardedDownloadOptions) -> Result<()> {
        let lead = self.lead;
        let order = std::iter::once(lead).chain((0..self.all.len()).filter(|i| *i != lead));
        // Bytes of a mirror that failed later are in the target, too.
        let counts = |index: usize, mirror: &Mirror| {
            let delivers = mirror.may_join() || mirror.delivered_bytes() > 0;
            mirror.info.is_some() && (index == lead || delivers)
        };
        let indexes: Vec<usize> = order
            .filter(|index| self.all.get(*index).is_some_and(|mirror| counts(*index, mirror)))
            .collect();
        let claims: Vec<Claim<'_>> = indexes
            .iter()
            .filter_map(|index| self.all.get(*index))
            .filter_map(|m| m.info.as_ref().map(|info| Claim { name: m.name(), info }))
            .collect();
        let odd = agree::odd_ones(&claims, &options.expected)?;
        for (index, error) in odd {
            if let Some(index) = indexes.get(index) {
                self.set_failed(*index, &error);
            }
        }
        for mirror in &mut self.all {
            if let (MirrorState::Unknown, Some(info)) = (&mirror.state, &mirror.info) {
                mirror.state = MirrorState::Ready(Known::of(info));
            }
        }
        Ok(())
    }

    /// A checksum of the whole blob that another ready mirror declares.
    pub(super) fn declared(&self) -> Vec<StoredChecksum> {
        let ready = self.all.iter().filter(|mirror| mirror.is_ready());
        let mut infos = ready.filter_map(|mirror| mirror.info.as_ref());
        let declares = |info: &&BlobInfo| agree::verifiable(info).next().is_some();
        infos.find(declares).map_or_else(Vec::new, |info| agree::verifiable(info).cloned().collect())
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

    /// The mirror for the next shard: of those with the fewest readers, the one that has delivered
    /// most. `None` if none is ready.
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
            .min_by_key(|(_, mirror)| (mirror.readers, Reverse(mirror.delivered_bytes())))
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

    /// The error that names every mirror with its reason.
    pub(super) fn all_failed(&self) -> Error {
        let failures = self.all.iter().filter_map(|mirror| match &mirror.state {
            MirrorState::Failed { kind, reason } => Some((*kind, mirror.name(), reason.as_str())),
            MirrorState::Reserve(why) => Some((ErrorKind::Unsupported, mirror.name(), *why)),
            MirrorState::Unknown => Some((ErrorKind::Timeout, mirror.name(), NO_ANSWER)),
            MirrorState::Ready(_) => None,
        });
        let failures: Vec<_> = failures.collect();
        let is_temporary = |kind: &ErrorKind| {
            use ErrorKind::{Exhausted, Remote, Throttled, Timeout, Transport};
            matches!(kind, Exhausted | Remote | Throttled | Timeout | Transport)
        };
        let first = failures.first().map_or(ErrorKind::Remote, |(kind, ..)| *kind);
        let is_any_temporary = failures.iter().any(|(kind, ..)| is_temporary(kind));
        let kind = if is_any_temporary { ErrorKind::Exhausted } else { first };
        let reasons: Vec<String> =
            failures.iter().map(|(_, name, reason)| format!("{name}: {reason}")).collect();
        let message = format!("all {} mirrors failed: {}", self.all.len(), reasons.join("; "));
        Error::new(kind, Operation::Download, self.own_name(), message)
    }

    /// The error of a blob whose checksum differs, with the mirrors that its bytes came from.
    pub(super) fn explain_mismatch(&self, error: Error) -> Error {
        let used = self.all.iter().filter(|mirror| mirror.delivered_bytes() > 0);
        let used: Vec<String> = used
            .map(|mirror| format!("{} ({} bytes)", mirror.name(), mirror.delivered_bytes()))
            .collect();
        if used.len() < 2 {
            return error;
        }
        let message = format!(
            "the bytes of {} mirrors together do not match the checksum: {}",
            used.len(),
            used.join(", ")
        );
        Error::new(ErrorKind::Integrity, Operation::Verify, self.own_name(), message)
            .caused_by(error)
            .with_hint("one of the mirrors has other bytes: try each of them alone")
    }

    fn own_name(&self) -> &str {
        self.all.first().map_or("", Mirror::name)
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
        for mirror in &mut self.all {
            mirror.bytes = Arc::default();
        }
        let round = std::mem::take(&mut self.round);
        Some(Round { done_bytes: fetched_bytes + round.resumed_bytes, ..round })
    }

    /// Waits for the next answer. Cancel-safe.
    pub(super) async fn answered(&mut self) -> Answer {
        while let Some(joined) = self.asking.join_next().await {
            if let Ok(answer) = joined {
                return answer;
            }
        }
        std::future::pending().await
    }

    /// Ends the requests for descriptions. Nothing of them is in flight afterwards.
    pub(super) async fn end(&mut self) {
        self.asking.shutdown().await;
        for mirror in &mut self.all {
            mirror.readers = 0;
            mirror.is_asked = mirror.info.is_some();
        }
    }

    /// What each mirror did, if there are several.
    pub(super) fn report(&self) -> Vec<MirrorReport> {
        if !self.are_several() {
            return Vec::new();
        }
        let reports = self.all.iter().map(|mirror| MirrorReport {
            location: mirror.name().to_owned(),
            bytes: mirror.delivered_bytes(),
            unused: match &mirror.state {
                MirrorState::Ready(_) => None,
                MirrorState::Unknown => Some(NO_ANSWER.to_owned()),
                MirrorState::Reserve(why) => Some((*why).to_owned()),
                MirrorState::Failed { reason, .. } => Some(reason.clone()),
            },
        });
        reports.collect()
    }
}

const NO_ANSWER: &str = "it did not answer in time";
