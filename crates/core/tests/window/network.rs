//! A server behind a link, in simulated time, and a client that fetches from it through a window.
//!
//! There are two stages: the server responds after its latency, then the responses queue for the
//! link, one after another. All values are drawn from one seed; no clock is read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_core::window::{Outcome, Ticket, Window, WindowOptions};

/// The behaviour of a server and its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) name: &'static str,
    /// The latency of a response in milliseconds, uniform between these.
    pub(crate) latency_ms: (f64, f64),
    /// The rate of the link, for all requests together; `None` is unlimited.
    pub(crate) rate_mib_per_second: Option<f64>,
    /// Beyond this many in flight the server slows down. Its latency grows with the power of 1.5,
    /// so its throughput falls too.
    pub(crate) overloaded_beyond: Option<u32>,
    /// Beyond this many in flight the server throttles, at once.
    pub(crate) throttled_beyond: Option<u32>,
    /// This fraction of the responses takes this many milliseconds more.
    pub(crate) stragglers: (f64, f64),
    /// This fraction of the requests fails, after its latency.
    pub(crate) failures: f64,
    /// The total simulated time, in milliseconds.
    pub(crate) lasts_ms: u64,
}

impl Network {
    pub(crate) const fn plain(name: &'static str, latency_ms: (f64, f64)) -> Self {
        Self {
            name,
            latency_ms,
            rate_mib_per_second: None,
            overloaded_beyond: None,
            throttled_beyond: None,
            stragglers: (0.0, 0.0),
            failures: 0.0,
            lasts_ms: 6_000,
        }
    }

    pub(crate) const fn link(self, mib_per_second: f64) -> Self {
        Self { rate_mib_per_second: Some(mib_per_second), ..self }
    }

    fn slowdown(&self, in_flight: u32) -> f64 {
        self.overloaded_beyond
            .map_or(1.0, |knee| (f64::from(in_flight) / f64::from(knee)).max(1.0).powf(1.5))
    }
}

/// The sizes of the chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    /// All of 512 KiB.
    Even,
    /// From 16 KiB to 4 MiB, with every doubling equally likely.
    Mixed,
    /// Batches of 4 MiB for one second, then single chunks of 256 KiB.
    Shifting,
}

impl Sizes {
    fn draw(self, random: &mut Random, now_us: u64) -> f64 {
        match self {
            Self::Even => 0.5,
            Self::Mixed => 2_f64.powf(random.between((-6.0, 2.0))),
            Self::Shifting if now_us < 1_000_000 => 4.0,
            Self::Shifting => 0.25,
        }
    }
}

/// The bytes of one response.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    asked_at_us: u64,
    at_us: u64,
    size_mib: f64,
}

/// The result of one run.
#[derive(Debug)]
pub(crate) struct Run {
    arrivals: Vec<Arrival>,
    /// Each change of the limit: its time, and the new limit.
    pub(crate) limits: Vec<(u64, u32)>,
    pub(crate) lasted_ms: u64,
}

impl Run {
    /// The MiB per second that arrived from `from_ms` on.
    pub(crate) fn rate_after(&self, from_ms: u64) -> f64 {
        self.rate_of(from_ms, |arrival| arrival.at_us)
    }

    /// The MiB per second of requests sent from `from_ms` on.
    pub(crate) fn asked_rate_after(&self, from_ms: u64) -> f64 {
        self.rate_of(from_ms, |arrival| arrival.asked_at_us)
    }

    fn rate_of(&self, from_ms: u64, at_us: impl Fn(&Arrival) -> u64) -> f64 {
        let counted = self.arrivals.iter().filter(|arrival| at_us(arrival) >= from_ms * 1000);
        let bytes: f64 = counted.map(|arrival| arrival.size_mib).sum();
        bytes * 1000.0 / to_f64(self.lasted_ms - from_ms)
    }

    /// The mean limit over the time from `from_ms` on.
    pub(crate) fn limit_after(&self, from_ms: u64) -> f64 {
        let end = self.lasted_ms * 1000;
        let next = self.limits.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let spans = self.limits.iter().zip(next).map(|((at, limit), until)| {
            let span = until.saturating_sub((*at).max(from_ms * 1000));
            to_f64(span) * f64::from(*limit)
        });
        spans.sum::<f64>() / to_f64(end - from_ms * 1000)
    }

    pub(crate) fn limit_max(&self) -> u32 {
        self.limits.iter().map(|(_, limit)| *limit).max().unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The server has responded; the response waits for the link.
    Answered,
    Done,
}

struct Request {
    asked_at_us: u64,
    ticket: Option<Ticket>,
    size_mib: f64,
    outcome: Outcome,
}

/// Fetches until the simulated time ends.
pub(crate) fn run(network: &Network, sizes: Sizes, seed: u64, options: WindowOptions) -> Run {
    let mut random = Random(seed);
    let mut window = Window::new(options);
    let mut requests: Vec<Request> = Vec::new();
    let mut events = BinaryHeap::new();
    let mut run = Run {
        arrivals: Vec::new(),
        limits: vec![(0, window.limit())],
        lasted_ms: network.lasts_ms,
    };
    let (mut now, mut link_free_at) = (0_u64, 0_u64);
    loop {
        while window.has_room() {
            let ticket = window.on_start(Duration::from_micros(now));
            let (outcome, delay_us) = answer(network, &mut random, window.in_flight());
            let size_mib = sizes.draw(&mut random, now);
            events.push(Reverse((now + delay_us, requests.len(), Step::Answered)));
            requests.push(Request { asked_at_us: now, ticket: Some(ticket), size_mib, outcome });
        }
        let Some(Reverse((at, index, step))) = events.pop() else { return run };
        if at > network.lasts_ms * 1000 {
            return run;
        }
        now = at;
        let request = &mut requests[index];
        let whole = request.outcome == Outcome::Ok;
        if let (Step::Answered, true, Some(rate)) = (step, whole, network.rate_mib_per_second) {
            link_free_at = link_free_at.max(now) + micros(request.size_mib / rate * 1e3);
            events.push(Reverse((link_free_at, index, Step::Done)));
            continue;
        }
        let size_mib = if whole { request.size_mib } else { 0.0 };
        run.arrivals.push(Arrival { asked_at_us: request.asked_at_us, at_us: now, size_mib });
        let ticket = request.ticket.take().unwrap();
        let outcome = request.outcome;
        window.on_done(ticket, Duration::from_micros(now), bytes(size_mib), outcome);
        if run.limits.last().is_none_or(|(_, limit)| *limit != window.limit()) {
            run.limits.push((now, window.limit()));
        }
    }
}

/// The outcome of a request, and its latency in microseconds.
fn answer(network: &Network, random: &mut Random, in_flight: u32) -> (Outcome, u64) {
    let latency_ms = random.between(network.latency_ms) * network.slowdown(in_flight);
    if network.throttled_beyond.is_some_and(|most| in_flight > most) {
        return (Outcome::Throttled, micros(network.latency_ms.0));
    }
    let extra_ms = if random.happens(network.stragglers.0) { network.stragglers.1 } else { 0.0 };
    let outcome = if random.happens(network.failures) { Outcome::Failed } else { Outcome::Ok };
    (outcome, micros(latency_ms + extra_ms))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn bytes(size_mib: f64) -> u64 {
    (size_mib * 1_048_576.0) as u64
}

/// Converts milliseconds to microseconds, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn micros(ms: f64) -> u64 {
    ((ms * 1e3).round() as u64).max(1)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

/// Sebastiano Vigna's `SplitMix64`.
struct Random(u64);

impl Random {
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        to_f64((mixed ^ (mixed >> 31)) >> 12) / to_f64(1 << 52)
    }

    fn between(&mut self, (from, to): (f64, f64)) -> f64 {
        from + (to - from) * self.fraction()
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }
}
