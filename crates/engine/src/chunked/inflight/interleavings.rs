//! Model-checks every interleaving of a few small cases with loom. Run with `RUSTFLAGS='--cfg
//! tidegate_loom' cargo test -p tidegate --release --lib interleavings`.
//!
//! Loom sees the lock of the table. The channel of a result is `tokio`'s own, and each call of it
//! counts as one step. A wait that never ends fails the test: loom reports it as a deadlock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Condvar;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{Follower, InFlight, Joined, Leader};
use crate::sync::{Mutex, lock};

type Flights = InFlight<u32, u32>;

const KEY: u32 = 1;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // The same bound as for the budget's model. It suffices for two or three threads and ends
    // within a minute.
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

/// A waker that loom sees only when it wakes. Loom's own waker cannot be used: `tokio` clones
/// wakers under a lock that loom does not know, and loom would switch threads there.
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

fn lead(flights: &Flights) -> Leader<u32, u32> {
    match flights.join(&KEY) {
        Joined::Leader(lead) => lead,
        Joined::Follower(_) => panic!("expected a leader, got a follower"),
    }
}

fn follow(flights: &Flights) -> Follower<u32> {
    match flights.join(&KEY) {
        Joined::Follower(follow) => follow,
        Joined::Leader(_) => panic!("expected a follower, got a leader"),
    }
}

/// Leads or follows until there is a result, as downloads do. Counts the leaders that work at once,
/// and how often the work is done.
fn lead_or_follow(flights: &Flights, at_work: &AtomicU32, done: &AtomicU32) -> u32 {
    loop {
        match flights.join(&KEY) {
            Joined::Leader(lead) => {
                assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0, "twice at once");
                at_work.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
                lead.succeed(7);
                return 7;
            }
            Joined::Follower(follow) => {
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

/// A caller that comes while a leader finishes gets the leader's result or does the work again.
/// Never do two leaders work at once, and no follower waits for a leader that is gone.
#[test]
fn a_late_caller_follows_or_leads() {
    check(|| {
        let flights = Flights::new();
        let counts = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let threads = [0, 1].map(|_| {
            let (flights, counts) = (flights.clone(), Arc::clone(&counts));
            thread::spawn(move || lead_or_follow(&flights, &counts.0, &counts.1))
        });
        assert_eq!(lead_or_follow(&flights, &counts.0, &counts.1), 7);
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), 7);
        }
        assert!((1..=3).contains(&counts.1.load(Ordering::SeqCst)));
        assert_eq!(flights.len(), 0);
    });
}

/// After a leader gives up, one follower at a time leads, and all followers get the result.
#[test]
fn a_leader_that_gives_up_leaves_the_work_to_those_who_follow() {
    check(|| {
        let flights = Flights::new();
        let leader = lead(&flights);
        let counts = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let threads = [0, 1].map(|_| {
            let (flights, counts) = (flights.clone(), Arc::clone(&counts));
            thread::spawn(move || lead_or_follow(&flights, &counts.0, &counts.1))
        });
        drop(leader);
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), 7);
        }
        assert!((1..=2).contains(&counts.1.load(Ordering::SeqCst)));
        assert_eq!(flights.len(), 0);
    });
}

/// A follower that is dropped at any point takes nothing from the other followers.
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

/// The end of one lead does not remove the entry of the next lead.
#[test]
fn an_end_takes_no_other_flight_away() {
    check(|| {
        let flights = Flights::new();
        let first = lead(&flights);
        let behind = follow(&flights);
        let other = flights.clone();
        let next = thread::spawn(move || {
            assert_eq!(block_on(behind.outcome()), None);
            // No other thread joins, so the first entry must be gone by now.
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
