//! [`InFlight`]: what several transfers of one client want at once is done once.
//!
//! After `bb-storage`'s deduplicating replicator: whoever comes first leads, and does the work;
//! whoever comes while it is being done follows, and is given the outcome. A follower watches its
//! own cancellation, which is to say that its future may be dropped at any time; it never inherits
//! the leader's cancellation, nor its error. Where the leader fails, is cancelled or panics, each
//! follower is told only that there is no outcome, and asks again: one of them leads then.
//!
//! The outcome goes through a `tokio` watch channel, which the first follower makes: most work is
//! followed by nobody, and there may be tens of thousands of leads at a time.
//!
//! Invariants:
//! - A key is in the map exactly while a [`Lead`] of it lives: the lead takes it out when it
//!   succeeds and when it is dropped, before anybody is told.
//! - No lock is held across an await, nor while a waker runs.
//! - Who leads must not wait for a lead of another before letting go of its own, or two could wait
//!   for each other: finish what you lead first, then follow.
//!
//! | file | idea |
//! |---|---|
//! | `table` | the chunks that the transfers of one client are moving |
//! | `interleavings` | all orders of leading, following and leaving, by the model checker |

#[cfg(all(test, tidegate_loom))]
mod interleavings;
mod table;

pub(crate) use table::{ChunksInFlight, Key};

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use tokio::sync::watch;

use crate::sync::{Mutex, MutexGuard, lock};

/// Work that is being done, by what names it; clones share it. `T` is the outcome, cheap to clone.
pub(crate) struct InFlight<K, T>(Arc<Mutex<Flights<K, T>>>);

/// The channel is there once somebody follows.
type Flights<K, T> = HashMap<K, Option<Outcome<T>>>;

/// Holds nothing until the work is done, and is dropped without anything where its leader gives up.
type Outcome<T> = watch::Sender<Option<T>>;

/// Who does the work, and who waits for it.
#[derive(Debug)]
pub(crate) enum Joined<K: Hash + Eq, T> {
    /// Do it, and say so.
    Lead(Lead<K, T>),
    /// Somebody does it.
    Follow(Follow<T>),
}

/// The duty to do the work. Dropped without [`Self::succeed`], it passes to a follower.
pub(crate) struct Lead<K: Hash + Eq, T> {
    flights: InFlight<K, T>,
    // Taken when the lead ends.
    key: Option<K>,
}

/// A wait for somebody else's work.
pub(crate) struct Follow<T>(watch::Receiver<Option<T>>);

impl<K: Hash + Eq + Clone, T: Clone> InFlight<K, T> {
    /// Nothing in flight.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(HashMap::new())))
    }

    /// Leads the work that `key` names, or follows whoever does.
    pub(crate) fn join(&self, key: &K) -> Joined<K, T> {
        match self.lock().entry(key.clone()) {
            Entry::Occupied(mut flight) => Joined::Follow(Follow::of(flight.get_mut())),
            Entry::Vacant(place) => {
                place.insert(None);
                Joined::Lead(Lead { flights: self.clone(), key: Some(key.clone()) })
            }
        }
    }

    /// Follows whoever does the work that `key` names, where somebody does.
    pub(crate) fn follow(&self, key: &K) -> Option<Follow<T>> {
        self.lock().get_mut(key).map(Follow::of)
    }

    /// Does `work`, or waits for whoever does it and takes over where he fails. Cancel-safe:
    /// dropping the future passes the work on. `work` may be called once only, by this caller.
    #[cfg(test)]
    pub(crate) async fn once<E>(
        &self,
        key: &K,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            match self.join(key) {
                Joined::Lead(lead) => {
                    let value = work().await?;
                    lead.succeed(value.clone());
                    return Ok(value);
                }
                Joined::Follow(follow) => {
                    if let Some(value) = follow.outcome().await {
                        return Ok(value);
                    }
                }
            }
        }
    }

    /// How many are in flight.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

impl<K, T> InFlight<K, T> {
    fn lock(&self) -> MutexGuard<'_, Flights<K, T>> {
        lock(&self.0)
    }
}

impl<K: Hash + Eq, T> Lead<K, T> {
    /// The work is done: those who follow are given its outcome, and who comes later does it anew.
    pub(crate) fn succeed(mut self, outcome: T) {
        self.end(Some(outcome));
    }

    fn end(&mut self, outcome: Option<T>) {
        if let Some(key) = self.key.take() {
            // First out of the map, then told: whoever asks again must not find this flight.
            let followed = self.flights.lock().remove(&key).flatten();
            if let (Some(followed), Some(outcome)) = (followed, outcome) {
                followed.send_replace(Some(outcome));
            }
        }
    }
}

impl<K: Hash + Eq, T> Drop for Lead<K, T> {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<T> Follow<T> {
    fn of(flight: &mut Option<Outcome<T>>) -> Self {
        Self(flight.get_or_insert_with(|| watch::Sender::new(None)).subscribe())
    }
}

impl<T: Clone> Follow<T> {
    /// Waits until the work is done; `None` where whoever led gave up: ask again. Cancel-safe.
    pub(crate) async fn outcome(mut self) -> Option<T> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

impl<K, T> Clone for InFlight<K, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, T> fmt::Debug for InFlight<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("count", &self.lock().len()).finish()
    }
}

impl<K: Hash + Eq, T> fmt::Debug for Lead<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Follow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
