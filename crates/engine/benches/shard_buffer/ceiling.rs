//! The limit of memory: the same calls as a plain copy into one map of the process's own, without a
//! buffer, offsets, extents or checks.
//!
//! Each thread fills a share of its own that begins and ends at a huge page. As with a buffer,
//! there is one map. If it is fresh, the calling thread maps and unmaps it within the operation.
//! Maps that each thread makes and unmaps for itself would find their pages in the caches of its
//! own processor. Memory that passes between threads never does.

use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{Advice, MmapMut, MmapRaw};

use crate::case::{Case, Memory};
use crate::crew::{Crew, Job};

/// A huge page of x86-64, and of arm64 with 4 KiB pages. Shares begin and end at one.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The map is kept between operations if the case measures touched memory.
pub(crate) struct Ceiling {
    case: Case,
    source: Arc<[u8]>,
    kept: Mutex<Option<Arc<MmapRaw>>>,
}

impl Ceiling {
    pub(crate) fn new(case: Case, source: Arc<[u8]>) -> Self {
        Self { case, source, kept: Mutex::default() }
    }

    /// One operation.
    pub(crate) fn run(&self, crew: &Crew) -> Result<(), String> {
        let kept = mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let map = match kept {
            Some(map) => map,
            None => Arc::new(self.map()?),
        };
        let jobs = self.shares().map(|share| self.job(Arc::clone(&map), share)).collect();
        crew.run(jobs)?;
        if self.case.memory == Memory::CopyReused {
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(map);
        }
        Ok(())
    }

    /// The blob in as many parts as there are threads, each of whole huge pages.
    fn shares(&self) -> impl Iterator<Item = Range<usize>> {
        let blob = self.case.blob_bytes();
        let share = (blob / self.case.threads).next_multiple_of(HUGE_PAGE_BYTES);
        (0..blob).step_by(share).map(move |start| start..blob.min(start + share))
    }

    fn map(&self) -> Result<MmapRaw, String> {
        let bytes = self.case.blob_bytes();
        let say = |error| format!("mapping {bytes} bytes: {error}");
        // One huge page more, to align the start; the bytes before and behind are never touched.
        let map = MmapMut::map_anon(bytes + HUGE_PAGE_BYTES).map_err(say)?;
        let advice = match self.case.memory {
            Memory::CopyFresh4k => Advice::NoHugePage,
            _ => Advice::HugePage,
        };
        map.advise(advice).map_err(say)?;
        Ok(map.into())
    }

    fn job(&self, map: Arc<MmapRaw>, share: Range<usize>) -> Job {
        let source = Arc::clone(&self.source);
        Box::new(move || {
            let skip = map.as_mut_ptr().addr().wrapping_neg() % HUGE_PAGE_BYTES;
            for start in share.clone().step_by(source.len()) {
                let count = source.len().min(share.end - start);
                // SAFETY: the map is longer than the blob by a huge page, and less than one is
                // skipped; shares do not overlap, so no other thread touches these bytes; and the
                // source is elsewhere.
                #[expect(unsafe_code, reason = "threads share one map without a reference to it")]
                unsafe {
                    copy(&source[..count], map.as_mut_ptr(), skip + start);
                }
            }
            Ok(())
        })
    }
}

/// # Safety
///
/// `target` must be valid for writes from `at` on, for as many bytes as `source` has. No other
/// thread may touch these bytes, and `source` must not overlap them.
#[expect(unsafe_code, reason = "as its one caller says")]
unsafe fn copy(source: &[u8], target: *mut u8, at: usize) {
    // SAFETY: the caller's contract.
    let target = unsafe { target.add(at) };
    // SAFETY: the caller's contract.
    unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len()) };
}
