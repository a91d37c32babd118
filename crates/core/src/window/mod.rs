//! [`Window`]: how many requests of one blob are in flight, found by measuring.
//!
//! A state machine without a clock and without I/O: it is told when a request begins and ends, with
//! the time, and says how many may be in flight now. Whoever drives it starts requests while fewer
//! than [`Window::limit`] are under way.
//!
//! # What is sought
//!
//! The knee: the smallest window that has (nearly) the most throughput. Below it the link or the
//! server idles; above it requests only queue, which costs memory and, at servers that slow down
//! under load, throughput too. Where every request just takes its latency there is no knee, and the
//! window goes to [`WindowOptions::max`].
//!
//! # Which controller, and why
//!
//! A hill climb on measured throughput, in rounds. The known designs were weighed:
//!
//! - *The gradient of latencies* (Netflix's concurrency-limits, Vector's adaptive request
//!   concurrency) compares the latency now with that of an unloaded server. It is right for many
//!   small requests of one kind at one server. Here a request carries 1 KiB or 4 MiB, jitter alone
//!   makes the mean 1.7 times the least, and one knows the unloaded latency only after having been
//!   unloaded; Vector's takes one step up for each latency, which from 16 takes seconds to matter.
//! - *BBR* (Cardwell and others, "BBR: Congestion-Based Congestion Control", 2016) seeks the same
//!   knee: the most bandwidth, the least delay, and probes both in turn. Taken from it: doubling
//!   until throughput no longer follows, the knee from Little's law, and going on probing up and
//!   down. Not taken: the product of the two extremes itself, which under jitter is far below what
//!   fills the link (the mean latency counts, not the least) and knows no server that gets slower.
//!
//! So throughput itself is compared, under two windows at a time:
//!
//! 1. *Start*: double after each round as long as throughput grows by `WORTH` of what it would
//!    grow by if nothing were in the way. When it does not, go to where Little's law puts the knee.
//! 2. *Cruise*: one round as it is, one a step up; kept if throughput follows. One as it is, one a
//!    step down; kept if nothing is lost. Steps are a quarter, and grow while they succeed. When
//!    neither helps, rest for some rounds, and for longer each time.
//!
//! Throughput of a round is requests in flight over how long one takes, weighed by what its size
//! costs (see `round` and `size_cost`), times the part that succeeded: requests lost under load
//! count against it. A round is as many requests as it needs to be worth comparing, not a time, so
//! it works alike at 1 ms and at 1 s of latency; one that is too close to call goes on for as long
//! again. When the content changes so much that rounds cannot be compared (see `content`), doubling
//! begins anew, whatever the round was for: what was found for batches of megabytes may be a tenth
//! of what small chunks need.
//!
//! # Invariants
//!
//! - `min <= limit <= max`, whatever the events.
//! - A round in which the caller did not fill the window changes nothing upwards: where the budget,
//!   or what there is to send, is the limit, the window stays.
//! - One slow request changes nothing: it counts as the others' slowest, in the round that it
//!   began in, or not at all.
//! - Memory is bounded: two rounds of at most 512 samples.
//!
//! Not its business: fairness between blobs and the limit of the process, which are the budget's.

mod content;
mod options;
mod round;
mod size_cost;

use std::time::Duration;

use content::Content;
pub use options::{Outcome, WindowOptions};
use round::{Round, Sample};
use size_cost::SizeCost;

/// The part of the ideal growth that makes a larger window worth its memory: of a doubling, 1.2
/// times the throughput; of a quarter more, 1.05 times. Where throughput bends softly, windows that
/// gain less by growing have four fifths of all that is to be had.
const WORTH: f64 = 0.2;

/// Throughput that a smaller window may lose, against the one that the descent began from.
const LOSS_MAX: f64 = 0.03;

/// The first step up or down when cruising. Smaller ones drown in jitter.
const STEP_MIN: f64 = 1.25;
/// The largest.
const STEP_MAX: f64 = 2.0;

/// Samples of a cruising round, at least: jitter of a quarter of the latency leaves 3%.
const CRUISE_SAMPLES_MIN: u32 = 64;

/// Rounds to rest after neither direction helped: doubles from the first to the last.
const REST_ROUNDS_MIN: u32 = 1;
const REST_ROUNDS_MAX: u32 = 16;

/// What being throttled leaves of the window.
const BACKOFF: f64 = 0.7;

/// One request in flight. Hand it back to [`Window::on_done`] whatever becomes of the request.
#[derive(Debug)]
#[must_use = "a request that is never done stays in flight"]
pub struct Ticket {
    started: Duration,
    round: u64,
}

/// What the round under way is for.
#[derive(Clone, Debug)]
enum Phase {
    /// Doubling; what the round before saw, once there was one.
    Start(Option<Round>),
    /// As it is, to be compared with; then a step in this direction, or so many rounds more.
    Base { next: Direction, rest: u32 },
    /// A step up or down: what it is compared with, and where it goes back to.
    Trial { direction: Direction, base: Round, back: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// How many requests of one blob may be in flight. See the module for how it decides.
///
/// Times are since any start, the same for all calls, and monotonic; one that goes back counts as
/// no time passed.
#[derive(Clone, Debug)]
pub struct Window {
    options: WindowOptions,
    limit: u32,
    in_flight: u32,
    phase: Phase,
    round: Round,
    /// Counts rounds, so that a ticket can tell whether it is of this one.
    round_id: u64,
    cost: SizeCost,
    /// Of the last round that was decided.
    content: Option<Content>,
    step_up: f64,
    step_down: f64,
    rest: u32,
    /// Directions in a row that did not help.
    misses: u32,
    /// Throttled requests that began in an earlier round are the same congestion.
    throttled_in: u64,
}

impl Window {
    /// Begins at `options.start`, brought within its bounds.
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

    /// Requests that may be in flight now. It may fall below how many are: then none is to be
    /// started until enough of them are done.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Requests in flight: begun and not done.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether another request may begin.
    pub const fn has_room(&self) -> bool {
        self.in_flight < self.limit
    }

    /// A request is sent. Not before it really is: what it waits for within this process, such as
    /// the budget, must not look like the network's latency.
    pub fn on_start(&mut self, now: Duration) -> Ticket {
        self.round.open(now);
        self.round.pass(now, self.in_flight);
        self.in_flight = self.in_flight.saturating_add(1);
        Ticket { started: now, round: self.round_id }
    }

    /// It has ended, having brought so many bytes of payload.
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

    /// Everything that began under the window that was too much counts once.
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

    /// The round under way is over: says what the next one is.
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
            // Nothing is learnt; what was doubled in vain is taken back.
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
                // Where doubling brought nothing, the knee may be far below.
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
        let doubt = growth * base.doubt(&self.cost).hypot(round.doubt(&self.cost));
        if round.is_filled() && (growth - bound).abs() < doubt && self.round.extend() {
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
            // All steps down together may lose no more than one.
            Direction::Down => self.step(direction, round.limit, base),
        }
    }

    /// Tries the next step from `limit`, to be compared with `base`.
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

    /// Goes back, and tries the other direction; after both, rests.
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

    /// Throughput over that of a round before.
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

    /// Begins a round under `limit`.
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

/// The fastest half of the first requests decides: waiting for the slower half would take half as
/// long again, and all rounds that are compared leave it out alike.
fn start_samples(limit: u32) -> usize {
    limit.div_ceil(2).max(8) as usize
}

/// Growth of throughput that makes going from one limit to a larger one worth it.
fn worth(from: u32, to: u32) -> f64 {
    1.0 + WORTH * (f64::from(to) / f64::from(from.max(1)) - 1.0)
}

fn stepped_up(limit: u32, step: f64) -> u32 {
    scaled(limit, step).max(limit.saturating_add(1))
}

fn stepped_down(limit: u32, step: f64) -> u32 {
    scaled(limit, 1.0 / step).min(limit.saturating_sub(1)).max(1)
}

/// Rounded, at least 1.
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
