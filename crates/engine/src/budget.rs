//! The process-wide limit on requests in flight and on bytes held in memory.
//!
//! A process makes one [`Budget`] and passes it to every transfer. Sending a request takes a
//! [`RequestPermit`]. Holding bytes that are not passed on yet takes a [`BytesPermit`].
//!
//! # Fairness
//!
//! Each blob has its own [`share`](Budget::share). Free units go to the waiting share that holds
//! least. A large blob with hundreds of requests to send therefore delays a small one only until
//! the next request ends. Within a share, waiters are served in order of arrival. Clones belong to
//! the same share. `gate` explains the order, and why no waiter starves.
//!
//! # Why no deadlock
//!
//! All permits are taken in one order: bytes before requests. A holder of either never waits for
//! more of the same kind before it releases its own:
//! - A shard or chunk takes its bytes, then its request.
//! - A blob that needs all its bytes at once takes them in one acquire.
//! - A batch of several chunks in one request takes the bytes of all of them in one acquire.
//! - Transfers that deliver in order take their bytes in that order (see `sink` for the argument).
//!
//! So the holder of a request always ends it, releases it, and then releases its bytes, whatever
//! other transfers wait for. Every wait is for a permit that will be released. The order of shares
//! decides only which waiter gets it first. The first waiter of a share is not overtaken for ever
//! (see `gate`). The waiters behind it belong to the same blob, in the order in which the blob made
//! them. So shares change neither half of the argument.
//!
//! # Lists of chunks
//!
//! A transfer holds its list of chunks until it ends, and waits for bytes meanwhile. If lists were
//! charged to the bytes, two transfers could wait for each other. So lists have a limit of their
//! own, a quarter of the bytes, and no transfer waits for it (`Budget::try_list`).

mod gate;
#[cfg(all(test, tidegate_loom))]
mod interleavings;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gate::{Gate, Permit, ShareId};

/// Bytes are counted in units of this size, so that any limit fits the 32 bits of a gate.
const UNIT_BYTES: u64 = 4096;

/// The units that lists may always take: 16 MiB, which is 43,690 chunks of 384 bytes each.
const LISTS_UNITS_MIN: u32 = (16 << 20) / 4096;

/// Lists may take the bytes divided by this, if that is more than `LISTS_UNITS_MIN`.
const LISTS_SHARE: u32 = 4;

/// The two limits of a [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetOptions {
    /// Requests in flight, over all blobs. The default of 64 fills a 50 Gbit/s link if each
    /// connection is limited to 100 MiB/s. Object stores accept that many from one client without
    /// throttling.
    pub requests: u32,
    /// Bytes held in memory, over all blobs; 256 MiB by default. Lists of chunks may take a quarter
    /// of that in addition, and at least 16 MiB.
    pub bytes: u64,
}

impl Default for BudgetOptions {
    fn default() -> Self {
        Self { requests: 64, bytes: 256 << 20 }
    }
}

/// A handle on the process-wide budget, for one blob. Clones are for the same blob. [`Self::share`]
/// returns a handle for another blob.
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
    // Waiting `bytes` calls.
    wishes: AtomicU64,
    stores: Mutex<Vec<Weak<dyn Reclaim>>>,
}

/// A cache that holds bytes only to be faster next time, and releases them when a transfer needs
/// them.
pub(crate) trait Reclaim: Send + Sync {
    /// Releases all of them at once.
    fn reclaim(&self);
}

/// Counts one waiting `bytes` call until it is dropped.
struct Wish<'a>(&'a Inner);

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.0.wishes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Budget {
    /// A budget with these limits. Each limit is raised to at least one request and one page.
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

    /// A handle for another blob, with its own share of the same limits. A share that holds nothing
    /// costs nothing.
    #[must_use]
    pub fn share(&self) -> Self {
        let share = ShareId(self.inner.shares.fetch_add(1, Ordering::Relaxed));
        Self { inner: Arc::clone(&self.inner), share }
    }

    /// The limits in force, after rounding.
    pub fn limits(&self) -> BudgetOptions {
        self.inner.limits
    }

    /// Waits until one more request may be in flight. Cancel-safe.
    pub async fn request(&self) -> RequestPermit {
        RequestPermit { _permit: self.inner.requests.acquire(self.share, 1).await }
    }

    /// Waits until two more requests may be in flight, and takes both at once. A caller that held
    /// one while it waited for the other could wait for ever. `None` if the limit is one.
    /// Cancel-safe.
    pub async fn request_pair(&self) -> Option<(RequestPermit, RequestPermit)> {
        if self.inner.limits.requests < 2 {
            return None;
        }
        let mut both = self.inner.requests.acquire(self.share, 2).await;
        let other = both.split(1);
        Some((RequestPermit { _permit: both }, RequestPermit { _permit: other }))
    }

    /// Waits until `bytes` more may be held. A request beyond the whole budget gets the whole
    /// budget: it waits for all other holders, but not for ever. Cancel-safe.
    pub async fn bytes(&self, bytes: u64) -> BytesPermit {
        if let Some(permit) = self.try_bytes(bytes) {
            return permit;
        }
        let units = self.units(bytes);
        self.inner.wishes.fetch_add(1, Ordering::AcqRel);
        let wish = Wish(&self.inner);
        // Reclaims again now that the wish is counted: from here on, pools keep no bytes
        // (`is_wanted`).
        self.reclaim();
        let permit = self.inner.bytes.acquire(self.share, units).await;
        drop(wish);
        self.grant(permit, units)
    }

    /// As [`Self::bytes`], but returns `None` at once if it would have to wait.
    pub fn try_bytes(&self, bytes: u64) -> Option<BytesPermit> {
        self.try_free_bytes(bytes).or_else(|| {
            self.reclaim();
            self.try_free_bytes(bytes)
        })
    }

    /// The right to hold a list of `bytes` in memory, if there is room now.
    pub(crate) fn try_list(&self, bytes: u64) -> Option<ListPermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        let permit = self.inner.lists.try_acquire(self.share, units)?;
        Some(ListPermit { _permit: permit })
    }

    /// Bytes that all lists together may take.
    pub(crate) fn lists_bytes(&self) -> u64 {
        u64::from(lists_units(self.inner.units)) * UNIT_BYTES
    }

    /// As [`Self::try_bytes`], but does not reclaim the bytes that pools keep.
    pub(crate) fn try_free_bytes(&self, bytes: u64) -> Option<BytesPermit> {
        let units = self.units(bytes);
        let permit = self.inner.bytes.try_acquire(self.share, units)?;
        Some(self.grant(permit, units))
    }

    /// Whether a transfer waits for bytes.
    pub(crate) fn is_wanted(&self) -> bool {
        self.inner.wishes.load(Ordering::Acquire) > 0
    }

    /// Registers `store`: it must release its bytes when a transfer cannot get bytes at once.
    pub(crate) fn call_on(&self, store: &Weak<dyn Reclaim>) {
        let mut stores = self.inner.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if !stores.iter().any(|known| known.ptr_eq(store)) {
            stores.retain(|known| known.strong_count() > 0);
            stores.push(Weak::clone(store));
        }
    }

    fn reclaim(&self) {
        // Not under the lock: the released permits come back to this budget.
        let stores = self.inner.stores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for store in stores.iter().filter_map(Weak::upgrade) {
            store.reclaim();
        }
    }

    /// The most bytes ever held at once.
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

/// The right to hold a list; released when dropped.
#[derive(Debug)]
pub(crate) struct ListPermit {
    _permit: Permit,
}

/// The right to one request in flight; released when dropped.
#[derive(Debug)]
pub struct RequestPermit {
    _permit: Permit,
}

/// The right to hold some bytes; released when dropped.
#[derive(Debug)]
pub struct BytesPermit {
    permit: Permit,
    bytes: u64,
    budget: Budget,
}

impl BytesPermit {
    /// Bytes that may be held: the requested bytes, rounded up to whole units.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Merges `other` into this permit if both belong to one budget; otherwise releases `other`.
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

    /// The budget that the permit belongs to.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Releases the units that `keep_bytes` do not need.
    pub fn shrink(&mut self, keep_bytes: u64) {
        let units = keep_bytes.div_ceil(UNIT_BYTES).min(self.bytes / UNIT_BYTES);
        // At most the units of this permit, which fit 32 bits.
        let surplus = u32::try_from(self.bytes / UNIT_BYTES - units).unwrap_or(0);
        let given_bytes = u64::from(surplus) * UNIT_BYTES;
        self.bytes -= given_bytes;
        // Before another transfer can take them, so that the count never passes the limit.
        self.budget.inner.held_bytes.fetch_sub(given_bytes, Ordering::Relaxed);
        drop(self.permit.split(surplus));
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        self.budget.inner.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
