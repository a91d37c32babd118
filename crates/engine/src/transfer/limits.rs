//! What a unit, a stream and a target may hold in memory, of shards and chunks alike.

/// Bytes that are gathered before a file's thread takes them: two of the transport's largest reads.
///
/// Measured: smaller batches cost more calls. Twice this takes some percent less CPU and, with a
/// window of 32, twice the memory.
pub(crate) const BATCH_BYTES: u64 = 512 << 10;

/// What one unit holds that is written as it arrives: a batch that is gathered, one that is written,
/// and a read on its way into them.
pub(crate) const UNIT_BYTES: u64 = 2 * BATCH_BYTES + (256 << 10);

/// What one stream may hold on its way into an ordered target, for a whole blob or a chunk that is
/// too long for memory.
pub(crate) const STREAM_BYTES: u64 = 8 << 20;

/// An ordered target takes at most this part of the budget, which leaves room for other blobs. With
/// the default budget of 256 MiB it takes 64 MiB.
pub(crate) const ORDERED_SHARE: u64 = 4;

/// A blob in memory that is larger than this is written past the caches: it would evict its own
/// beginning, and everything else, before it is read. This is more than the last-level cache of
/// common servers.
pub(crate) const BYPASS_CACHES_FROM_BYTES: u64 = 128 << 20;
