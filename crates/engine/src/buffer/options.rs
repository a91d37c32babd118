//! The options and the statistics of a [`super::ShardBuffer`].
//!
//! A limit bounds addresses; a budget bounds committed memory. A buffer can have both.

use super::BufferPool;
use crate::budget::{Budget, BytesPermit};

/// The options of a [`super::ShardBuffer`]. The defaults assume one blob of unknown length on a
/// 64-bit machine.
#[derive(Debug)]
pub struct ShardBufferOptions {
    /// The expected length of the blob. A wrong hint costs no memory: pages are committed when a
    /// range is reserved, not before.
    pub len_hint: Option<u64>,
    /// No byte is written at or beyond this position. The limit costs address space only. It is 64
    /// GiB by default; a 64-bit system has thousands of times that.
    pub limit_bytes: u64,
    /// Pays for the committed memory, without waiting: a reservation is refused if the budget has
    /// no room for it. With `None`, nothing is charged, and the limit is the only bound.
    pub budget: Option<Budget>,
    /// Memory that was granted beforehand. It is used up before the budget is charged. A caller
    /// that needs a whole blob's bytes and can wait for them should take them at once and pass them
    /// here.
    pub granted: Option<BytesPermit>,
    /// The pool that provides the memory if it has some, and that receives it at the end.
    pub pool: Option<BufferPool>,
    /// How the memory is obtained.
    pub backing: Backing,
    /// Write past the processor's caches, if the processor can. For blobs that are larger than the
    /// caches and that are not read soon. `docs/benchmarks.md` has the measurements. Off by
    /// default.
    pub bypass_caches: bool,
}

impl Default for ShardBufferOptions {
    fn default() -> Self {
        Self {
            len_hint: None,
            limit_bytes: 64 << 30,
            budget: None,
            granted: None,
            pool: None,
            backing: Backing::default(),
            bypass_caches: false,
        }
    }
}

/// How a buffer's memory is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backing {
    /// [`Self::Reserved`] if the system supports it, else [`Self::Segments`].
    #[default]
    Auto,
    /// One run of address space as long as the limit. The system commits it as it is touched, in
    /// huge pages where they help. Growth costs nothing, and freezing copies nothing.
    Reserved,
    /// Allocations that double in size, for systems that cannot reserve address space. Growth
    /// copies nothing. Freezing copies once if the blob spans several allocations.
    Segments,
}

/// The statistics of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferStats {
    /// Memory set aside for bytes: written, reserved or recycled.
    pub committed_bytes: u64,
    /// How often a thread slept because another thread held the lock to reserve, release or read.
    /// Writing never sleeps: it takes no lock.
    pub lock_waits: u64,
    /// How the memory was obtained; never [`Backing::Auto`].
    pub backing: Backing,
}
