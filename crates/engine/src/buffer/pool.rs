//! Memory that has been touched before, kept for the next buffer.
//!
//! The first touch of a page costs several times as much as copying into it: the system finds a
//! page, clears it, and maps it. A pool keeps the memory of dropped buffers, so the next buffer
//! gets pages that are already touched.
//!
//! Invariants:
//! - The kept memory is bounded (`bytes_max`) and stays charged to the budget that paid for it.
//! - The pool releases its memory when a budget request cannot be granted otherwise, and when no
//!   buffer has taken it for `idle_ms_max`.
//! - The bytes of an earlier blob can never be read. A byte is readable only after it has been
//!   published in the current buffer.

#[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
use std::sync::Weak;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
use std::thread;
use std::time::{Duration, Instant};

use super::memory::Region;
use crate::budget::Reclaim;

/// The options of a [`BufferPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPoolOptions {
    /// The most memory that the pool keeps; 64 MiB by default, a quarter of the default budget.
    pub bytes_max: u64,
    /// Memory that no buffer took for this long is released; 2 s by default. A process that moves
    /// one blob after another reuses memory within milliseconds. A process that has finished should
    /// not appear to hold memory.
    pub idle_ms_max: u64,
}

impl Default for BufferPoolOptions {
    fn default() -> Self {
        Self { bytes_max: 64 << 20, idle_ms_max: 2_000 }
    }
}

/// Keeps touched memory between buffers. Clones share it, and dropping the last clone releases it.
/// See [`super::ShardBufferOptions::pool`].
#[derive(Clone, Debug)]
pub struct BufferPool(Arc<Handle>);

/// The part that the owners hold. The sweeper thread holds only `Inner`, so it does not keep the
/// pool alive.
#[derive(Debug)]
struct Handle(Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.reclaim();
    }
}

#[derive(Debug)]
struct Inner {
    options: BufferPoolOptions,
    stock: Mutex<Stock>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Stock {
    // Oldest first.
    regions: Vec<(Region, Instant)>,
    bytes: u64,
    // A sweeper thread runs. It exists only while the pool keeps memory.
    swept: bool,
}

impl BufferPool {
    /// An empty pool.
    pub fn new(options: BufferPoolOptions) -> Self {
        let stock = Mutex::default();
        Self(Arc::new(Handle(Arc::new(Inner { options, stock, changed: Condvar::new() }))))
    }

    /// Bytes kept now.
    pub fn kept_bytes(&self) -> u64 {
        self.0.0.lock().bytes
    }

    /// Releases all kept memory.
    pub fn clear(&self) {
        self.0.0.reclaim();
    }
}

impl Default for BufferPool {
    fn default() -> Self {
        Self::new(BufferPoolOptions::default())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases idle memory until the pool is empty.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is kept there"))]
    fn sweep(&self) {
        let idle_max = Duration::from_millis(self.options.idle_ms_max);
        let mut stock = self.lock();
        while let Some((_, since)) = stock.regions.first() {
            let idle = since.elapsed();
            if idle >= idle_max {
                let region = stock.remove(0);
                drop(stock);
                drop(region);
                stock = self.lock();
            } else {
                let waited = self.changed.wait_timeout(stock, idle_max.saturating_sub(idle));
                stock = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        stock.swept = false;
    }
}

impl Stock {
    fn remove(&mut self, index: usize) -> Region {
        let (region, _) = self.regions.remove(index);
        self.bytes -= region.granules.total();
        region
    }
}

impl Reclaim for Inner {
    fn reclaim(&self) {
        let regions = {
            let mut stock = self.lock();
            stock.bytes = 0;
            std::mem::take(&mut stock.regions)
        };
        self.changed.notify_all();
        // Unmapped outside the lock.
        drop(regions);
    }
}

#[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
impl BufferPool {
    /// Memory for a buffer that may grow to `limit_bytes`, is expected to reach `hint`, and wants
    /// huge pages at positions from `from` on. Of the regions that are large enough, it takes the
    /// one closest to `hint` in size, so that a small blob does not occupy the memory of a large
    /// one.
    pub(super) fn take(&self, from: u64, hint: u64, limit_bytes: u64) -> Option<Region> {
        let mut stock = self.0.0.lock();
        let fits =
            |region: &Region| region.mapping.len() >= limit_bytes && region.huge_from == from;
        let distance = |region: &Region| region.granules.total().abs_diff(hint);
        let (index, _) = (stock.regions.iter().enumerate())
            .filter(|(_, (region, _))| fits(region))
            .min_by_key(|(_, (region, _))| distance(region))?;
        Some(stock.remove(index))
    }

    /// Keeps memory, unless a transfer waits for the bytes that it is charged for, or the pool is
    /// full.
    pub(super) fn put(&self, region: Region) {
        let inner = &self.0.0;
        let bytes = region.granules.total();
        if bytes == 0 || bytes > inner.options.bytes_max {
            return;
        }
        let store: Weak<Inner> = Arc::downgrade(inner);
        let store: Weak<dyn Reclaim> = store;
        let budgets: Vec<_> = region.permits.iter().map(|permit| permit.budget().clone()).collect();
        for budget in &budgets {
            budget.call_on(&store);
        }
        // Dropped after the lock is released.
        let mut dropped = Vec::new();
        let mut stock = inner.lock();
        while stock.bytes + bytes > inner.options.bytes_max {
            dropped.push(stock.remove(0));
        }
        stock.swept = stock.swept || start_sweeper(inner);
        // A transfer that already waits will not call `reclaim` again. One that is about to wait
        // calls `reclaim`, which takes this lock after us.
        if !stock.swept || budgets.iter().any(crate::budget::Budget::is_wanted) {
            dropped.push(region);
        } else {
            stock.bytes += bytes;
            stock.regions.push((region, Instant::now()));
        }
        drop(stock);
    }
}

#[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
fn start_sweeper(inner: &Arc<Inner>) -> bool {
    let inner = Arc::clone(inner);
    thread::Builder::new().name("tidegate-pool".to_owned()).spawn(move || inner.sweep()).is_ok()
}
