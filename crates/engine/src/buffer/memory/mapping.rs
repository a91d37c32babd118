//! One run of reserved address space, whose pages the system commits as they are first touched.
//!
//! Reserving takes no memory: the mapping is private, anonymous and without a reservation of swap,
//! so that a limit of many times the machine's memory is fine. Where huge pages help, the system is
//! advised to use them; it may not, and nothing depends on it.

use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page on the systems that we know; elsewhere it only rounds.
pub(crate) const HUGE_BYTES: u64 = 2 << 20;

/// A mapping, aligned to huge pages.
#[derive(Debug)]
pub(crate) struct Mapping {
    // What was mapped, and is to be unmapped.
    mapped: NonNull<u8>,
    mapped_len: usize,
    // The aligned run within it.
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that belongs to no thread; who may touch which of its bytes is
// the business of those who hold pointers into it.
#[expect(unsafe_code, reason = "raw pointers are not Send by themselves")]
unsafe impl Send for Mapping {}

// SAFETY: as above; a shared `Mapping` hands out addresses and touches nothing itself.
#[expect(unsafe_code, reason = "raw pointers are not Sync by themselves")]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes; within `wanted_huge`, the system is advised to use huge pages.
    /// `None` where the system refuses.
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
        // SAFETY: `skip` is below the size of a huge page, by which the mapping is longer.
        #[expect(unsafe_code, reason = "pointer arithmetic")]
        let base = unsafe { mapped.add(skip) };
        let mapping = Self { mapped, mapped_len, base, len };
        if wanted_huge.start > 0 {
            // Where the system uses them unasked, the first touch would commit more than is
            // counted.
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

    /// Gives the pages of a run back to the system; it reads as zeros afterwards. Nobody may have
    /// a use for its bytes. Both ends are to be multiples of the size of a page.
    pub(crate) fn decommit(&self, start: u64, end: u64) {
        self.advise(start, end, Advice::LinuxDontNeed);
    }

    /// Has the system commit the pages of a run now, rather than at their first touch. What is in
    /// them stays.
    pub(crate) fn populate(&self, start: u64, end: u64) {
        self.advise(start, end, Advice::LinuxPopulateWrite);
    }

    /// Advice that the system refuses changes how fast things are, not what they do; pages that it
    /// did not take back only stay committed.
    fn advise(&self, start: u64, end: u64, advice: Advice) {
        let run = self.run(start, end);
        // SAFETY: the run lies within this mapping. Of the kinds of advice given, only one changes
        // content, and that is for bytes that nobody has a use for (see `decommit`).
        #[expect(unsafe_code, reason = "the system call is unsafe in general")]
        let _ = unsafe { madvise(run.cast().as_ptr(), run.len(), advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `reserve` made, and whoever holds a pointer into it
        // keeps it alive.
        #[expect(unsafe_code, reason = "the system call is unsafe in general")]
        let _ = unsafe { munmap(self.mapped.cast().as_ptr(), self.mapped_len) };
    }
}
