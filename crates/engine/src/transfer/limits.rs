//! How many bytes a unit, a stream and a target may hold in memory. The limits are the same for
//! shards and chunks.

/// Bytes that are gathered before a file's thread takes them: two of the transport's largest reads.
///
/// Measured: smaller batches cost more calls. Twice this size takes some percent less CPU, but
/// twice the memory with a window of 32.
pub(crate) const BATCH_BYTES: u64 = 512 << 10;

/// Bytes that a unit holds if they are written as they arrive: a batch that is gathered, a batch
/// that is written, and one read of 256 KiB. This is 1.25 MiB: with 32 units, 40 MiB.
pub(crate) const UNIT_BYTES: u64 = 2 * BATCH_BYTES + (256 << 10);

/// Bytes that a stream may hold on its way into an ordered target. A stream is a whole blob, or a
/// chunk that does not fit in memory.
pub(crate) const STREAM_BYTES: u64 = 8 << 20;

/// An ordered target takes at most a quarter of the budget, which leaves room for other blobs. With
/// the default budget of 256 MiB it takes 64 MiB.
pub(crate) const ORDERED_SHARE: u64 = 4;

/// A blob in memory of at least this size is written past the processor's caches. Otherwise it
/// would evict its own beginning, and all other data, before it is read. This is more than the
/// last-level cache of common servers.
pub(crate) const BYPASS_CACHES_FROM_BYTES: u64 = 128 << 20;
