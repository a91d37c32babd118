//! One run of reserved address space. The system commits its pages as they are first touched.
//!
//! Reserving takes no memory. The mapping is private, anonymous and without a swap reservation, so
//! a limit of many times the machine's memory is fine. Where huge pages help, the system is advised
//! to use them. It may ignore the advice, and correctness does not depend on it.

use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page on the systems that we know. On others it is only a rounding.
pub(crate) const HUGE_BYTES: u64 = 2 << 20;

/// A mapping, aligned to huge pages.
#[derive(Debug)]
pub(crate) struct Mapping {
    // The whole mapping, as passed to `munmap`.
    mapped: NonNull<u8>,
    mapped_len: usize,
    // The aligned run within it.
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that belongs to no thread. The holders of pointers into it
// (fills and slices) ensure that their accesses do not conflict.
#[expect(unsafe_code, reason = "raw pointers are not Send by themselves")]
unsafe impl Send for Mapping {}

// SAFETY: as above; a shared `Mapping` hands out addresses and touches nothing itself.
#[expect(unsafe_code, reason = "raw pointers are not Sync by themselves")]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes. Within `wanted_huge`, the system is advised to use huge pages. `None`
    /// if the system refuses.
    pub(crate) fn reserve(len: u64, wanted_huge: &Range<u64>) -> Option<Self> {
        let huge = usize::try_from(HUGE_BYTES).ok()?;
        let len =
            usize::try_from(len.checked_next_multiple_of(HUGE_BYTES)?.max(HUGE_BYTES)).ok()?;
        let mapped_len = len.checked_add(huge).filter(|len| isize::try_from(*len).is_ok())?;
        // SAFETY: a new anonymous mapping at an address of the system's choice touches no memory
        // that is in use.
        #[expect(unsafe_code, reason = "the system call is unsafe in general")]
        let address = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                mapped_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let mapped = NonNull::new(address.ok()?.cast::<u8>())?;
        let skip = mapped.addr().get().next_multiple_of(huge) - mapped.addr().get();
        // SAFETY: `skip` is below the size of a huge page, and the mapping is that much longer than
        // `len`.
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        let base = unsafe { mapped.add(skip) };
        let mapping = Self { mapped, mapped_len, base, len };
        if wanted_huge.start > 0 {
            // Some systems use huge pages without advice. The first touch would then commit more
            // than is counted.
            mapping.advise(0, wanted_huge.start.min(len as u64), Advice::LinuxNoHugepage);
        }
        let end = wanted_huge.end.min(len as u64);
        if wanted_huge.start < end {
            mapping.advise(wanted_huge.start, end, Advice::LinuxHugepage);
        }
        Some(mapping)
    }

    /// Bytes reserved.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// The run from `start` to `end`, clipped to the mapping.
    pub(crate) fn run(&self, start: u64, end: u64) -> NonNull<[u8]> {
        let clip = |at: u64| usize::try_from(at).map_or(self.len, |at| at.min(self.len));
        let (start, end) = (clip(start), clip(end));
        // SAFETY: `start` is at most the mapping's length.
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        let first = unsafe { self.base.add(start) };
        NonNull::slice_from_raw_parts(first, end.saturating_sub(start))
    }

    /// Returns the pages of a run to the system; they read as zeros afterwards. No fill or slice
    /// may use its bytes. Both ends must be multiples of the page size.
    pub(crate) fn decommit(&self, start: u64, end: u64) {
        self.advise(start, end, Advice::LinuxDontNeed);
    }

    /// Makes the system commit the pages of a run now, not at their first touch. Their content
    /// stays.
    pub(crate) fn populate(&self, start: u64, end: u64) {
        self.advise(start, end, Advice::LinuxPopulateWrite);
    }

    /// Refused advice changes speed only, not behaviour. Pages that the system did not take back
    /// stay committed.
    fn advise(&self, start: u64, end: u64, advice: Advice) {
        let run = self.run(start, end);
        // SAFETY: the run lies within this mapping. Of the advice values that we pass, only
        // `DontNeed` changes content, and no fill or slice uses those bytes (see `decommit`).
        #[expect(unsafe_code, reason = "the system call is unsafe in general")]
        let _ = unsafe { madvise(run.cast().as_ptr(), run.len(), advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `reserve` made, and every holder of a pointer into it
        // keeps it alive.
        #[expect(unsafe_code, reason = "the system call is unsafe in general")]
        let _ = unsafe { munmap(self.mapped.cast().as_ptr(), self.mapped_len) };
    }
}
