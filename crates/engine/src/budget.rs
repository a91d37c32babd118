//! The process-wide limit on requests in flight and on bytes held in memory.
//!
//! One [`Budget`] is made per process and handed to every transfer: whatever sends a request takes
//! a [`RequestPermit`], whatever holds bytes that it has not yet handed on takes a
//! [`BytesPermit`].
//!
//! Fairness: each blob has its [`share`](Budget::share). What becomes free goes to the waiting
//! share that holds least, so that a large blob with hundreds of requests to send delays a small
//! one by no more than the request that happens to end next; within a share it is first come,
//! first served. Clones are of the same share. See `gate` for how, and for why nobody starves.
//!
//! Deadlock: everything is taken in one order, bytes before requests, and nobody who holds either
//! waits for more of it before letting go. A shard or chunk takes its bytes, then its request; a
//! blob that needs all its bytes at once takes them at once; transfers that deliver in order take
//! their bytes in that same order (see `sink` for the argument). So whoever holds a request ends
//! it and lets go of it and then of its bytes, whatever else is waited for; every wait is for
//! something that is given back, and the order of shares decides only who is first to have it.
//! A wish at the head of a share is not passed over for ever (see `gate`), and wishes behind it
//! are of the same blob, in the order that the blob made them: shares change neither half of the
//! argument. A blob that sends several chunks in one request takes the bytes of all of them in one
//! wish.
//!
//! A transfer holds its list of chunks until it ends, and waits for bytes meanwhile. If lists were paid
//! from the bytes, two transfers could wait for each other. So lists have a limit of their own, a
//! quarter of the bytes, and nothing waits for it (`Budget::try_list`).

mod gate;
#[cfg(all(test, tidegate_loom))]
mod interleavings;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gate::{Gate, Permit, ShareId};

/// Bytes are counted in units of this many, so that any limit fits a gate's 32 bits.
const UNIT_BYTES: u64 = 4096;

/// Lists may always take so many units, which are 16 MiB: 43,690 chunks of 384 bytes each.
const LISTS_UNITS_MIN: u32 = (16 << 20) / 4096;

/// Lists may take this part of the bytes, where that is more.
const LISTS_SHARE: u32 = 4;

/// The two limits of a [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetOptions {
    /// Requests in flight, over all blobs. The default of 64 fills a 50 Gbit/s link when each
    /// connection is held to 100 MiB/s, and is what object stores accept from one client without
    /// throttling.
    pub requests: u32,
    /// Bytes held in memory, over all blobs; 256 MiB by default. Lists of chunks may take a quarter
    /// as many besides, and at least 16 MiB.
    pub bytes: u64,
}

impl Default for BudgetOptions {
    fn default() -> Self {
        Self { requests: 64, bytes: 256 << 20 }
    }
}

/// A handle on the process-wide budget, for one blob. Clones are for the same blob; [`Self::share`]
/// gives one for another.
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
    share: ShareId,
}

struct Inner {
    requests: Arc<Gate>,
    bytes: Arc<Gate>,
    lists: Arc<Gate>,
    shares: AtomicU64,
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
        let requests = options.requests.max(1);
        let inner = Arc::new(Inner {
            requests: Arc::new(Gate::new(requests)),
            bytes: Arc::new(Gate::new(units)),
            lists: Arc::new(Gate::new(lists_units(units))),
            shares: AtomicU64::new(1),
            units,
            limits: BudgetOptions { requests, bytes: u64::from(units) * UNIT_BYTES },
            held_bytes: AtomicU64::new(0),
            held_bytes_peak: AtomicU64::new(0),
            wishes: AtomicU64::new(0),
            stores: Mutex::default(),
        });
        Self { inner, share: ShareId(0) }
    }

    /// A handle for one more blob, with a share of its own: the same limits, shared fairly. Costs
    /// nothing while it holds nothing.
    #[must_use]
    pub fn share(&self) -> Self {
        let share = ShareId(self.inner.shares.fetch_add(1, Ordering::Relaxed));
        Self { inner: Arc::clone(&self.inner), share }
    }

    /// The limits in force, after rounding.
    pub fn limits(&self) -> BudgetOptions {
        self.inner.limits
    }

    /// Waits for the right to have one more request in flight. Cancel-safe.
    pub async fn request(&self) -> RequestPermit {
        RequestPermit { _permit: self.inner.requests.acquire(self.share, 1).await }
    }

    /// Waits for the right to have two more requests in flight, taken at once: whoever held one
    /// while waiting for another could wait for ever. `None` where the limit is one. Cancel-safe.
    pub async fn request_pair(&self) -> Option<(RequestPermit, RequestPermit)> {
        if self.inner.limits.requests < 2 {
            return None;
        }
        let mut both = self.inner.requests.acquire(self.share, 2).await;
        let other = both.split(1);
        Some((RequestPermit { _permit: both }, RequestPermit { _permit: other }))
    }

    /// Waits for the right to hold `bytes` more; a wish beyond the whole budget gets the whole
    /// budget, so that it waits for everyone else rather than for ever. Cancel-safe.
    pub async fn bytes(&self, bytes: u64) -> BytesPermit {
        if let Some(permit) = self.try_bytes(bytes) {
            return permit;
        }
        let units = self.units(bytes);
        self.inner.wishes.fetch_add(1, Ordering::AcqRel);
        let wish = Wish(&self.inner);
        // Once more with the wish in sight, so that nobody puts bytes by from here on.
        self.reclaim();
        let permit = self.inner.bytes.acquire(self.share, units).await;
        drop(wish);
        self.grant(permit, units)
    }

    /// As [`Self::bytes`], but gives up at once where it would have to wait.
    pub fn try_bytes(&self, bytes: u64) -> Option<BytesPermit> {
        self.try_free_bytes(bytes).or_else(|| {
            self.reclaim();
            self.try_free_bytes(bytes)
        })
    }

    /// The right to hold a list of `bytes` in memory, where there is room for it now.
    pub(crate) fn try_list(&self, bytes: u64) -> Option<ListPermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        let permit = self.inner.lists.try_acquire(self.share, units)?;
        Some(ListPermit { _permit: permit })
    }

    /// Bytes that all lists together may take.
    pub(crate) fn lists_bytes(&self) -> u64 {
        u64::from(lists_units(self.inner.units)) * UNIT_BYTES
    }

    /// As [`Self::try_bytes`], but leaves alone what is put by.
    pub(crate) fn try_free_bytes(&self, bytes: u64) -> Option<BytesPermit> {
        let units = self.units(bytes);
        let permit = self.inner.bytes.try_acquire(self.share, units)?;
        Some(self.grant(permit, units))
    }

    /// Whether somebody waits for bytes.
    pub(crate) fn is_wanted(&self) -> bool {
        self.inner.wishes.load(Ordering::Acquire) > 0
    }

    /// Calls on `store` whenever somebody's wish cannot be granted at once.
    pub(crate) fn call_on(&self, store: &Weak<dyn Reclaim>) {
        let mut stores = self.inner.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if !stores.iter().any(|known| known.ptr_eq(store)) {
            stores.retain(|known| known.strong_count() > 0);
            stores.push(Weak::clone(store));
        }
    }

    fn reclaim(&self) {
        // Not under the lock: what is given back runs through this budget.
        let stores = self.inner.stores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for store in stores.iter().filter_map(Weak::upgrade) {
            store.reclaim();
        }
    }

    /// The most bytes that were ever held at once.
    pub fn held_bytes_peak(&self) -> u64 {
        self.inner.held_bytes_peak.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> u64 {
        self.inner.held_bytes.load(Ordering::Relaxed)
    }

    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.inner.units)
    }

    fn grant(&self, permit: Permit, units: u32) -> BytesPermit {
        let bytes = u64::from(units) * UNIT_BYTES;
        let held = self.inner.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.inner.held_bytes_peak.fetch_max(held, Ordering::Relaxed);
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
            .field("limits", &self.inner.limits)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

fn lists_units(units: u32) -> u32 {
    (units / LISTS_SHARE).max(LISTS_UNITS_MIN)
}

/// The right to hold a list; given back when dropped.
#[derive(Debug)]
pub(crate) struct ListPermit {
    _permit: Permit,
}

/// The right to one request in flight; given back when dropped.
#[derive(Debug)]
pub struct RequestPermit {
    _permit: Permit,
}

/// The right to hold some bytes; given back when dropped.
#[derive(Debug)]
pub struct BytesPermit {
    permit: Permit,
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
        self.bytes += std::mem::take(&mut other.bytes);
        self.permit.merge(other.permit.split(u32::MAX));
    }

    pub(crate) fn is_of_one_budget_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.budget.inner, &other.budget.inner)
    }

    /// The budget that it is of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Gives back all but what `keep_bytes` need.
    pub fn shrink(&mut self, keep_bytes: u64) {
        let units = keep_bytes.div_ceil(UNIT_BYTES).min(self.bytes / UNIT_BYTES);
        // No more than this permit has, which are units of 32 bits.
        let surplus = u32::try_from(self.bytes / UNIT_BYTES - units).unwrap_or(0);
        let given_bytes = u64::from(surplus) * UNIT_BYTES;
        self.bytes -= given_bytes;
        // Before somebody else can take them: the count never passes the limit.
        self.budget.inner.held_bytes.fetch_sub(given_bytes, Ordering::Relaxed);
        drop(self.permit.split(surplus));
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        self.budget.inner.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
