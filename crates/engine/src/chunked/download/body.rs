//! [`ResumingBody`]: the bytes of one blob of a store, through as many requests as it takes.
//!
//! Invariants: bytes come in order, each once; a request after an interruption asks for exactly
//! what has not been delivered; never more than the digest's length is delivered. What is
//! delivered has not been verified: whoever reads does that, and rewinds where it is wrong.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_core::speed::SpeedVerdict;
use tokio::time::Instant;

use super::fetch::{Fetcher, Trouble};
use crate::budget::RequestPermit;
use crate::error::{Error, ErrorKind, Operation};
use crate::read::{SLOW_HINT, Share, floor_of};
use crate::remote::Body;
use crate::transfer::attempt::Attempts;
use crate::transfer::window::Sent;

/// Wrong bytes are asked for once more, in case they were damaged on the way, and then are an
/// error.
pub(super) const FLAWS_MAX: u32 = 2;

/// How long an answer's end is waited for, after its last byte: it is usually in the same packet.
const END_PATIENCE: Duration = Duration::from_millis(100);

/// How long an answer under way may wait for whoever reads what is delivered: a steady reader takes
/// some bytes in less, however slow.
const IDLE_MAX: Duration = Duration::from_secs(5);

pub(super) struct ResumingBody<'a> {
    fetcher: &'a Fetcher,
    digest: Digest,
    position: u64,
    attempts: Attempts<'a>,
    live: Option<Live>,
    flaws: u32,
}

/// An answer under way.
struct Live {
    body: Body,
    sent: Sent,
    bytes: u64,
    share: Share,
    _permit: RequestPermit,
}

impl<'a> ResumingBody<'a> {
    /// The bytes from `position` on. Nothing is asked for yet.
    pub(super) fn new(fetcher: &'a Fetcher, digest: Digest, position: u64) -> Self {
        let attempts = fetcher.calls.begin();
        Self { fetcher, digest, position, attempts, live: None, flaws: 0 }
    }

    /// Offset of the first byte not yet delivered.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next bytes; `None` once all have been delivered. Not to be dropped half-way.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        loop {
            if self.position >= self.digest.len {
                if let Some(live) = self.live.take() {
                    end(&self.attempts, live).await;
                }
                return Ok(None);
            }
            match self.step().await {
                Ok(frame) => return Ok(Some(frame)),
                Err(error) if error.kind() == ErrorKind::Integrity => {
                    self.rewind(self.position, error).await?;
                }
                Err(error) => self.interrupted(error).await?,
            }
        }
    }

    /// Waits for `reader` to take what was delivered. An answer under way is given up where that takes
    /// long, to be asked for again: its request is others' meanwhile, who may be what the reader
    /// waits for.
    pub(super) async fn idle<T>(&mut self, reader: impl Future<Output = T>) -> T {
        let mut reader = std::pin::pin!(reader);
        tokio::select! {
            biased;
            outcome = &mut reader => return outcome,
            () = tokio::time::sleep(IDLE_MAX) => {}
        }
        self.live = None;
        reader.await
    }

    /// What was delivered is wrong, as `error` says: begins again at `position`, once.
    pub(super) async fn rewind(&mut self, position: u64, error: Error) -> Result<(), Trouble> {
        self.flaws += 1;
        self.position = position;
        if self.flaws >= FLAWS_MAX {
            self.live = None;
            return Err(Trouble::Failed(error.retryable(RetryClass::Never)));
        }
        self.interrupted(error).await
    }

    async fn step(&mut self) -> Result<Bytes, Error> {
        if self.live.is_none() {
            let permit = self.attempts.permit().await?;
            let sent = self.fetcher.window.send();
            let limit = self.fetcher.calls.patience(0);
            let (store, budget) = (&self.fetcher.store, &self.fetcher.calls.budget);
            let asked = store.get(&self.digest, self.position, budget);
            match self.attempts.within(limit, asked).await {
                Ok(body) => {
                    let share = Share::new(&self.fetcher.flow);
                    self.live = Some(Live { body, sent, bytes: 0, share, _permit: permit });
                }
                Err(error) => {
                    sent.failed(&error);
                    return Err(error);
                }
            }
        }
        let Some(live) = self.live.as_mut() else { return Err(self.fetcher.calls.cancelled()) };
        match live.share.tell() {
            SpeedVerdict::Enough => {}
            SpeedVerdict::Restart => return Err(self.too_slow()),
            SpeedVerdict::GiveUp => {
                let error = self.attempts.gave_up("the transfer is too slow", self.too_slow());
                return Err(error.with_hint(SLOW_HINT));
            }
        }
        let limit = self.fetcher.calls.patience(0);
        // The time in which a caller is busy with earlier bytes does not count.
        let since = Instant::now();
        let Some(mut frame) = self.attempts.within(limit, bytes_of(&mut live.body)).await? else {
            let message = "the answer ended before its bytes did";
            let what = self.digest.to_string();
            let ended = Error::new(ErrorKind::Transport, Operation::Read, what, message);
            let missing = self.position..self.digest.len;
            return Err(ended.at(missing).retryable(RetryClass::Now));
        };
        let left = self.digest.len - self.position;
        frame.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let count = frame.len() as u64;
        self.position += count;
        live.bytes += count;
        live.share.on_bytes(count, Some(since));
        self.attempts.on_bytes(count);
        Ok(frame)
    }

    fn too_slow(&self) -> Error {
        let calls = &self.fetcher.calls;
        calls
            .error(ErrorKind::Timeout, floor_of(&calls.policy, "arrived"))
            .retryable(RetryClass::Now)
    }

    /// Ends the answer under way, and rests until the next may be asked for.
    async fn interrupted(&mut self, error: Error) -> Result<(), Trouble> {
        if let Some(live) = self.live.take() {
            live.sent.failed(&error);
        }
        if error.kind() == ErrorKind::NotFound {
            return Err(Trouble::Missing(error));
        }
        Ok(self.attempts.interrupted(error).await?)
    }
}

/// The next frame that has any bytes: an endless stream of empty ones is silence.
async fn bytes_of(body: &mut Body) -> Result<Option<Bytes>, Error> {
    loop {
        match body.next().await.transpose()? {
            // Others may want the thread meanwhile, and the clock must be looked at.
            Some(frame) if frame.is_empty() => tokio::task::coop::consume_budget().await,
            other => return Ok(other),
        }
    }
}

/// All bytes are there. Hears the answer out, so that it ends in good order: dropping it would reset
/// its stream, and servers take many resets for an attack. What it still says does not matter, and
/// is not waited for long.
async fn end(attempts: &Attempts<'_>, live: Live) {
    let Live { mut body, sent, bytes, share: _, _permit } = live;
    sent.brought(bytes);
    let rest = async { body.next().await.transpose() };
    let _ = attempts.within(END_PATIENCE, rest).await;
}
