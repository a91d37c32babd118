//! [`Flights`]: one fill for each blob, and the owner of their tasks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::flight::stopped;
use super::{FillError, Flight, FlightOutcome, RUNNING_MAX, WAITING_MAX};

/// The fills of one kind, by what names a blob. Clones are the same.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Flights<K>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K> {
    flights: Mutex<HashMap<K, Arc<Flight>>>,
    running: Semaphore,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl<K: Clone + Debug + Eq + Hash + Send + Sync + 'static> Flights<K> {
    pub(in crate::serve) fn new() -> Self {
        Self(Arc::new(Shared {
            flights: Mutex::default(),
            running: Semaphore::new(RUNNING_MAX),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// The fill of a blob, if there is one.
    pub(in crate::serve) fn find(&self, key: &K) -> Option<Arc<Flight>> {
        self.0.flights().get(key).cloned()
    }

    /// The fill of a blob: the one that is in flight, or a new one that does `work`. It ends when
    /// `work` does, or when the owner stops.
    pub(in crate::serve) fn join<W, F>(&self, key: K, work: W) -> Result<Arc<Flight>, FillError>
    where
        W: FnOnce(Arc<Flight>) -> F,
        F: Future<Output = FlightOutcome> + Send + 'static,
    {
        let mut flights = self.0.flights();
        let count = flights.len();
        let entry = match flights.entry(key) {
            Entry::Occupied(entry) => return Ok(Arc::clone(entry.get())),
            Entry::Vacant(_) if count >= WAITING_MAX => return Err(FillError::Busy),
            Entry::Vacant(_) if self.0.stop.is_cancelled() => return Err(FillError::Stopped),
            Entry::Vacant(entry) => entry,
        };
        let flight = Arc::new(Flight::default());
        let key = entry.key().clone();
        entry.insert(Arc::clone(&flight));
        let landing = Landing { shared: Arc::clone(&self.0), key, flight: Arc::clone(&flight) };
        let work = work(Arc::clone(&flight));
        self.0.tasks.spawn(landing.run(work));
        Ok(flight)
    }

    /// Ends all fills and waits for their tasks.
    pub(in crate::serve) async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl<K> Shared<K> {
    fn flights(&self) -> MutexGuard<'_, HashMap<K, Arc<Flight>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a fill out of the table and ends it, whatever happens to its task.
struct Landing<K: Eq + Hash> {
    shared: Arc<Shared<K>>,
    key: K,
    flight: Arc<Flight>,
}

impl<K: Eq + Hash> Landing<K> {
    async fn run(self, work: impl Future<Output = FlightOutcome>) {
        let running = async {
            // The semaphore is never closed.
            let _slot = self.shared.running.acquire().await.ok();
            work.await
        };
        // CANCEL: a fill that is dropped names nothing.
        let outcome = tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => Err(stopped()),
            outcome = running => outcome,
        };
        // A request that comes now finds the blob in the store, or begins anew.
        self.shared.flights().remove(&self.key);
        self.flight.end(outcome);
    }
}

impl<K: Eq + Hash> Drop for Landing<K> {
    fn drop(&mut self) {
        let mut flights = self.shared.flights();
        // After a normal end, the key may name another fill.
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
        drop(flights);
        self.flight.end(Err(stopped()));
    }
}
