//! Wall time and processor time of work that several threads share.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// What work took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) wall: Duration,
    /// User and system time of the process.
    pub(crate) cpu: Duration,
}

impl Timed {
    /// Thousands of `count` things in a second.
    pub(crate) fn thousands_per_s(&self, count: usize) -> f64 {
        as_f64(count) / self.wall.as_secs_f64() / 1e3
    }

    /// Microseconds of processor time for one of `count` things.
    pub(crate) fn cpu_us(&self, count: usize) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / as_f64(count)
    }
}

/// Times `work`, which gets the number of its thread, on `threads` threads that start together.
pub(crate) fn timed(threads: usize, work: impl Fn(usize) -> Outcome + Sync) -> Outcome<Timed> {
    let (ready, done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let mut times = None;
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let (ready, done, work) = (&ready, &done, &work);
        let run = |number| {
            scope.spawn(move || {
                ready.wait();
                let outcome = work(number);
                done.wait();
                outcome
            })
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        let cpu = process_time();
        ready.wait();
        let start = Instant::now();
        done.wait();
        let wall = start.elapsed();
        times = Some(Timed { wall, cpu: process_time().saturating_sub(cpu) });
        let join = |handle: thread::ScopedJoinHandle<'_, Outcome>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect()
    });
    for outcome in outcomes {
        outcome?;
    }
    times.ok_or_else(|| "the work was not timed".into())
}

/// A count as a number of the kind that is divided.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) const fn as_f64(count: usize) -> f64 {
    count as f64
}

fn process_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
