//! [`InFlight`]: work that several transfers of one client need at the same time is done once.
//!
//! The design follows `bb-storage`'s deduplicating replicator. The first caller for a key is the
//! leader and does the work. A caller that comes while the work is in flight is a follower and
//! receives the leader's result. A follower's future may be dropped at any time. A follower never
//! inherits the leader's cancellation or error. If the leader fails, is cancelled or panics, its
//! followers learn only that there is no result. Each follower then joins again, and one of them
//! becomes the leader.
//!
//! The result goes through a `tokio` watch channel. The first follower creates it, because most
//! work has no follower, and there may be tens of thousands of leaders at a time.
//!
//! Invariants:
//! - A key is in the map exactly while its [`Leader`] lives. The leader removes the key when it
//!   succeeds or is dropped, before its followers are notified.
//! - No lock is held across an await or while a waker runs.
//! - A caller must not wait for another leader while it leads a key itself. Otherwise two leaders
//!   could wait for each other. A caller ends its own work first, and follows afterwards.
//!
//! | file | idea |
//! |---|---|
//! | `table` | the chunks that the transfers of one client are moving |
//! | `interleavings` | model-checks all orders of leading, following and leaving |

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

/// Work in flight, by key. Clones share it. `T` is the result and cheap to clone.
pub(crate) struct InFlight<K, T>(Arc<Mutex<Flights<K, T>>>);

/// The channel exists from the first follower on.
type Flights<K, T> = HashMap<K, Option<Outcome<T>>>;

/// Empty until the leader succeeds. If the leader gives up, the sender is dropped without a value.
type Outcome<T> = watch::Sender<Option<T>>;

/// The caller's role: it does the work, or it waits for the result.
#[derive(Debug)]
pub(crate) enum Joined<K: Hash + Eq, T> {
    /// The caller does the work and reports the result.
    Leader(Leader<K, T>),
    /// Another caller is doing the work.
    Follower(Follower<T>),
}

/// The role of the leader. If it is dropped without [`Self::succeed`], a follower takes over.
pub(crate) struct Leader<K: Hash + Eq, T> {
    flights: InFlight<K, T>,
    // Taken when the leader succeeds or is dropped.
    key: Option<K>,
}

/// The role of a follower: a wait for the leader's result.
pub(crate) struct Follower<T>(watch::Receiver<Option<T>>);

impl<K: Hash + Eq + Clone, T: Clone> InFlight<K, T> {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(HashMap::new())))
    }

    /// Becomes the leader for `key`, or a follower if there is a leader.
    pub(crate) fn join(&self, key: &K) -> Joined<K, T> {
        match self.lock().entry(key.clone()) {
            Entry::Occupied(mut flight) => Joined::Follower(Follower::of(flight.get_mut())),
            Entry::Vacant(place) => {
                place.insert(None);
                Joined::Leader(Leader { flights: self.clone(), key: Some(key.clone()) })
            }
        }
    }

    /// Becomes a follower if there is a leader for `key`. Never becomes the leader.
    pub(crate) fn follow(&self, key: &K) -> Option<Follower<T>> {
        self.lock().get_mut(key).map(Follower::of)
    }

    /// Does `work`, or waits for the leader and takes over if the leader fails. Cancel-safe: if the
    /// future is dropped, a follower takes over. This caller runs `work` at most once.
    #[cfg(test)]
    pub(crate) async fn once<E>(
        &self,
        key: &K,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            match self.join(key) {
                Joined::Leader(lead) => {
                    let value = work().await?;
                    lead.succeed(value.clone());
                    return Ok(value);
                }
                Joined::Follower(follow) => {
                    if let Some(value) = follow.outcome().await {
                        return Ok(value);
                    }
                }
            }
        }
    }

    /// The number of keys in flight.
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

impl<K: Hash + Eq, T> Leader<K, T> {
    /// The work is done: its followers receive the result. A later caller does the work again.
    pub(crate) fn succeed(mut self, outcome: T) {
        self.end(Some(outcome));
    }

    fn end(&mut self, outcome: Option<T>) {
        if let Some(key) = self.key.take() {
            // Remove the key before the notification: a follower that joins again must not find
            // this entry.
            let followed = self.flights.lock().remove(&key).flatten();
            if let (Some(followed), Some(outcome)) = (followed, outcome) {
                followed.send_replace(Some(outcome));
            }
        }
    }
}

impl<K: Hash + Eq, T> Drop for Leader<K, T> {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<T> Follower<T> {
    fn of(flight: &mut Option<Outcome<T>>) -> Self {
        Self(flight.get_or_insert_with(|| watch::Sender::new(None)).subscribe())
    }
}

impl<T: Clone> Follower<T> {
    /// Waits for the result; `None` if the leader gave up. The caller then joins again.
    /// Cancel-safe.
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

impl<K: Hash + Eq, T> fmt::Debug for Leader<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Follower<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
