//! The link that all connections of a server share.
//!
//! Deadlines keep the rate, as in [`crate::network`], but for the whole server. More connections do
//! not give a client a higher rate.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The longest delay behind its deadlines that the link may make up.
const CREDIT: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Link {
    bytes_per_second: Option<u64>,
    due: Mutex<Option<Instant>>,
}

impl Link {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second: bytes_per_second.map(|rate| rate.max(1)), due: Mutex::new(None) }
    }

    /// Waits until this many bytes have passed.
    pub(crate) async fn admit(&self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let nanos = u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(1_000_000_000);
        let cost =
            Duration::from_nanos(u64::try_from(nanos / u128::from(rate)).unwrap_or(u64::MAX));
        let due = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let floor = now.checked_sub(CREDIT).unwrap_or(now);
            let next = due.map_or(floor, |due| due.max(floor)) + cost;
            *due = Some(next);
            next
        };
        tokio::time::sleep_until(due).await;
    }
}
