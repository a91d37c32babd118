//! [`Flight`]: one piece of work that is under way, and those who wait for its end.
//!
//! Invariants: its end is told once, and to everybody who waits then or asks later; no waker runs,
//! and nothing of the outcome is dropped, under its lock.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, lock};

/// Work under way; `T` is its outcome.
pub(super) struct Flight<T>(Mutex<State<T>>);

struct State<T> {
    end: Option<End<T>>,
    /// Those who wait, by number.
    waiting: BTreeMap<u64, Waker>,
    /// Numbers them.
    next: u64,
}

#[derive(Clone)]
enum End<T> {
    Done(T),
    GivenUp,
}

impl<T> Flight<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { end: None, waiting: BTreeMap::new(), next: 0 }))
    }

    /// The work has ended: with an outcome, or without one. Said once.
    pub(super) fn end(&self, outcome: Option<T>) {
        let waiting = {
            let mut state = lock(&self.0);
            state.end = Some(outcome.map_or(End::GivenUp, End::Done));
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    /// Waits for the end: the outcome, or `None`. Cancel-safe.
    pub(super) fn wait(self: Arc<Self>) -> Wait<T> {
        Wait { flight: self, number: None }
    }
}

/// A wait for the end of a [`Flight`].
#[must_use = "futures do nothing unless polled"]
pub(super) struct Wait<T> {
    flight: Arc<Flight<T>>,
    /// Under which its waker is kept.
    number: Option<u64>,
}

impl<T: Clone> Future for Wait<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.flight.0);
        if let Some(end) = &state.end {
            let outcome = match end.clone() {
                End::Done(outcome) => Some(outcome),
                End::GivenUp => None,
            };
            drop(state);
            // Whoever ended it has taken the waker.
            self.number = None;
            return Poll::Ready(outcome);
        }
        let number = self.number.unwrap_or(state.next);
        state.next += u64::from(self.number.is_none());
        let old = state.waiting.insert(number, cx.waker().clone());
        drop(state);
        // A waker may run anything when it is dropped.
        drop(old);
        self.number = Some(number);
        Poll::Pending
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = lock(&self.flight.0).waiting.remove(&number);
            drop(waker);
        }
    }
}

impl<T> fmt::Debug for Flight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").finish_non_exhaustive()
    }
}
