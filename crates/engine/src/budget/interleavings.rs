//! Runs every interleaving of a few small scenarios in the model checker. Run with
//! `RUSTFLAGS='--cfg tidegate_loom' cargo test -p tidegate --release --lib interleavings`.
//!
//! A wait that never ends fails the test: the checker reports a deadlock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use loom::future::block_on;
use loom::thread;

use super::gate::{Gate, ShareId};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // As for the buffer: enough for two or three threads, and ends within a minute.
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

#[test]
fn every_waiter_gets_the_only_unit() {
    check(|| {
        let gate = Arc::new(Gate::new(1));
        let threads = [1, 2].map(|share| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || drop(block_on(gate.acquire(ShareId(share), 1))))
        });
        drop(block_on(gate.acquire(ShareId(0), 1)));
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert!(gate.try_acquire(ShareId(0), 1).is_some(), "it came back");
    });
}

#[test]
fn a_wish_for_all_is_not_passed_over() {
    check(|| {
        let gate = Arc::new(Gate::new(2));
        let held = gate.try_acquire(ShareId(0), 1).expect("free");
        let other = Arc::clone(&gate);
        let all = thread::spawn(move || drop(block_on(other.acquire(ShareId(1), 2))));
        // A thread that waits must hold nothing. The large wish comes first, so this wait would
        // never end if this thread held the unit.
        let releasing = thread::spawn(move || drop(held));
        drop(block_on(gate.acquire(ShareId(2), 1)));
        all.join().expect("no panic");
        releasing.join().expect("no panic");
        assert!(gate.try_acquire(ShareId(0), 2).is_some(), "all came back");
    });
}

/// A unit that is granted to a wait just as the wait is dropped goes to the next.
#[test]
fn a_wait_that_is_dropped_takes_nothing_with_it() {
    check(|| {
        let gate = Arc::new(Gate::new(1));
        let held = gate.try_acquire(ShareId(0), 1).expect("free");
        let other = Arc::clone(&gate);
        let dropping = thread::spawn(move || {
            let waker = futures_util::task::noop_waker();
            let mut wait = pin!(other.acquire(ShareId(1), 1));
            match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(permit) => drop(permit),
                Poll::Pending => {}
            }
        });
        let releasing = thread::spawn(move || drop(held));
        drop(block_on(gate.acquire(ShareId(2), 1)));
        dropping.join().expect("no panic");
        releasing.join().expect("no panic");
        assert!(gate.try_acquire(ShareId(0), 1).is_some(), "it came back");
    });
}

/// Merges permits of two shares while another thread waits and releases.
#[test]
fn joined_units_come_back_as_many() {
    check(|| {
        let gate = Arc::new(Gate::new(2));
        let mut mine = gate.try_acquire(ShareId(0), 1).expect("free");
        let theirs = gate.try_acquire(ShareId(1), 1).expect("free");
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || drop(block_on(other.acquire(ShareId(1), 1))));
        mine.merge(theirs);
        drop(mine.split(1));
        thread.join().expect("no panic");
        drop(mine);
        assert!(gate.try_acquire(ShareId(3), 2).is_some(), "all came back");
    });
}
