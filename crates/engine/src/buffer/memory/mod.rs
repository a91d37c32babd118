//! The unsafe core: the bytes of one buffer, and the two rights to touch them.
//!
//! A byte is in one of three states, and passes through them in this order only:
//!
//! | state | who may touch it | how that is known |
//! |---|---|---|
//! | free | nobody | no [`Fill`] covers it, and it is not published |
//! | reserved | one [`Fill`], to write | fills never overlap each other or what is published: the table of reservations, under its lock, makes one only for a range that is free |
//! | published | any number of [`Slice`]s, to read | its writer moved the slot's `published` position past it with release, and the reader saw that with acquire (or through the lock that the writer took to retire) |
//!
//! A published byte never changes while anybody else can see it: overwriting takes
//! `&mut Memory`, which [`Arc::get_mut`] gives only when every fill and every slice is gone.
//!
//! Nothing here blocks, and nothing here is reached with a range that was not committed first;
//! should it be all the same, it finds no memory there and touches none.

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

    /// Pays for a range and makes it usable. Every range is committed before a [`Fill`] of it is
    /// made, under the lock that serialises reservations.
    pub(super) fn commit(&self, range: &Range<u64>) -> Result<(), BufferError> {
        self.commitment.commit(range, &self.bytes)
    }

    /// Gives back what a range that was reserved and never written took; `in_use` tells whether
    /// any byte of a range is reserved or published.
    pub(super) fn uncommit(&self, range: &Range<u64>, in_use: impl Fn(Range<u64>) -> bool) {
        self.commitment.uncommit(range, &self.bytes, in_use);
    }

    /// Pays for a copy of `len` bytes, where there is a budget.
    pub(super) fn pay_for_copy(&self, len: u64) -> Result<Option<BytesPermit>, BufferError> {
        self.commitment.pay_for_copy(len)
    }

    /// Lets go of the budget: the bytes are somebody else's to account for from now on.
    pub(super) fn detach(&self) {
        self.commitment.detach();
    }

    /// Replaces bytes; returns how many it could. Safe, as nobody else can see any of them.
    pub(super) fn overwrite(&mut self, at: u64, data: &[u8]) -> usize {
        // SAFETY: `&mut` proves that there is neither a fill nor a slice.
        #[expect(unsafe_code, reason = "shares the copying with those who prove it otherwise")]
        unsafe {
            self.copy_in(at, data)
        }
    }
}

#[cfg(not(tidegate_loom))]
impl Memory {
    /// The run from `start` to `end`, as far as it lies in one piece.
    fn run(&self, start: u64, end: u64) -> std::ptr::NonNull<[u8]> {
        match &self.bytes {
            #[cfg(all(target_os = "linux", not(miri)))]
            Bytes::Reserved(mapping) => mapping.run(start, end),
            Bytes::Segments(segments) => segments.run(start, end),
        }
    }

    /// Writes bytes where they belong; returns how many it could.
    ///
    /// # Safety
    ///
    /// Nobody else may touch any of these bytes.
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
            // SAFETY: the run is memory of ours of at least `count` bytes, which by this
            // function's contract nobody else touches; `data` is borrowed and thus elsewhere.
            unsafe { self.copy_run(run.cast::<u8>().as_ptr(), from) };
            done += count;
        }
        done
    }

    /// # Safety
    ///
    /// `target` must be valid for writes of `data.len()` bytes, none of which are in `data`, and
    /// which nobody else touches.
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

    /// The bytes from `start` to `end`, as far as they lie in one piece.
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
