//! The expected behaviour of a channel, expressed with a slice and a position. [`Model`] receives
//! everything that the channel delivers, and reports every mismatch.
//!
//! A server that changes the blob or gives wrong facts leaves several outcomes possible. The model
//! keeps them all as candidates, and drops each one that contradicts the delivered bytes. If no
//! candidate remains, the channel mixed two versions or delivered bytes of another position.

use std::collections::HashSet;
use std::io::SeekFrom;
use std::ops::Range;

use bytes::Bytes;

/// A possible state of the blob: its bytes, and the length that the server gives.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) bytes: Bytes,
    pub(crate) len: u64,
}

impl Candidate {
    fn real_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn slice(&self, range: &Range<u64>) -> Option<&[u8]> {
        let at = |n| usize::try_from(n).ok();
        self.bytes.get(at(range.start)?..at(range.end)?)
    }
}

/// The position at which reading continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Start(u64),
    /// This many bytes before an end that is not known.
    End(u64),
}

impl At {
    fn of(self, candidate: &Candidate) -> u64 {
        match self {
            Self::Start(at) => at,
            Self::End(count) => candidate.len.saturating_sub(count),
        }
    }
}

/// The bytes from the start that were delivered in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    end: u64,
    damaged: bool,
    /// A capture may have lost the running checksum.
    carried: bool,
}

/// What the run verifies once the end has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// All bytes, in order, all right.
    Right,
    /// All bytes, in order, some of them wrong.
    Damaged,
    /// `Right` or `Damaged`, but the checksum may not have survived a capture.
    Unsure,
    Nothing,
}

pub(crate) type Verdict = Result<(), String>;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    candidates: Vec<Candidate>,
    /// Positions at which a bit may be flipped.
    flips: HashSet<u64>,
    at: At,
    limit: u64,
    /// The position comes from a seek, and may be beyond the end.
    pub(crate) sought: bool,
    pub(crate) delivered: bool,
    run: Option<Run>,
    /// The result of any earlier run over all bytes in order: `Nothing`, `Right` or `Damaged`.
    shown: Proof,
}

impl Model {
    pub(crate) fn new(candidates: Vec<Candidate>, flips: HashSet<u64>, at: At, limit: u64) -> Self {
        Self {
            candidates,
            flips,
            at,
            limit,
            sought: false,
            delivered: false,
            run: None,
            shown: Proof::Nothing,
        }
    }

    fn keep(&mut self, what: &str, fits: impl FnMut(&Candidate) -> bool) -> Verdict {
        let before = self.clone();
        self.candidates.retain(fits);
        if self.candidates.is_empty() {
            return Err(format!("{what}; {}", before.brief()));
        }
        Ok(())
    }

    fn brief(&self) -> String {
        let lens: Vec<_> = self.candidates.iter().map(|c| (c.real_len(), c.len)).collect();
        let Self { at, limit, .. } = self;
        format!("expected at {at:?}, limit {limit}, real and reported lengths {lens:?}")
    }

    /// The channel delivered these bytes, and is at `position` now.
    pub(crate) fn deliver(&mut self, bytes: &[u8], position: Option<u64>) -> Verdict {
        if bytes.is_empty() {
            return Ok(());
        }
        let count = bytes.len() as u64;
        let start = match (self.at, position) {
            (At::Start(start), _) => start,
            (At::End(_), Some(position)) if position >= count => position - count,
            (At::End(_), _) => return Err(format!("position {position:?} after {count} bytes")),
        };
        self.see(bytes, start)?;
        self.at = At::Start(start + count);
        self.delivered = true;
        let range = start..start + count;
        let damaged = !self.candidates.iter().any(|c| c.slice(&range) == Some(bytes));
        self.run = match self.run {
            _ if start == 0 => Some(Run { end: count, damaged, carried: false }),
            Some(run) if run.end == start => {
                Some(Run { end: range.end, damaged: run.damaged || damaged, ..run })
            }
            _ => None,
        };
        if let Some(run) = self.run
            && self.candidates.iter().any(|candidate| candidate.real_len() == run.end)
        {
            let damaged = run.damaged || self.shown == Proof::Damaged;
            self.shown = if damaged { Proof::Damaged } else { Proof::Right };
        }
        Ok(())
    }

    /// Compares these bytes with the candidates' bytes at `start`.
    fn see(&mut self, bytes: &[u8], start: u64) -> Verdict {
        let range = start..start.saturating_add(bytes.len() as u64);
        let what = format!("{} bytes at {start} that are not the blob's", bytes.len());
        let (at, limit, flips) = (self.at, self.limit, self.flips.clone());
        self.keep(&what, |candidate| {
            let real = candidate.slice(&range);
            at.of(candidate) == start
                && range.end <= limit
                && real.is_some_and(|real| {
                    real == bytes
                        || (range.start..).zip(real.iter().zip(bytes)).all(|(offset, (a, b))| {
                            a == b || flips.contains(&offset) && a ^ 1 == *b
                        })
                })
        })
    }

    /// The channel showed these bytes, and the caller did not consume them.
    pub(crate) fn show(&mut self, bytes: &[u8], position: Option<u64>) -> Verdict {
        match position {
            _ if bytes.is_empty() => Ok(()),
            None => Err("no position with bytes in hand".to_owned()),
            Some(position) => self.see(bytes, position),
        }
    }

    /// The channel delivered the end.
    pub(crate) fn end(&mut self) -> Verdict {
        let (at, limit) = (self.at, self.limit);
        self.keep("the end, too early", |candidate| {
            at.of(candidate) >= candidate.len.min(candidate.real_len()).min(limit)
        })
    }

    /// The channel reports this position.
    pub(crate) fn position(&mut self, position: Option<u64>) -> Verdict {
        match (self.at, position) {
            (At::Start(at), Some(position)) if at == position => Ok(()),
            (At::End(_), None) => Ok(()),
            (At::End(count), Some(position)) => {
                self.keep(&format!("position {position}"), |candidate| {
                    At::End(count).of(candidate) == position
                })?;
                self.at = At::Start(position);
                Ok(())
            }
            (At::Start(_), position) => Err(format!("position {position:?}; {}", self.brief())),
        }
    }

    /// The channel reports this length of the blob.
    pub(crate) fn len(&mut self, len: u64) -> Verdict {
        self.keep(&format!("length {len}"), |candidate| candidate.len == len)
    }

    fn target(&self, candidate: &Candidate, to: SeekFrom) -> Option<u64> {
        match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.of(candidate).checked_add_signed(by),
            SeekFrom::End(by) => candidate.len.min(self.limit).checked_add_signed(by),
        }
    }

    /// A seek arrived at `position`.
    pub(crate) fn sought(&mut self, to: SeekFrom, position: u64) -> Verdict {
        let before = self.clone();
        self.keep(&format!("{to:?} came to {position}"), |candidate| {
            before.target(candidate, to) == Some(position)
        })?;
        self.sought |= self.at != At::Start(position);
        self.at = At::Start(position);
        Ok(())
    }

    /// Whether a seek may have no valid target.
    pub(crate) fn leads_nowhere(&self, to: SeekFrom) -> bool {
        self.candidates.iter().any(|candidate| self.target(candidate, to).is_none())
    }

    /// Whether a read may find that its range begins beyond the end.
    pub(crate) fn is_beyond(&self) -> bool {
        let beyond = |candidate| self.at.of(candidate) > candidate.len;
        !self.sought && self.candidates.iter().any(beyond)
    }

    pub(crate) fn set_limit(&mut self, end: u64) {
        self.limit = end;
    }

    /// The read was captured and restored.
    pub(crate) fn carried(&mut self) {
        self.sought |= matches!(self.at, At::Start(_));
        let at = self.at;
        if let Some(run) = &mut self.run {
            run.carried |= at != At::Start(run.end);
        }
    }

    /// What has been verified at the blob's end.
    pub(crate) fn proof(&self) -> Proof {
        let whole = |end| self.candidates.iter().any(|candidate| candidate.real_len() == end);
        let whole_at_end = |end| whole(end) && self.at == At::Start(end);
        match self.run {
            Some(run) if run.damaged && (!whole_at_end(run.end) || run.carried) => Proof::Nothing,
            Some(run) if !whole(run.end) => Proof::Nothing,
            Some(run) if !whole_at_end(run.end) || run.carried => Proof::Unsure,
            Some(run) if run.damaged => Proof::Damaged,
            Some(_) => Proof::Right,
            None if self.candidates.iter().any(|c| c.real_len() == 0) => Proof::Unsure,
            None => Proof::Nothing,
        }
    }

    /// Whether all bytes were ever delivered in order. Unless `any` is set, some of them must have
    /// been damaged.
    pub(crate) fn was_whole(&self, any: bool) -> bool {
        let empty = self.candidates.iter().any(|candidate| candidate.bytes.is_empty());
        self.shown == Proof::Damaged || any && (self.shown == Proof::Right || empty)
    }
}
