//! Plays one script on a channel, and compares each step with the model.
//!
//! Invariants at every step:
//! - The bytes are the blob's at the position, of one version.
//! - The end is where the model says.
//! - Only delivered bytes and seeks move the position.
//! - The script's faults or its requests excuse every error.
//! - Verified bytes were read in order, and are right. Damaged bytes never end in a success.
//! - Every step ends, and releases what it reserved.

use std::future::{Future, poll_fn};
use std::io::SeekFrom;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::read::{ReadChannel, ReadState, Verify};
use tidegate::{Error, ErrorKind, Operation};
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{ContentRangeLie, Fault};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};

use super::model::{At, Model, Proof, Verdict};
use super::script::{Compare, Op, Place, passes};
use super::stage::{Play, STEP};
use crate::call::ReadOptions;

/// The most requests of a channel in one step. It may begin in several ways, each with its checksum
/// requests. It may also use twice the policy's attempts, if a server promises bytes that it does
/// not have.
const REQUESTS_MAX: usize = 24;

struct Drive<'a> {
    play: &'a Play<'a>,
    model: Model,
    channel: ReadChannel,
    budget: Budget,
    /// A seek that was started and not awaited.
    seeking: Option<SeekFrom>,
    /// Damage was found: every later read reports it.
    is_damaged: bool,
    /// Only seeks and captures that lose no checksum, so the test knows which bytes must be
    /// verified.
    is_plain: bool,
}

/// Plays the script to its end.
pub(crate) async fn play(play: &Play<'_>) -> Verdict {
    let mut drive = Drive::new(play);
    for (index, op) in play.script.ops.iter().enumerate() {
        let outcome = match tokio::time::timeout(STEP, drive.step(*op)).await {
            Ok(outcome) => outcome.and_then(|()| drive.settle()),
            Err(_elapsed) => Err("it hangs".to_owned()),
        };
        outcome.map_err(|wrong| format!("step {index}, {op:?}: {wrong}"))?;
    }
    drive.finish().await
}

impl<'a> Drive<'a> {
    fn new(play: &'a Play<'a>) -> Self {
        let script = play.script;
        let (right, wrong) = play.checksums();
        let limits = BudgetOptions { requests: script.budget_requests, bytes: script.budget_bytes };
        let budget = Budget::new(limits);
        let options = ReadOptions {
            range: script.range.clone(),
            verify: match script.compare {
                Compare::Stored => Verify::Stored,
                Compare::Right => Verify::Against(right),
                Compare::Wrong => Verify::Against(wrong),
                Compare::Nothing => Verify::Off,
            },
            retry: RetryPolicy {
                delay_ms_min: 1,
                delay_ms_max: 2,
                progress_bytes_min: 1,
                seed: Some(script.seed),
                ..RetryPolicy::default()
            },
            buffer_bytes: Some(script.buffer_bytes),
            drain_bytes_max: Some(script.drain_bytes_max),
            budget: budget.clone(),
            ..ReadOptions::default()
        };
        let (at, limit) = match &script.range {
            ByteRange::From(start) => (At::Start(*start), u64::MAX),
            ByteRange::Bounded(range) => (At::Start(range.start), range.end),
            ByteRange::Last(count) => (At::End(*count), u64::MAX),
            _ => (At::Start(0), u64::MAX),
        };
        let model = Model::new(play.candidates(), play.flips(), at, limit);
        let channel = crate::call::read(play.location.clone(), options);
        let is_plain = script.range == ByteRange::All;
        Self { play, model, channel, budget, seeking: None, is_damaged: false, is_plain }
    }

    async fn step(&mut self, op: Op) -> Verdict {
        self.is_plain &= !matches!(op, Op::Seek(_) | Op::SeekGlance(_) | Op::Limit(_) | Op::Carry);
        match op {
            Op::Glance(_) | Op::SeekGlance(_) | Op::Limit(_) | Op::Suspend => {}
            // The next call finishes a seek that is in progress.
            _ if self.seeking.is_some() => self.fill(0).await?,
            _ => {}
        }
        match op {
            Op::Next => self.next().await.map(drop),
            Op::Read(count) => self.read(count).await,
            Op::Fill(count) => self.fill(count).await,
            Op::ToEnd => {
                while self.next().await? {}
                Ok(())
            }
            Op::Seek(to) => {
                let outcome = self.channel.seek(to).await;
                self.sought(to, outcome)
            }
            Op::Limit(end) => {
                self.channel.limit(end);
                // A seek from the end uses the limit at the time of the call.
                self.model.set_limit(end);
                Ok(())
            }
            Op::Carry => self.carry(),
            Op::Suspend => {
                self.channel.suspend();
                Ok(())
            }
            Op::Info => self.info().await,
            Op::Glance(times) => self.glance(times).await,
            Op::SeekGlance(to) => self.seek_glance(to).await,
        }
    }

    /// Reads the next piece. False after the end and after an error.
    async fn next(&mut self) -> Result<bool, String> {
        let outcome = self.channel.next().await;
        self.came(outcome)
    }

    fn came(&mut self, outcome: tidegate::Result<Option<Bytes>>) -> Result<bool, String> {
        match outcome {
            Ok(Some(bytes)) if bytes.is_empty() => Err("an empty piece".to_owned()),
            Ok(Some(bytes)) => {
                self.finish_seek(bytes.len())?;
                self.model.deliver(&bytes, self.channel.position())?;
                Ok(true)
            }
            Ok(None) => self.ended().map(|()| false),
            Err(error) => self.failed(&error).map(|()| false),
        }
    }

    async fn read(&mut self, count: usize) -> Verdict {
        let mut bytes = vec![0; count];
        match self.channel.read(&mut bytes).await {
            Ok(0) if count == 0 => Ok(()),
            Ok(0) => self.ended(),
            Ok(count) => {
                bytes.truncate(count);
                self.came(Ok(Some(bytes.into()))).map(drop)
            }
            Err(error) => self.failed(&engine_error(error)?),
        }
    }

    async fn fill(&mut self, count: usize) -> Verdict {
        let shown = match self.channel.fill_buf().await {
            Ok(bytes) => Bytes::copy_from_slice(bytes),
            Err(error) => return self.failed(&engine_error(error)?),
        };
        if shown.is_empty() {
            return self.ended();
        }
        self.finish_seek(0)?;
        self.model.show(&shown, self.channel.position())?;
        let taken = shown.slice(..count.min(shown.len()));
        self.channel.consume(taken.len());
        self.model.deliver(&taken, self.channel.position())
    }

    fn ended(&mut self) -> Verdict {
        self.finish_seek(0)?;
        self.model.end()?;
        let verified = self.channel.verified();
        if self.is_damaged {
            return Err(format!("the end of what was found to be damaged: {verified:?}"));
        }
        match (self.model.proof(), self.play.script.compare) {
            _ if !self.must_prove() => Ok(()),
            (Proof::Right, Compare::Stored | Compare::Right) if verified.is_verified() => Ok(()),
            (_, Compare::Nothing) | (Proof::Nothing | Proof::Unsure, _) => Ok(()),
            (proof, compare) => Err(format!(
                "the end, where all bytes were delivered ({proof:?}) and compared with \
                 {compare:?}: {verified:?}"
            )),
        }
    }

    /// Whether the channel must have compared a checksum.
    fn must_prove(&self) -> bool {
        let script = self.play.script;
        let keeps = match (script.compare, script.place) {
            (Compare::Stored, Place::Gcs | Place::GcsVersioned) => true,
            (Compare::Stored, Place::S3 | Place::S3Versioned) => {
                self.is_plain && script.faults.is_empty()
            }
            (Compare::Stored, Place::Azure | Place::HttpDigest) => self.is_plain,
            (Compare::Stored, _) => false,
            _ => true,
        };
        let changed = |fault: &Fault| {
            matches!(fault, Fault::LieAboutLength(_) | Fault::WrongContentRange(_))
                || matches!(fault, Fault::ChangedVersion(_))
        };
        keeps
            && self.channel.len_bytes().is_some()
            && !script.faults.iter().any(|planned| changed(&planned.fault))
    }

    /// The position after a seek in progress, once a later call has delivered `delivered` bytes.
    fn finish_seek(&mut self, delivered: usize) -> Verdict {
        let Some(to) = self.seeking.take() else { return Ok(()) };
        let position = self.channel.position();
        match position.and_then(|position| position.checked_sub(delivered as u64)) {
            Some(start) => self.model.sought(to, start),
            None => Err(format!("position {position:?} after a seek")),
        }
    }

    fn sought(&mut self, to: SeekFrom, outcome: tidegate::Result<u64>) -> Verdict {
        match outcome {
            Ok(position) => self.model.sought(to, position),
            Err(error) if error.kind() == ErrorKind::Invalid && self.model.leads_nowhere(to) => {
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Whether an error is allowed here.
    fn failed(&mut self, error: &Error) -> Verdict {
        let kind = error.kind();
        if let Some(to) = self.seeking.take() {
            if kind == ErrorKind::Invalid && self.model.leads_nowhere(to) {
                return Ok(());
            }
            // The seek failed, or the read after it.
            let mut there = self.model.clone();
            if let Some(position) = self.channel.position()
                && there.sought(to, position).is_ok()
            {
                self.model = there;
            }
        }
        let wrong = self.play.script.compare == Compare::Wrong;
        let damage = kind == ErrorKind::Integrity
            && error.operation() == Operation::Verify
            && (self.is_damaged || self.model.was_whole(wrong));
        self.is_damaged |= damage;
        let nameless = self.play.script.place == Place::Nameless;
        let untold = |fault: &Fault| {
            matches!(
                fault,
                Fault::NoRangeSupport | Fault::WrongContentRange(ContentRangeLie::UnknownTotal)
            )
        };
        let excused = damage
            || kind == ErrorKind::Unsupported && self.play.has_gone_wrong(untold)
            || kind == ErrorKind::OutOfRange && self.model.is_beyond()
            || nameless && (self.model.delivered || self.play.requests() > 1)
            || self.play.has_gone_wrong(|fault| !passes(fault));
        if excused { Ok(()) } else { Err(format!("an error without a reason: {error:?}")) }
    }

    fn carry(&mut self) -> Verdict {
        let state = match self.channel.capture() {
            Ok(state) => state,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let nameless = self.play.script.place == Place::Nameless;
                let unanswered = self.channel.len_bytes().is_none() && !self.model.delivered;
                let excused = nameless || unanswered && self.channel.position() != Some(0);
                return if excused { Ok(()) } else { Err(format!("not captured: {error:?}")) };
            }
            // A read cannot be restored beyond the end.
            Err(error) if error.kind() == ErrorKind::Invalid => {
                let behind = self.channel.position() > self.channel.len_bytes();
                return if behind { Ok(()) } else { Err(format!("not captured: {error:?}")) };
            }
            Err(error) => return self.failed(&error),
        };
        let text = state.to_string();
        let read: ReadState = text.parse().map_err(|error| format!("{text}: {error:?}"))?;
        if read != state || read.to_string() != text {
            return Err(format!("{text} was read as {read:?}"));
        }
        if read.position() != self.channel.position() {
            return Err(format!("{text} stands at {:?}", read.position()));
        }
        let location = &self.play.location;
        self.channel = crate::call::restore_as_it_was(location, &read, &self.budget)
            .map_err(|error| format!("not restored: {error:?}"))?;
        self.model.carried();
        Ok(())
    }

    async fn info(&mut self) -> Verdict {
        let len_bytes = match self.channel.info().await {
            Ok(info) => info.len_bytes,
            Err(error) => return self.failed(&error),
        };
        len_bytes.map_or(Ok(()), |len| self.model.len(len))
    }

    /// Polls the next piece and drops the future, `times` times. Data in flight may arrive in
    /// between.
    async fn glance(&mut self, times: u8) -> Verdict {
        for _ in 0..=times {
            let seen = {
                let mut next = pin!(self.channel.next());
                once(next.as_mut()).await
            };
            match seen {
                None => {}
                Some(outcome) => return self.came(outcome).map(drop),
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn seek_glance(&mut self, to: SeekFrom) -> Verdict {
        let seen = {
            let mut seek = pin!(self.channel.seek(to));
            once(seek.as_mut()).await
        };
        // The new seek replaces the one in progress.
        self.seeking = None;
        match seen {
            None => {
                self.seeking = Some(to);
                Ok(())
            }
            Some(outcome) => self.sought(to, outcome),
        }
    }

    /// Checks that must hold after every step.
    fn settle(&mut self) -> Verdict {
        if self.seeking.is_none() {
            self.model.position(self.channel.position())?;
        }
        if let Some(len) = self.channel.len_bytes() {
            self.model.len(len)?;
        }
        let verified = self.channel.verified();
        let proof = self.model.proof();
        let may = matches!(proof, Proof::Right | Proof::Unsure)
            && !matches!(self.play.script.compare, Compare::Wrong | Compare::Nothing);
        if verified.is_verified() && !may {
            return Err(format!("{verified:?}, though {proof:?} is proven"));
        }
        let peak = self.budget.held_bytes_peak();
        if peak > self.budget.limits().bytes {
            return Err(format!("{peak} bytes were held"));
        }
        Ok(())
    }

    /// Checks that must hold after the channel is dropped.
    async fn finish(self) -> Verdict {
        let Self { play, channel, budget, .. } = self;
        drop(channel);
        let mut all = Vec::new();
        let take = async {
            for _ in 0..play.script.budget_requests {
                // All permits must be available at the same time.
                all.push(budget.request().await);
            }
        };
        if tokio::time::timeout(STEP, take).await.is_err() {
            return Err("a request was not given back".to_owned());
        }
        if budget.held_bytes() > 0 {
            return Err(format!("{} bytes were not given back", budget.held_bytes()));
        }
        let most = REQUESTS_MAX * (play.script.ops.len() + play.script.faults.len());
        match play.requests() {
            count if count > most => Err(format!("{count} requests, and {most} are many")),
            _ => Ok(()),
        }
    }
}

/// Polls a future once.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn engine_error(error: std::io::Error) -> Result<Error, String> {
    let text = format!("no error of the engine: {error:?}");
    let inner = error.into_inner().and_then(|inner| inner.downcast::<Error>().ok());
    inner.map(|error| *error).ok_or(text)
}
