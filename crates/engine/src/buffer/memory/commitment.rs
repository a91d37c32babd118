//! Which part of a buffer's memory is committed, and which permits pay for it.
//!
//! Memory is counted in granules: huge pages of 2 MiB where the system is asked for them, 64 KiB
//! elsewhere. A granule counts from the first reservation that touches it. A hint alone neither
//! counts nor touches a page.

use std::ops::Range;

use tidegate_core::extents::Extents;

use super::Bytes;
use crate::budget::{Budget, BytesPermit};
use crate::buffer::error::BufferError;
use crate::buffer::options::{Backing, ShardBufferOptions};
use crate::buffer::pool::BufferPool;
use crate::buffer::sync::{Mutex, lock};

/// Small enough that many small blobs cost little more than their bytes. Large enough that the
/// table of granules stays small.
const GRANULE_BYTES: u64 = 64 << 10;

/// A buffer with a hint below this starts with small pages, and uses huge pages from this position
/// on. By then a huge page that is not full is a small part of the whole. Without a hint, a buffer
/// uses huge pages from the start: touching small ones costs three times as much, and a small blob
/// wastes at most one huge page.
const HUGE_FROM_BYTES: u64 = 2 << 20;

/// Recyclable memory reserves at least this much address space, so that a later buffer with a
/// larger limit can reuse it. It equals the default limit of a buffer.
const RECYCLABLE_BYTES_MIN: u64 = 64 << 30;

/// The empty range of huge pages: every page is small.
const SMALL_PAGES: Range<u64> = u64::MAX..u64::MAX;

/// The unit of the budget, and at least the size of a page.
const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct Commitment {
    ledger: Mutex<Ledger>,
    budget: Option<Budget>,
    pool: Option<BufferPool>,
    // The range in which the system is asked for huge pages.
    huge: Range<u64>,
    limit_bytes: u64,
}

#[derive(Debug, Default)]
struct Ledger {
    granules: Extents,
    // The granules of these that are known to have been touched.
    touched: Extents,
    permits: Vec<BytesPermit>,
    // Kept for the buffer's lifetime, even if memory is released: the caller waited for all of it
    // at once.
    granted_bytes: u64,
    // The budget is no longer charged: another owner accounts for the bytes.
    detached: bool,
}

/// The memory that a pool keeps between two buffers.
#[derive(Debug)]
pub(in crate::buffer) struct Region {
    #[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
    pub(in crate::buffer) mapping: super::mapping::Mapping,
    pub(in crate::buffer) huge_from: u64,
    pub(in crate::buffer) granules: Extents,
    pub(in crate::buffer) permits: Vec<BytesPermit>,
}

impl Ledger {
    /// Releases permits that pay for nothing any more, but keeps at least the bytes granted
    /// beforehand.
    fn give_back(&mut self) {
        let mut keep = self.granules.total().max(self.granted_bytes);
        self.permits.retain_mut(|permit| {
            permit.shrink(keep);
            keep = keep.saturating_sub(permit.bytes());
            permit.bytes() > 0
        });
    }
}

impl Commitment {
    /// The memory of a new buffer, from the pool or from the system, and its accounting.
    pub(super) fn begin(options: ShardBufferOptions) -> Result<(Bytes, Self), BufferError> {
        let ShardBufferOptions { len_hint, limit_bytes, budget, granted, pool, backing, .. } =
            options;
        let hint = len_hint.unwrap_or(HUGE_FROM_BYTES.min(limit_bytes));
        if hint > limit_bytes {
            return Err(BufferError::HintBeyondLimit { len_hint: hint, limit_bytes });
        }
        if isize::try_from(hint).is_err() {
            return Err(BufferError::Overflow { offset: 0, len: hint });
        }
        let budget = budget.or_else(|| granted.as_ref().map(|permit| permit.budget().clone()));
        let permits: Vec<_> = granted.into_iter().collect();
        let granted_bytes = paid(&permits);
        let mut ledger = Ledger { permits, granted_bytes, ..Ledger::default() };
        let is_charged = budget.is_some();
        let (bytes, huge) =
            obtain(hint, limit_bytes, backing, pool.as_ref(), is_charged, &mut ledger)?;
        let books = Self { ledger: Mutex::new(ledger), budget, pool, huge, limit_bytes };
        Ok((bytes, books))
    }

    pub(super) fn bytes(&self) -> u64 {
        lock(&self.ledger).granules.total()
    }

    #[cfg_attr(
        all(any(not(target_os = "linux"), miri), not(tidegate_loom)),
        expect(irrefutable_let_patterns, reason = "there is one kind of memory")
    )]
    pub(super) fn commit(&self, range: &Range<u64>, bytes: &Bytes) -> Result<(), BufferError> {
        let mut ledger = lock(&self.ledger);
        let whole = self.granules(range);
        if ledger.granules.contains(&whole) {
            self.touch_ends(&mut ledger, range, bytes);
            return Ok(());
        }
        let new: u64 = ledger.granules.gaps(whole.clone()).map(|gap| gap.end - gap.start).sum();
        let needed = ledger.granules.total() + new;
        self.pay(&mut ledger, needed)?;
        #[cfg(not(tidegate_loom))]
        if let Bytes::Segments(segments) = bytes {
            segments.commit(range.start, range.end).map_err(|bytes| {
                ledger.give_back();
                BufferError::OutOfMemory { bytes }
            })?;
        }
        ledger.granules.insert(whole);
        self.touch_ends(&mut ledger, range, bytes);
        Ok(())
    }

    /// Touches the huge pages that a range covers only in part, before its writer does.
    ///
    /// Two writers that first touch one huge page at the same time would each have the system clear
    /// a page, and one of the two is thrown away. That costs more than all of their copying. Here,
    /// the second reservation waits for the first. The page would have been cleared as a whole by
    /// its first byte anyway.
    fn touch_ends(&self, ledger: &mut Ledger, range: &Range<u64>, bytes: &Bytes) {
        #[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
        if let Bytes::Reserved(mapping) = bytes {
            for at in [range.start, range.end.saturating_sub(1)] {
                let page = self.granules(&(at..at.saturating_add(1)));
                let is_whole = range.start <= page.start && page.end <= range.end;
                if !is_whole && self.huge.contains(&at) && !ledger.touched.contains(&page) {
                    mapping.populate(page.start, page.end);
                    ledger.touched.insert(page);
                }
            }
        }
        #[cfg(any(not(target_os = "linux"), miri, tidegate_loom))]
        let _ = (ledger, range, bytes);
    }

    /// Takes from the budget the bytes that are missing to pay for `needed`.
    fn pay(&self, ledger: &mut Ledger, needed: u64) -> Result<(), BufferError> {
        let Some(budget) = self.budget.as_ref().filter(|_| !ledger.detached) else { return Ok(()) };
        let lacking = needed.saturating_sub(paid(&ledger.permits));
        if lacking == 0 {
            return Ok(());
        }
        add(&mut ledger.permits, take(budget, lacking)?);
        Ok(())
    }

    pub(super) fn pay_for_copy(&self, len: u64) -> Result<Option<BytesPermit>, BufferError> {
        let detached = lock(&self.ledger).detached;
        self.budget.as_ref().filter(|_| !detached).map(|budget| take(budget, len)).transpose()
    }

    pub(super) fn uncommit(
        &self,
        range: &Range<u64>,
        bytes: &Bytes,
        in_use: impl Fn(Range<u64>) -> bool,
    ) {
        #[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
        if let Bytes::Reserved(mapping) = bytes {
            let mut free = self.granules(range);
            if in_use(free.start..range.start) {
                free.start = self.granules(&(range.start..range.start + 1)).end;
            }
            if in_use(range.end..free.end) {
                free.end = self.granules(&(range.end..range.end)).start;
            }
            if free.start >= free.end {
                return;
            }
            let mut ledger = lock(&self.ledger);
            mapping.decommit(free.start, free.end);
            ledger.granules.remove(free.clone());
            ledger.touched.remove(free);
            ledger.give_back();
        }
        // Segments stay allocated, so they stay charged.
        #[cfg(any(not(target_os = "linux"), miri, tidegate_loom))]
        let _ = (range, bytes, in_use);
    }

    pub(super) fn detach(&self) {
        let mut ledger = lock(&self.ledger);
        ledger.detached = true;
        ledger.permits.clear();
    }

    /// The granules that a range touches. The last one ends at the limit, unless it is a huge page:
    /// those are committed as a whole.
    fn granules(&self, range: &Range<u64>) -> Range<u64> {
        let last = range.end.saturating_sub(1).max(range.start);
        let start = range.start - range.start % self.granule_bytes(range.start);
        let bytes = self.granule_bytes(last);
        let end = (last - last % bytes).saturating_add(bytes);
        let limit = self.limit_bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        start..if self.huge.contains(&last) { end } else { end.min(limit) }
    }

    fn granule_bytes(&self, at: u64) -> u64 {
        if self.huge.contains(&at) { HUGE_FROM_BYTES } else { GRANULE_BYTES }
    }
}

/// The memory that a blob of `len` bytes commits in a recyclable buffer.
pub(crate) fn committed_bytes(len: u64) -> u64 {
    let granule = if len < HUGE_FROM_BYTES { GRANULE_BYTES } else { HUGE_FROM_BYTES };
    len.checked_next_multiple_of(granule).unwrap_or(u64::MAX)
}

/// All of `bytes`, or nothing. Without the check, a request beyond the whole budget would be
/// granted in part.
fn take(budget: &Budget, bytes: u64) -> Result<BytesPermit, BufferError> {
    let permit = (bytes <= budget.limits().bytes).then(|| budget.try_bytes(bytes)).flatten();
    permit.ok_or(BufferError::OverBudget { wanted_bytes: bytes })
}

fn paid(permits: &[BytesPermit]) -> u64 {
    permits.iter().map(BytesPermit::bytes).sum()
}

fn add(permits: &mut Vec<BytesPermit>, permit: BytesPermit) {
    match permits.last_mut() {
        Some(last) if last.is_of_one_budget_with(&permit) => last.merge(permit),
        _ => permits.push(permit),
    }
}

#[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
fn obtain(
    hint: u64,
    limit_bytes: u64,
    backing: Backing,
    pool: Option<&BufferPool>,
    is_charged: bool,
    ledger: &mut Ledger,
) -> Result<(Bytes, Range<u64>), BufferError> {
    use super::mapping::Mapping;
    let segments =
        || (Bytes::Segments(super::segments::Segments::new(hint, limit_bytes)), SMALL_PAGES);
    if backing == Backing::Segments {
        return Ok(segments());
    }
    let from = if hint < HUGE_FROM_BYTES { HUGE_FROM_BYTES } else { 0 };
    let region = pool.and_then(|pool| pool.take(from, hint, limit_bytes));
    // A region left by a buffer without a budget is not paid for.
    let is_paid = |region: &Region| paid(&region.permits) >= region.granules.total();
    if let Some(region) = region.filter(|region| !is_charged || is_paid(region)) {
        // The region has its own permits, so the permits granted for the same bytes are
        // released.
        let expected = 0..committed_bytes(hint);
        let missing = region.granules.gaps(expected.clone()).map(|gap| gap.end - gap.start);
        let mut there = expected.end - missing.sum::<u64>();
        for permit in &mut ledger.permits {
            let before = permit.bytes();
            permit.shrink(before.saturating_sub(there));
            there -= before - permit.bytes();
        }
        ledger.permits.retain(|permit| permit.bytes() > 0);
        ledger.touched = region.granules.clone();
        ledger.granules = region.granules;
        for permit in region.permits {
            add(&mut ledger.permits, permit);
        }
        return Ok((Bytes::Reserved(region.mapping), from..u64::MAX));
    }
    let recyclable = pool.and_then(|_| {
        let huge = from..u64::MAX;
        let mapping = Mapping::reserve(limit_bytes.max(RECYCLABLE_BYTES_MIN), &huge)?;
        Some((mapping, huge))
    });
    // Also taken if the recyclable reservation failed because address space is scarce.
    let reserved = recyclable.or_else(|| {
        // A huge page that reaches beyond the limit would be less than half used, on average.
        let huge = from..limit_bytes - limit_bytes % HUGE_FROM_BYTES;
        Mapping::reserve(limit_bytes, &huge).map(|mapping| (mapping, huge))
    });
    match reserved {
        Some((mapping, huge)) => Ok((Bytes::Reserved(mapping), huge)),
        None if backing == Backing::Reserved => {
            Err(BufferError::OutOfMemory { bytes: limit_bytes })
        }
        None => {
            tracing::debug!(limit_bytes, "no address space can be reserved: segments instead");
            Ok(segments())
        }
    }
}

#[cfg(all(any(not(target_os = "linux"), miri), not(tidegate_loom)))]
fn obtain(
    hint: u64,
    limit_bytes: u64,
    backing: Backing,
    _pool: Option<&BufferPool>,
    _is_charged: bool,
    _ledger: &mut Ledger,
) -> Result<(Bytes, Range<u64>), BufferError> {
    if backing == Backing::Reserved {
        return Err(BufferError::OutOfMemory { bytes: limit_bytes });
    }
    Ok((Bytes::Segments(super::segments::Segments::new(hint, limit_bytes)), SMALL_PAGES))
}

#[cfg(tidegate_loom)]
fn obtain(
    _hint: u64,
    limit_bytes: u64,
    _backing: Backing,
    _pool: Option<&BufferPool>,
    _is_charged: bool,
    _ledger: &mut Ledger,
) -> Result<(Bytes, Range<u64>), BufferError> {
    Ok((Bytes::Model(super::model::Cells::new(limit_bytes)), SMALL_PAGES))
}

impl super::Memory {
    /// Returns recyclable memory to its pool, with the permits that pay for it.
    #[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
    fn recycle(&mut self) {
        let books = &mut self.commitment;
        let Some(pool) = books.pool.take() else { return };
        let gone = Bytes::Segments(super::segments::Segments::new(0, 0));
        let Bytes::Reserved(mapping) = std::mem::replace(&mut self.bytes, gone) else { return };
        let ledger = std::mem::take(&mut *lock(&books.ledger));
        let mut region = Region {
            mapping,
            huge_from: books.huge.start,
            granules: ledger.granules,
            permits: ledger.permits,
        };
        if let Some(budget) = &books.budget {
            let lacking = region.granules.total().saturating_sub(paid(&region.permits));
            if lacking > 0 {
                match budget.try_free_bytes(lacking).filter(|permit| permit.bytes() >= lacking) {
                    Some(permit) => add(&mut region.permits, permit),
                    // The budget has too few free bytes: the memory is unmapped instead of kept.
                    None => return,
                }
            }
        }
        pool.put(region);
    }
}

impl Drop for super::Memory {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
        self.recycle();
    }
}
