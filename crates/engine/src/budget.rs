//! The process-wide limit on requests in flight and on bytes held in memory.
//!
//! One [`Budget`] is made per process and cloned to every transfer: whatever sends a request takes
//! a [`RequestPermit`], whatever holds bytes that it has not yet handed on takes a
//! [`BytesPermit`]. Both queues are first come, first served, so that a large blob cannot starve a
//! small one for longer than one of its own shards lasts.
//!
//! Deadlock: everything is taken in one order, bytes before requests, and nobody who holds either
//! waits for more of it before letting go. A shard takes its bytes, then its request; a blob that
//! needs all its bytes at once takes them at once; transfers that deliver in order take their
//! bytes in that same order (see `sink` for the argument).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted in units of this many, so that any limit fits a semaphore's 32-bit acquire.
const UNIT_BYTES: u64 = 4096;

/// The two limits of a [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetOptions {
    /// Requests in flight, over all blobs. The default of 64 fills a 50 Gbit/s link when each
    /// connection is held to 100 MiB/s, and is what object stores accept from one client without
    /// throttling.
    pub requests: u32,
    /// Bytes held in memory, over all blobs; 256 MiB by default.
    pub bytes: u64,
}

impl Default for BudgetOptions {
    fn default() -> Self {
        Self { requests: 64, bytes: 256 << 20 }
    }
}

/// A handle on the process-wide budget; clones share it.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    units: u32,
    limits: BudgetOptions,
    held_bytes: AtomicU64,
    held_bytes_peak: AtomicU64,
    // Wishes for bytes that wait.
    wishes: AtomicU64,
    stores: Mutex<Vec<Weak<dyn Reclaim>>>,
}

/// Who holds bytes that nobody needs, only to be faster next time, and lets go of them when
/// somebody else wants them.
pub(crate) trait Reclaim: Send + Sync {
    /// Gives all of it back at once.
    fn reclaim(&self);
}

/// Counts a wish for as long as it waits.
struct Wish<'a>(&'a Inner);

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.0.wishes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Budget {
    /// A budget with these limits; each is raised to at least one request and one page.
    pub fn new(options: BudgetOptions) -> Self {
        let units = u32::try_from(options.bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        // A semaphore holds at most usize::MAX >> 3 permits; units are 32 bits, so both fit.
        let requests = options.requests.max(1);
        Self(Arc::new(Inner {
            requests: Arc::new(Semaphore::new(requests as usize)),
            bytes: Arc::new(Semaphore::new(units as usize)),
            units,
            limits: BudgetOptions { requests, bytes: u64::from(units) * UNIT_BYTES },
            held_bytes: AtomicU64::new(0),
            held_bytes_peak: AtomicU64::new(0),
            wishes: AtomicU64::new(0),
            stores: Mutex::default(),
        }))
    }

    /// The limits in force, after rounding.
    pub fn limits(&self) -> BudgetOptions {
        self.0.limits
    }

    /// Waits for the right to have one more request in flight. Cancel-safe.
    pub async fn request(&self) -> RequestPermit {
        let permit = Arc::clone(&self.0.requests).acquire_owned().await;
        RequestPermit { _permit: permit.ok() }
    }

    /// Waits for the right to have two more requests in flight, taken at once: whoever held one
    /// while waiting for another could wait for ever. `None` where the limit is one. Cancel-safe.
    pub async fn request_pair(&self) -> Option<(RequestPermit, RequestPermit)> {
        if self.0.limits.requests < 2 {
            return None;
        }
        let mut both = Arc::clone(&self.0.requests).acquire_many_owned(2).await.ok()?;
        let other = both.split(1);
        Some((RequestPermit { _permit: Some(both) }, RequestPermit { _permit: other }))
    }

    /// Waits for the right to hold `bytes` more; a wish beyond the whole budget gets the whole
    /// budget, so that it waits for everyone else rather than for ever. Cancel-safe.
    pub async fn bytes(&self, bytes: u64) -> BytesPermit {
        if let Some(permit) = self.try_bytes(bytes) {
            return permit;
        }
        let units = self.units(bytes);
        self.0.wishes.fetch_add(1, Ordering::AcqRel);
        let wish = Wish(&self.0);
        // Once more with the wish in sight, so that nobody puts bytes by from here on.
        self.reclaim();
        let permit = Arc::clone(&self.0.bytes).acquire_many_owned(units).await;
        drop(wish);
        self.grant(permit.ok(), units)
    }

    /// As [`Self::bytes`], but gives up at once where it would have to wait.
    pub fn try_bytes(&self, bytes: u64) -> Option<BytesPermit> {
        self.try_free_bytes(bytes).or_else(|| {
            self.reclaim();
            self.try_free_bytes(bytes)
        })
    }

    /// As [`Self::try_bytes`], but leaves alone what is put by.
    pub(crate) fn try_free_bytes(&self, bytes: u64) -> Option<BytesPermit> {
        let units = self.units(bytes);
        let permit = Arc::clone(&self.0.bytes).try_acquire_many_owned(units).ok()?;
        Some(self.grant(Some(permit), units))
    }

    /// Whether somebody waits for bytes.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.wishes.load(Ordering::Acquire) > 0
    }

    /// Calls on `store` whenever somebody's wish cannot be granted at once.
    pub(crate) fn call_on(&self, store: &Weak<dyn Reclaim>) {
        let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if !stores.iter().any(|known| known.ptr_eq(store)) {
            stores.retain(|known| known.strong_count() > 0);
            stores.push(Weak::clone(store));
        }
    }

    fn reclaim(&self) {
        // Not under the lock: what is given back runs through this budget.
        let stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for store in stores.iter().filter_map(Weak::upgrade) {
            store.reclaim();
        }
    }

    /// The most bytes that were ever held at once.
    pub fn held_bytes_peak(&self) -> u64 {
        self.0.held_bytes_peak.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> u64 {
        self.0.held_bytes.load(Ordering::Relaxed)
    }

    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.0.units)
    }

    fn grant(&self, permit: Option<OwnedSemaphorePermit>, units: u32) -> BytesPermit {
        let bytes = u64::from(units) * UNIT_BYTES;
        let held = self.0.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0.held_bytes_peak.fetch_max(held, Ordering::Relaxed);
        BytesPermit { permit, bytes, budget: self.clone() }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BudgetOptions::default())
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limits", &self.0.limits)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

/// The right to one request in flight; given back when dropped.
#[derive(Debug)]
pub struct RequestPermit {
    // None only if the semaphore were closed, which nothing does.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The right to hold some bytes; given back when dropped.
#[derive(Debug)]
pub struct BytesPermit {
    permit: Option<OwnedSemaphorePermit>,
    bytes: u64,
    budget: Budget,
}

impl BytesPermit {
    /// Bytes that may be held: what was asked for, rounded up to whole units.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Joins `other` to this permit, where both are of one budget; else `other` is given back.
    pub(crate) fn merge(&mut self, mut other: Self) {
        if !self.is_of_one_budget_with(&other) {
            return;
        }
        if let (Some(mine), Some(theirs)) = (self.permit.as_mut(), other.permit.take()) {
            mine.merge(theirs);
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }

    pub(crate) fn is_of_one_budget_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.budget.0, &other.budget.0)
    }

    /// The budget that it is of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Gives back all but what `keep_bytes` need.
    pub fn shrink(&mut self, keep_bytes: u64) {
        let units = keep_bytes.div_ceil(UNIT_BYTES).min(self.bytes / UNIT_BYTES);
        let surplus = usize::try_from(self.bytes / UNIT_BYTES - units).unwrap_or(0);
        if let Some(given) = self.permit.as_mut().and_then(|permit| permit.split(surplus)) {
            let given_bytes = surplus as u64 * UNIT_BYTES;
            self.bytes -= given_bytes;
            // Before somebody else can take them: the count never passes the limit.
            self.budget.0.held_bytes.fetch_sub(given_bytes, Ordering::Relaxed);
            drop(given);
        }
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        self.budget.0.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_are_returned_and_the_peak_is_kept() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        let mut first = budget.bytes(512 << 10).await;
        let second = budget.bytes(512 << 10).await;
        assert!(budget.try_bytes(1).is_none());
        drop(second);
        assert_eq!(budget.held_bytes(), 512 << 10);
        first.shrink(4096);
        assert_eq!((first.bytes(), budget.held_bytes()), (4096, 4096));
        drop(first);
        assert_eq!((budget.held_bytes(), budget.held_bytes_peak()), (0, 1 << 20));
    }

    #[tokio::test]
    async fn a_wish_beyond_the_budget_gets_all_of_it() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        assert_eq!(budget.bytes(u64::MAX).await.bytes(), 1 << 20);
    }

    #[tokio::test]
    async fn merged_permits_count_once() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        let mut one = budget.bytes(8192).await;
        one.merge(budget.bytes(8192).await);
        assert_eq!((one.bytes(), budget.held_bytes()), (16384, 16384));
        drop(one);
        assert_eq!(budget.held_bytes(), 0);
        assert!(budget.try_bytes(1 << 20).is_some());
    }

    #[tokio::test]
    async fn the_last_request_waits_until_another_ends() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 });
        let held = budget.request().await;
        let mut waiting = Box::pin(budget.request());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(held);
        assert!(futures_util::poll!(&mut waiting).is_ready());
    }
}
