//! [`Window`]: how many requests of one blob are in flight, found by measuring.
//!
//! A state machine without a clock and without I/O. The caller reports when a request begins and
//! ends, with the time. The window returns how many requests may be in flight now. The caller
//! starts requests while fewer than [`Window::limit`] are in flight.
//!
//! # The goal
//!
//! The goal is the knee: the smallest window with (nearly) the highest throughput. Below the knee,
//! the link or the server idles. Above it, requests only queue. That costs memory, and it costs
//! throughput at servers that slow down under load. If every request just takes its latency, there
//! is no knee, and the window grows to [`WindowOptions::max`].
//!
//! # The controller
//!
//! The window climbs on measured throughput, in rounds. The known designs that were considered:
//!
//! - *Latency gradient* (Netflix's concurrency-limits, Vector's adaptive request concurrency): it
//!   compares the current latency with that of an unloaded server. It is right for many small
//!   requests of one kind at one server. Here a request carries 1 KiB or 4 MiB, and jitter alone
//!   makes the mean latency 1.7 times the minimum. The unloaded latency is known only after an
//!   unloaded period. Vector's controller takes one step up per latency, which from 16 takes
//!   seconds to have an effect.
//! - *BBR* (Cardwell and others, "BBR: Congestion-Based Congestion Control", 2016): it seeks the
//!   same knee, the highest bandwidth at the lowest delay, and probes both in turn. Taken from it:
//!   doubling until throughput no longer follows, the knee from Little's law, and continuous
//!   probing up and down. Not taken: the product of the two extremes. Under jitter that product is
//!   far below what fills the link, because the mean latency counts, not the minimum. It also does
//!   not model a server that slows down.
//!
//! So the window compares throughput under two limits at a time:
//!
//! 1. *Start*: double after each round while throughput grows by at least `WORTH` of the ideal
//!    growth. When it does not, go to the knee that Little's law gives.
//! 2. *Cruise*: run one round at the current limit and one a step up; keep the step if throughput
//!    follows. Run one round at the current limit and one a step down; keep the step if throughput
//!    stays. Steps begin at a quarter, and grow while they succeed. When neither direction helps,
//!    rest for some rounds, and for longer each time.
//!
//! The throughput of a round is the requests in flight divided by the mean latency, weighed by the
//! cost of their sizes (see `round` and `size_cost`), times the fraction that succeeded. So
//! requests lost under load count against a limit. A round is a number of requests and not a time,
//! so it works alike at 1 ms and at 1 s of latency. A round that is too close to call is doubled.
//! When the content changes so much that rounds cannot be compared (see `content`), the window
//! goes back to *Start* and doubles again: small chunks may need ten times the window of batches of
//! megabytes.
//!
//! # Invariants
//!
//! - `min <= limit <= max`, for all events.
//! - A round in which the caller did not fill the window never raises the limit. If the budget or
//!   the amount of work is the bottleneck, the window stays.
//! - One slow request changes nothing. In the round in which it began, its latency counts at most
//!   as the slowest of the others. In later rounds its latency does not count.
//! - Memory is bounded: two rounds of at most 512 samples.
//!
//! Not for fairness between blobs or for the limits of the process: those belong to the budget.

mod content;
mod options;
mod round;
mod size_cost;

use std::time::Duration;

use content::Content;
pub use options::{Outcome, WindowOptions};
use round::{Round, Sample};
use size_cost::SizeCost;

/// A larger window is worth its memory if throughput grows by this fraction of the ideal growth: to
/// 1.2 times for a doubling, to 1.05 times for a quarter more. Where throughput levels off slowly,
/// a window that gains less by growing already has four fifths of the maximum.
const WORTH: f64 = 0.2;

/// The fraction of throughput that a smaller window may lose, against the one where the descent
/// began.
const LOSS_MAX: f64 = 0.03;

/// The first step up or down in cruise. The effect of a smaller step is lost in jitter.
const STEP_MIN: f64 = 1.25;
/// The largest step.
const STEP_MAX: f64 = 2.0;

/// The minimum of samples in a cruise round: with 64, jitter of a quarter of the latency leaves an
/// error of 3%.
const CRUISE_SAMPLES_MIN: u32 = 64;

/// Rounds to rest after neither direction helped. The number doubles from the minimum to the
/// maximum.
const REST_ROUNDS_MIN: u32 = 1;
const REST_ROUNDS_MAX: u32 = 16;

/// The factor by which throttling reduces the window.
const BACKOFF: f64 = 0.7;

/// One request in flight. Pass it to [`Window::on_done`] when the request ends, with any outcome.
#[derive(Debug)]
#[must_use = "a request that is never done stays in flight"]
pub struct Ticket {
    started: Duration,
    round: u64,
}

/// The purpose of the current round.
#[derive(Clone, Debug)]
enum Phase {
    /// Doubling. Holds the previous round, if there was one.
    Start(Option<Round>),
    /// A round at the current limit, as the base of a comparison. Then comes a step in direction
    /// `next`, or first `rest` more rounds.
    Base { next: Direction, rest: u32 },
    /// A step up or down: the round that it is compared with, and the limit to return to.
    Trial { direction: Direction, base: Round, back: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Limits how many requests of one blob may be in flight. The module docs explain how it decides.
///
/// Times are durations since any start that all calls share, and monotonic. A time that goes
/// backwards counts as no time passed.
#[derive(Clone, Debug)]
pub struct Window {
    options: WindowOptions,
    limit: u32,
    in_flight: u32,
    phase: Phase,
    round: Round,
    /// The number of the current round. A ticket of an earlier round has a smaller one.
    round_id: u64,
    cost: SizeCost,
    /// The content of the last decided round.
    content: Option<Content>,
    step_up: f64,
    step_down: f64,
    rest: u32,
    /// The number of directions in a row that did not help.
    misses: u32,
    /// A throttled request that began before this round belongs to a congestion that was already
    /// counted.
    throttled_in: u64,
}

impl Window {
    /// Starts at `options.start`, clamped to its bounds.
    pub fn new(options: WindowOptions) -> Self {
        let min = options.min.max(1);
        let max = options.max.max(min);
        let start = options.start.clamp(min, max);
        let options = WindowOptions { start, min, max };
        Self {
            options,
            limit: start,
            in_flight: 0,
            phase: Phase::Start(None),
            round: Round::new(start, start_samples(start)),
            round_id: 1,
            cost: SizeCost::default(),
            content: None,
            step_up: STEP_MIN,
            step_down: STEP_MIN,
            rest: 0,
            misses: 0,
            throttled_in: 0,
        }
    }

    /// Requests that may be in flight now. It may fall below the number in flight. Then the caller
    /// starts none until enough of them have ended.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Requests in flight: begun and not ended.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether another request may begin.
    pub const fn has_room(&self) -> bool {
        self.in_flight < self.limit
    }

    /// Reports that a request is sent. Call it only when the request is really sent: waits within
    /// this process, such as for the budget, must not count as network latency.
    pub fn on_start(&mut self, now: Duration) -> Ticket {
        self.round.open(now);
        self.round.pass(now, self.in_flight);
        self.in_flight = self.in_flight.saturating_add(1);
        Ticket { started: now, round: self.round_id }
    }

    /// Reports that the request has ended, with `bytes` of payload.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is used once")]
    pub fn on_done(&mut self, ticket: Ticket, now: Duration, bytes: u64, outcome: Outcome) {
        self.round.pass(now, self.in_flight);
        self.in_flight = self.in_flight.saturating_sub(1);
        let is_of_round = ticket.round == self.round_id;
        if outcome == Outcome::Ok {
            self.round.arrive(now, mib(bytes));
        }
        match outcome {
            Outcome::Ok if is_of_round => {
                let latency_s = now.saturating_sub(ticket.started).as_secs_f64();
                self.round.push(Sample { latency_s, size_mib: mib(bytes) });
            }
            Outcome::Failed if is_of_round => self.round.fail(),
            Outcome::Throttled => return self.throttled(ticket.round),
            Outcome::Ok | Outcome::Failed | Outcome::Cancelled => return,
        }
        if self.round.is_over() {
            self.decide();
        }
    }

    /// Shrinks the window. All throttled requests that began under the same limit count once.
    fn throttled(&mut self, round: u64) {
        if round < self.throttled_in {
            return;
        }
        self.throttled_in = self.round_id + 1;
        self.rest = REST_ROUNDS_MAX;
        self.step_up = STEP_MIN;
        let limit = scaled(self.limit.min(self.in_flight.max(1)), BACKOFF);
        self.base(limit, Direction::Up, self.rest);
    }

    /// Ends the current round and starts the next.
    fn decide(&mut self) {
        let round = self.round.clone();
        if round.is_broken() {
            let limit = scaled(round.limit, 1.0 / STEP_MAX);
            return self.base(limit, Direction::Up, REST_ROUNDS_MIN);
        }
        self.cost.learn(round.samples(), round.stretches());
        if self.options.min == self.options.max {
            return self.base(self.limit, Direction::Up, 0);
        }
        let content = Content::of(round.samples());
        let is_other = self.content.is_some_and(|before| !before.is_like(&content));
        self.content = Some(content);
        let phase = std::mem::replace(&mut self.phase, Phase::Start(None));
        match phase {
            Phase::Start(before) => self.decide_start(before.as_ref(), is_other, round),
            Phase::Base { .. } if is_other && round.is_filled() => self.start(round.limit, None),
            Phase::Base { next, rest } => self.decide_base(next, rest, round),
            Phase::Trial { back, .. } if is_other => self.start(back, None),
            Phase::Trial { direction, base, back } => {
                self.decide_trial(direction, base, back, &round);
            }
        }
    }

    fn decide_start(&mut self, before: Option<&Round>, is_other: bool, round: Round) {
        if !round.is_filled() {
            // The round says nothing about the limit; a doubling that was not filled is undone.
            let limit = before.map_or(round.limit, |before| before.limit);
            return match before {
                Some(_) => self.base(limit, Direction::Up, REST_ROUNDS_MIN),
                None => self.start(limit, None),
            };
        }
        if let Some(before) = before.filter(|_| !is_other) {
            let growth = self.growth(before, &round);
            if growth < worth(before.limit, round.limit) {
                let knee = scaled(before.limit, growth.clamp(1.0 / STEP_MAX, STEP_MAX));
                // If doubling gained nothing, the knee may be far below.
                self.step_down = if growth < 1.0 + WORTH / 2.0 { STEP_MAX } else { STEP_MIN };
                let next = if growth < 1.0 + WORTH / 2.0 { Direction::Down } else { Direction::Up };
                return self.base(knee, next, 0);
            }
        }
        if round.limit >= self.options.max {
            return self.base(round.limit, Direction::Down, REST_ROUNDS_MIN);
        }
        let limit = scaled(round.limit, STEP_MAX);
        self.start(limit, Some(round));
    }

    fn decide_base(&mut self, next: Direction, rest: u32, round: Round) {
        if rest > 0 || !round.is_filled() {
            return self.base(round.limit, next, rest.saturating_sub(1));
        }
        self.step(next, round.limit, round);
    }

    fn decide_trial(&mut self, direction: Direction, base: Round, back: u32, round: &Round) {
        let growth = self.growth(&base, round);
        let bound = match direction {
            Direction::Up => worth(base.limit, round.limit),
            Direction::Down => 1.0 - LOSS_MAX,
        };
        let uncertainty =
            growth * base.relative_error(&self.cost).hypot(round.relative_error(&self.cost));
        if round.is_filled() && (growth - bound).abs() < uncertainty && self.round.extend() {
            self.phase = Phase::Trial { direction, base, back };
            return;
        }
        let helps = round.is_filled() && growth >= bound;
        if !helps {
            *self.step_size(direction) = STEP_MIN;
            return self.missed(back, direction);
        }
        (self.misses, self.rest) = (0, 0);
        let step = self.step_size(direction);
        *step = (*step * STEP_MIN).min(STEP_MAX);
        match direction {
            // Every step up must be worth it by itself.
            Direction::Up => self.step(direction, round.limit, round.clone()),
            // All steps down together may lose no more than one: `base` stays.
            Direction::Down => self.step(direction, round.limit, base),
        }
    }

    /// Tries the next step from `limit`, and compares it with `base`.
    fn step(&mut self, direction: Direction, limit: u32, base: Round) {
        let step = *self.step_size(direction);
        let stepped = match direction {
            Direction::Up => stepped_up(limit, step).min(self.options.max),
            Direction::Down => stepped_down(limit, step).max(self.options.min),
        };
        if stepped == limit {
            return self.missed(limit, direction);
        }
        self.open(stepped, Phase::Trial { direction, base, back: limit });
    }

    fn step_size(&mut self, direction: Direction) -> &mut f64 {
        match direction {
            Direction::Up => &mut self.step_up,
            Direction::Down => &mut self.step_down,
        }
    }

    /// Returns to `limit` and tries the other direction. After both have failed, rests.
    fn missed(&mut self, limit: u32, direction: Direction) {
        let other = match direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        self.misses += 1;
        if self.misses < 2 {
            return self.base(limit, other, 0);
        }
        self.misses = 0;
        self.rest = (self.rest * 2).clamp(REST_ROUNDS_MIN, REST_ROUNDS_MAX);
        self.base(limit, other, self.rest);
    }

    /// The throughput of `round` divided by that of the earlier round `before`.
    fn growth(&self, before: &Round, round: &Round) -> f64 {
        let throughput = before.throughput(&self.cost);
        if throughput > 0.0 { round.throughput(&self.cost) / throughput } else { 1.0 }
    }

    fn start(&mut self, limit: u32, before: Option<Round>) {
        self.open(limit, Phase::Start(before));
    }

    fn base(&mut self, limit: u32, next: Direction, rest: u32) {
        self.open(limit, Phase::Base { next, rest });
    }

    /// Begins a round at `limit`.
    fn open(&mut self, limit: u32, phase: Phase) {
        self.limit = limit.clamp(self.options.min, self.options.max);
        let need = match phase {
            Phase::Start(_) => start_samples(self.limit),
            _ => (self.limit.saturating_mul(2).max(CRUISE_SAMPLES_MIN)) as usize,
        };
        self.phase = phase;
        self.round = Round::new(self.limit, need);
        self.round_id += 1;
    }
}

/// A start round ends after the fastest half of its first requests. Waiting for the slower half
/// would take half as long again. All compared rounds leave it out in the same way.
fn start_samples(limit: u32) -> usize {
    limit.div_ceil(2).max(8) as usize
}

/// The growth of throughput that makes a larger limit worth it.
fn worth(from: u32, to: u32) -> f64 {
    1.0 + WORTH * (f64::from(to) / f64::from(from.max(1)) - 1.0)
}

fn stepped_up(limit: u32, step: f64) -> u32 {
    scaled(limit, step).max(limit.saturating_add(1))
}

fn stepped_down(limit: u32, step: f64) -> u32 {
    scaled(limit, 1.0 / step).min(limit.saturating_sub(1)).max(1)
}

/// Rounded, and at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts from floating point saturate, which is what is wanted"
)]
fn scaled(limit: u32, factor: f64) -> u32 {
    ((f64::from(limit) * factor).round() as u32).max(1)
}

#[expect(clippy::cast_precision_loss, reason = "a size to compare with others, not to count with")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
