//! [`SyntheticTrace`]: the requests of builds over a working set, from a seed.
//!
//! A project has actions, each with one output. A build of the main line asks for all outputs in
//! their order, after a commit has changed some of them. A branch starts from the main line of its
//! time and changes some more; its changes are never merged, so its outputs die with it. A missing
//! output is built and put. Sizes are log-normal: with the defaults 94% of the outputs are below
//! 64 KiB and hold 30% of the bytes.
//!
//! Such builds loop over their working set: a new output is not read again before the next build.

use std::collections::HashSet;
use std::f64::consts::TAU;

use fastrand::Rng;

use super::{TraceOperation, TraceRequest};

/// The natural logarithm of the median size, 2.6 KB, and the deviation around it. They put 64 KiB
/// at 94% of the sizes and at 30% of the bytes.
const SIZE_LN_MEDIAN: f64 = 7.857;
const SIZE_LN_DEVIATION: f64 = 2.079;

/// The largest output, 2 GiB: the tail of the distribution has no end.
const SIZE_LN_MAX: f64 = 21.5;

/// Builds that a branch gets before it ends.
const BRANCH_BUILDS_MAX: u32 = 4;

/// Branches that are open at once.
const BRANCHES_MAX: usize = 6;

/// What a generated trace is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticOptions {
    /// Decides everything else.
    pub seed: u64,
    /// Actions of one build.
    pub actions: usize,
    /// Builds in the trace.
    pub builds: usize,
    /// The share of builds that are of branches.
    pub branch_share: f64,
    /// The share of actions that a commit changes, on average.
    pub change_share: f64,
    /// From the start of one build to the start of the next.
    pub build_interval_ms: u64,
    /// The length of a build, at most the interval.
    pub build_ms: u64,
}

impl Default for SyntheticOptions {
    /// A mid-sized project for a week: 2 million requests.
    fn default() -> Self {
        Self {
            seed: 1,
            actions: 8000,
            builds: 260,
            branch_share: 0.55,
            change_share: 0.03,
            build_interval_ms: 40 * 60 * 1000,
            build_ms: 5 * 60 * 1000,
        }
    }
}

/// One version of an action's output.
#[derive(Clone, Copy, Debug)]
struct Output {
    fingerprint: u64,
    size_bytes: u64,
}

/// The outputs of a branch, and how often it will still be built.
#[derive(Debug)]
struct Branch {
    outputs: Vec<Output>,
    builds_left: u32,
}

/// The requests, in the order of time.
#[derive(Debug)]
pub struct SyntheticTrace {
    options: SyntheticOptions,
    random: Rng,
    main: Vec<Output>,
    branches: Vec<Branch>,
    built: HashSet<u64>,
    /// Builds that have started.
    builds: usize,
    /// The outputs of the current build, and the next of them.
    current: Vec<Output>,
    next: usize,
    /// The put of the output that was just found missing.
    pending_put: Option<TraceRequest>,
}

impl SyntheticTrace {
    /// A project before its first build.
    pub fn new(options: SyntheticOptions) -> Self {
        let mut random = Rng::with_seed(options.seed);
        let main = (0..options.actions).map(|_| output(&mut random)).collect();
        Self {
            options,
            random,
            main,
            branches: Vec::new(),
            built: HashSet::new(),
            builds: 0,
            current: Vec::new(),
            next: 0,
            pending_put: None,
        }
    }

    /// Starts the next build; `false` after the last.
    fn start_build(&mut self) -> bool {
        if self.builds == self.options.builds || self.options.actions == 0 {
            return false;
        }
        self.builds += 1;
        self.next = 0;
        let share = self.options.change_share;
        if self.random.f64() >= self.options.branch_share {
            if self.builds > 1 {
                change(&mut self.main, share, &mut self.random);
            }
            self.current.clone_from(&self.main);
            return true;
        }
        let opens =
            self.branches.len() < BRANCHES_MAX && (self.branches.is_empty() || self.random.bool());
        if opens {
            let builds_left = self.random.u32(1..=BRANCH_BUILDS_MAX);
            self.branches.push(Branch { outputs: self.main.clone(), builds_left });
        }
        let at =
            if opens { self.branches.len() - 1 } else { self.random.usize(..self.branches.len()) };
        if let Some(branch) = self.branches.get_mut(at) {
            change(&mut branch.outputs, share, &mut self.random);
            self.current.clone_from(&branch.outputs);
            branch.builds_left -= 1;
            if branch.builds_left == 0 {
                self.branches.swap_remove(at);
            }
        }
        true
    }

    fn time_ms(&self) -> u64 {
        let start = self.options.build_interval_ms * (self.builds as u64).saturating_sub(1);
        let passed = self.options.build_ms * self.next as u64 / self.options.actions.max(1) as u64;
        start + passed
    }
}

impl Iterator for SyntheticTrace {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        if let Some(put) = self.pending_put.take() {
            return Some(put);
        }
        if self.next == self.current.len() && !self.start_build() {
            return None;
        }
        let Output { fingerprint, size_bytes } = *self.current.get(self.next)?;
        let operation = TraceOperation::Get;
        let get = TraceRequest { time_ms: self.time_ms(), operation, fingerprint, size_bytes };
        self.next += 1;
        if self.built.insert(fingerprint) {
            self.pending_put = Some(TraceRequest { operation: TraceOperation::Put, ..get });
        }
        Some(get)
    }
}

/// A new output.
fn output(random: &mut Rng) -> Output {
    // The method of Box and Muller. `1 - f64()` is not 0.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    let normal = radius * (TAU * random.f64()).cos();
    let exact = (SIZE_LN_MEDIAN + SIZE_LN_DEVIATION * normal).min(SIZE_LN_MAX).exp();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is positive and below 2^32"
    )]
    let size_bytes = exact as u64 + 1;
    Output { fingerprint: random.u64(..), size_bytes }
}

/// A commit: neighbours change together, as the actions above a changed source do.
fn change(outputs: &mut [Output], share: f64, random: &mut Rng) {
    const RUN: usize = 20;
    for run in outputs.chunks_mut(RUN) {
        if random.f64() < share {
            run.fill_with(|| output(random));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SyntheticOptions {
        SyntheticOptions { actions: 1000, builds: 40, ..SyntheticOptions::default() }
    }

    #[test]
    fn a_seed_decides_the_trace() {
        let trace = |seed| SyntheticTrace::new(SyntheticOptions { seed, ..options() });
        assert!(trace(7).eq(trace(7)));
        assert!(trace(7).ne(trace(8)));
    }

    #[test]
    fn times_never_decrease_and_every_output_is_put_once() {
        let mut last_ms = 0;
        let mut put = HashSet::new();
        let mut gets = 0;
        for request in SyntheticTrace::new(options()) {
            assert!(request.time_ms >= last_ms);
            last_ms = request.time_ms;
            match request.operation {
                TraceOperation::Put => assert!(put.insert(request.fingerprint)),
                _ => gets += 1,
            }
        }
        assert_eq!(gets, 40 * 1000);
        // The first build, and 3% for each later one.
        assert!((1000 + 400..1000 + 2400).contains(&put.len()), "{}", put.len());
    }

    #[test]
    fn sizes_have_the_stated_shares() {
        let mut random = Rng::with_seed(3);
        let sizes: Vec<u64> = (0..200_000).map(|_| output(&mut random).size_bytes).collect();
        let small = || sizes.iter().filter(|size| **size < 64 << 10);
        #[expect(clippy::cast_precision_loss, reason = "three digits are enough")]
        let (count, bytes) = (
            small().count() as f64 / sizes.len() as f64,
            small().sum::<u64>() as f64 / sizes.iter().sum::<u64>() as f64,
        );
        assert!((0.93..0.95).contains(&count), "{count}");
        assert!((0.24..0.36).contains(&bytes), "{bytes}");
    }
}
