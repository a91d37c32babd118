//! Every interleaving of a few small plans, by the model checker. Run with
//! `RUSTFLAGS='--cfg tidegate_loom' cargo test -p tidegate --release --lib interleavings`.
//!
//! The checker sees the table's lock; the channel that an outcome goes through is `tokio`'s, and
//! each call of it is one step here. A wait that is never ended fails the test: the checker calls it
//! a deadlock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Condvar;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{Follow, InFlight, Joined, Lead};
use crate::sync::{Mutex, lock};

type Flights = InFlight<u32, u32>;

const KEY: u32 = 1;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // As for the budget: enough for two or three threads, and ends in a minute.
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

/// A waker that the checker sees only when it wakes. Its own may not be used: `tokio` clones wakers
/// under a lock that the checker does not know, and the checker would change threads there.
#[derive(Default)]
struct Signal {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_woken) = true;
        self.woken.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (signal, mut future) = (Arc::new(Signal::default()), pin!(future));
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return outcome;
        }
        let mut is_woken = lock(&signal.is_woken);
        while !std::mem::take(&mut *is_woken) {
            is_woken = signal.woken.wait(is_woken).expect("no panic");
        }
    }
}

fn lead(flights: &Flights) -> Lead<u32, u32> {
    match flights.join(&KEY) {
        Joined::Lead(lead) => lead,
        Joined::Follow(_) => panic!("somebody leads already"),
    }
}

fn follow(flights: &Flights) -> Follow<u32> {
    match flights.join(&KEY) {
        Joined::Follow(follow) => follow,
        Joined::Lead(_) => panic!("nobody leads"),
    }
}

/// As downloads do it: leads or follows until there is an outcome. Counts those at work at once,
/// and how often it was done.
fn bring(flights: &Flights, at_work: &AtomicU32, done: &AtomicU32) -> u32 {
    loop {
        match flights.join(&KEY) {
            Joined::Lead(lead) => {
                assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0, "twice at once");
                at_work.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
                lead.succeed(7);
                return 7;
            }
            Joined::Follow(follow) => {
                if let Some(outcome) = block_on(follow.outcome()) {
                    return outcome;
                }
            }
        }
    }
}

#[test]
fn all_who_follow_are_given_the_outcome() {
    check(|| {
        let flights = Flights::new();
        let leader = lead(&flights);
        let threads = [follow(&flights), follow(&flights)]
            .map(|follow| thread::spawn(move || block_on(follow.outcome())));
        leader.succeed(7);
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), Some(7));
        }
        assert_eq!(flights.len(), 0);
    });
}

/// Whoever comes while another is about to finish has its outcome, or does the work anew; never
/// both at once, and nobody waits for one who has gone.
#[test]
fn whoever_comes_late_follows_or_leads() {
    check(|| {
        let flights = Flights::new();
        let counts = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let threads = [0, 1].map(|_| {
            let (flights, counts) = (flights.clone(), Arc::clone(&counts));
            thread::spawn(move || bring(&flights, &counts.0, &counts.1))
        });
        assert_eq!(bring(&flights, &counts.0, &counts.1), 7);
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), 7);
        }
        assert!((1..=3).contains(&counts.1.load(Ordering::SeqCst)));
        assert_eq!(flights.len(), 0);
    });
}

/// Of those who followed one that gives up, one leads at a time, and all get there.
#[test]
fn a_leader_that_gives_up_leaves_the_work_to_those_who_follow() {
    check(|| {
        let flights = Flights::new();
        let leader = lead(&flights);
        let counts = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let threads = [0, 1].map(|_| {
            let (flights, counts) = (flights.clone(), Arc::clone(&counts));
            thread::spawn(move || bring(&flights, &counts.0, &counts.1))
        });
        drop(leader);
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), 7);
        }
        assert!((1..=2).contains(&counts.1.load(Ordering::SeqCst)));
        assert_eq!(flights.len(), 0);
    });
}

/// One who waits and leaves, however far it got, takes nothing from those who stay.
#[test]
fn a_wait_that_is_dropped_takes_nothing_with_it() {
    check(|| {
        let flights = Flights::new();
        let leader = lead(&flights);
        let (leaves, stays) = (follow(&flights), follow(&flights));
        let leaving = thread::spawn(move || {
            let waker = futures_util::task::noop_waker();
            let mut wait = pin!(leaves.outcome());
            match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => assert_eq!(outcome, Some(7)),
                Poll::Pending => {}
            }
        });
        let staying = thread::spawn(move || block_on(stays.outcome()));
        leader.succeed(7);
        leaving.join().expect("no panic");
        assert_eq!(staying.join().expect("no panic"), Some(7));
    });
}

/// One that ends leaves the next one's flight alone.
#[test]
fn an_end_takes_no_other_flight_away() {
    check(|| {
        let flights = Flights::new();
        let first = lead(&flights);
        let behind = follow(&flights);
        let other = flights.clone();
        let next = thread::spawn(move || {
            assert_eq!(block_on(behind.outcome()), None);
            // Nobody else is there: the first one's flight must be gone by now.
            let next = lead(&other);
            let behind = follow(&other);
            next.succeed(8);
            block_on(behind.outcome())
        });
        drop(first);
        assert_eq!(next.join().expect("no panic"), Some(8));
        assert_eq!(flights.len(), 0);
    });
}
