//! What the caller chooses of a buffer, and what it says of itself.

use super::BufferPool;
use crate::budget::{Budget, BytesPermit};

/// What the caller chooses of a [`super::ShardBuffer`]. The defaults assume one blob of unknown
/// length on a machine of 64 bits.
#[derive(Debug)]
pub struct ShardBufferOptions {
    /// How long the blob will probably be. A wrong hint costs no memory: pages are committed where
    /// a range is reserved, not before.
    pub len_hint: Option<u64>,
    /// No byte is written at or beyond this position. It costs address space only; 64 GiB by
    /// default, which every 64-bit system has thousands of times over.
    pub limit_bytes: u64,
    /// What pays for the memory that is committed, by trying: a reservation that the budget has no
    /// room for is refused. `None` counts nothing; the limit is then the only bound.
    pub budget: Option<Budget>,
    /// Memory that was granted beforehand, used up before the budget is asked. Whoever needs a
    /// whole blob's bytes and can wait for them should take them at once, and give them here.
    pub granted: Option<BytesPermit>,
    /// Where the memory comes from, if it has some, and where it goes at the end.
    pub pool: Option<BufferPool>,
    /// How the memory is had.
    pub backing: Backing,
    /// Write past the processor's caches, where that can be done: for blobs that are larger than
    /// the caches and that nobody reads soon; what was measured is in `docs/benchmarks.md`. Off by
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

/// How a buffer's memory is had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backing {
    /// [`Self::Reserved`] where the system can, else [`Self::Segments`].
    #[default]
    Auto,
    /// One run of address space as long as the limit, committed as it is touched, in huge pages
    /// where they help. Growth does nothing at all, and freezing copies nothing.
    Reserved,
    /// Allocations that double in size, for systems that cannot reserve. Growth copies nothing
    /// either; freezing copies once where the blob lies in more than one of them.
    Segments,
}

/// What a buffer says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferStats {
    /// Memory that is set aside for bytes: written, reserved, or recycled.
    pub committed_bytes: u64,
    /// How often a thread slept because another one was reserving, giving back or reading. Writing
    /// never does: it takes no lock.
    pub lock_waits: u64,
    /// How the memory is had; never [`Backing::Auto`].
    pub backing: Backing,
}
