//! The unsafe core: the bytes of one buffer, and the two rights to touch them.
//!
//! A byte is in one of three states, and passes through them in this order only:
//!
//! | state | access | why it is safe |
//! |---|---|---|
//! | free | none | no [`Fill`] covers it, and it is not published |
//! | reserved | one [`Fill`], which writes | fills overlap neither each other nor a published byte: the table of reservations, under its lock, creates a fill only for a free range |
//! | published | any number of [`Slice`]s, which read | its writer moved the slot's `published` position past it with release, and the reader saw that with acquire (or through the lock that the writer took to retire) |
//!
//! A published byte never changes while another handle can see it. Overwriting takes `&mut Memory`,
//! which [`Arc::get_mut`] returns only after every fill and every slice is dropped.
//!
//! Nothing here blocks. Callers commit a range before they use it. If a caller did not, the lookup
//! finds no memory there and touches none.

mod commitment;
mod fill;
#[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
pub(super) mod mapping;
#[cfg(tidegate_loom)]
mod model;
#[cfg(not(tidegate_loom))]
mod segments;
mod slice;
#[cfg(all(target_arch = "x86_64", not(miri), not(tidegate_loom)))]
mod streaming;

pub(super) use commitment::Region;
pub(crate) use commitment::committed_bytes;
pub(super) use fill::Fill;
pub(super) use slice::Slice;

use std::ops::Range;

use super::error::BufferError;
use super::options::{Backing, ShardBufferOptions};
use crate::budget::BytesPermit;
use commitment::Commitment;

/// The bytes of one buffer.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Bytes,
    limit_bytes: u64,
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri), not(tidegate_loom))),
        expect(dead_code, reason = "caches cannot be bypassed there")
    )]
    bypass_caches: bool,
    commitment: Commitment,
}

#[derive(Debug)]
enum Bytes {
    #[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
    Reserved(mapping::Mapping),
    #[cfg(not(tidegate_loom))]
    Segments(segments::Segments),
    #[cfg(tidegate_loom)]
    Model(model::Cells),
}

impl Memory {
    pub(super) fn new(options: ShardBufferOptions) -> Result<Self, BufferError> {
        let (limit_bytes, bypass_caches) = (options.limit_bytes, options.bypass_caches);
        let (bytes, commitment) = Commitment::begin(options)?;
        Ok(Self { bytes, limit_bytes, bypass_caches, commitment })
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    pub(super) fn committed_bytes(&self) -> u64 {
        self.commitment.bytes()
    }

    pub(super) fn backing(&self) -> Backing {
        match &self.bytes {
            #[cfg(all(target_os = "linux", not(miri), not(tidegate_loom)))]
            Bytes::Reserved(_) => Backing::Reserved,
            #[cfg(not(tidegate_loom))]
            Bytes::Segments(_) => Backing::Segments,
            #[cfg(tidegate_loom)]
            Bytes::Model(_) => Backing::Auto,
        }
    }

    /// Charges for a range and makes it usable. Every range is committed before its [`Fill`] is
    /// created, under the lock that serialises reservations.
    pub(super) fn commit(&self, range: &Range<u64>) -> Result<(), BufferError> {
        self.commitment.commit(range, &self.bytes)
    }

    /// Releases the memory of a range that was reserved and never written. `in_use` returns whether
    /// any byte of a range is reserved or published.
    pub(super) fn uncommit(&self, range: &Range<u64>, in_use: impl Fn(Range<u64>) -> bool) {
        self.commitment.uncommit(range, &self.bytes, in_use);
    }

    /// Charges for a copy of `len` bytes, if there is a budget.
    pub(super) fn pay_for_copy(&self, len: u64) -> Result<Option<BytesPermit>, BufferError> {
        self.commitment.pay_for_copy(len)
    }

    /// Releases the charge on the budget: from now on the caller accounts for the bytes.
    pub(super) fn detach(&self) {
        self.commitment.detach();
    }

    /// Replaces bytes; returns how many were replaced. Safe, because `&mut` excludes every other
    /// access.
    pub(super) fn overwrite(&mut self, at: u64, data: &[u8]) -> usize {
        // SAFETY: `&mut` guarantees that neither a fill nor a slice exists.
        #[expect(unsafe_code, reason = "shares the copying with those who prove it otherwise")]
        unsafe {
            self.copy_in(at, data)
        }
    }
}

#[cfg(not(tidegate_loom))]
impl Memory {
    /// The run from `start` to `end`, up to the end of its contiguous piece.
    fn run(&self, start: u64, end: u64) -> std::ptr::NonNull<[u8]> {
        match &self.bytes {
            #[cfg(all(target_os = "linux", not(miri)))]
            Bytes::Reserved(mapping) => mapping.run(start, end),
            Bytes::Segments(segments) => segments.run(start, end),
        }
    }

    /// Writes `data` at position `at`; returns how many bytes were written.
    ///
    /// # Safety
    ///
    /// No other thread may touch any of these bytes during the call.
    #[expect(unsafe_code, reason = "exclusive access is the caller's to prove")]
    unsafe fn copy_in(&self, at: u64, data: &[u8]) -> usize {
        let end = at.saturating_add(data.len() as u64);
        let mut done = 0;
        while done < data.len() {
            let run = self.run(at + done as u64, end);
            if run.is_empty() {
                break;
            }
            let count = run.len().min(data.len() - done);
            let from = &data[done..done + count];
            // SAFETY: the run is memory of this mapping or segment of at least `count` bytes. By
            // this function's contract no other thread touches it. `data` is borrowed, so it does
            // not overlap.
            unsafe { self.copy_run(run.cast::<u8>().as_ptr(), from) };
            done += count;
        }
        done
    }

    /// # Safety
    ///
    /// `target` must be valid for writes of `data.len()` bytes. They must not overlap `data`, and
    /// no other thread may touch them during the call.
    #[inline]
    #[expect(unsafe_code, reason = "a raw copy")]
    unsafe fn copy_run(&self, target: *mut u8, data: &[u8]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.bypass_caches {
            // SAFETY: the caller's contract is the same.
            return unsafe { streaming::copy(target, data) };
        }
        // SAFETY: the caller's contract is the same.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
    }

    /// The bytes from `start` to `end`, up to the end of their contiguous piece.
    ///
    /// # Safety
    ///
    /// All of them must be published.
    #[expect(unsafe_code, reason = "that they are published is the caller's to prove")]
    unsafe fn bytes(&self, start: u64, end: u64) -> &[u8] {
        // SAFETY: published bytes are initialised, and do not change while `self` is shared.
        unsafe { self.run(start, end).as_ref() }
    }

    fn is_one_run(&self, start: u64, end: u64) -> bool {
        self.run(start, end).len() as u64 == end - start
    }
}
