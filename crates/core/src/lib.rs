//! The pure part of Tidegate: ranges, extents, checksums, digests, plans, windows and retries.
//!
//! Nothing here performs I/O, reads a clock or spawns a task. `unsafe` is in two files of vector
//! instructions only (`sha256/avx512.rs`, `chunking/avx512.rs`). State machines take events and the
//! time as arguments and return decisions. So tests can drive them in simulated time and compare
//! them with naive models. All code with I/O is built on top of this crate. This crate depends on
//! nothing else of Tidegate.
//!
//! | module | idea |
//! |---|---|
//! | [`range`] | the bytes that a request asks for, and those that a server says it sent |
//! | [`extents`] | which bytes of a sink have been written |
//! | [`checksum`] | checksums: computed, combined, and read from headers |
//! | [`chunking`] | where a blob is cut into chunks, by its content |
//! | [`digest`] | a blob's name by content: function, hash and length |
//! | [`parts`] | CRCs of pieces that finish in any order, combined into that of the whole |
//! | [`plan`] | how a blob is cut into shards |
//! | [`printable`] | untrusted text, escaped for a terminal |
//! | [`sha256`] | several messages hashed in parallel by one core |
//! | [`retry`] | whether and when an interrupted request is retried |
//! | [`window`] | how many requests of one blob are in flight |
//!
//! # Invariants
//!
//! - No input makes it panic, and no arithmetic on positions overflows: it returns an error
//!   instead.
//! - Positions and lengths are `u64`; ranges are half-open, `start..end`.
//! - Untrusted text in an error is escaped and cut to a bounded length.
//!
//! # Example
//!
//! Two shards that finish in the wrong order are verified as one blob, with no byte read twice:
//!
//! ```
//! use tidegate_core::{Crc, CrcAlgorithm, CrcParts, checksum::headers::parse_goog_hash};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut parts = CrcParts::new(CrcAlgorithm::Crc32c);
//! parts.insert(6, Crc::of(CrcAlgorithm::Crc32c, b"world"))?;
//! parts.insert(0, Crc::of(CrcAlgorithm::Crc32c, b"hello "))?;
//!
//! let whole = parts.whole(11).map(|crc| crc.to_checksum());
//! for stored in parse_goog_hash("crc32c=yZRlqg==") {
//!     assert_eq!(whole, Some(stored?.checksum));
//! }
//! # Ok(())
//! # }
//! ```

pub mod checksum;
pub mod chunking;
pub mod digest;
mod excerpt;
pub mod extents;
pub mod parts;
pub mod plan;
pub mod printable;
pub mod range;
pub mod retry;
pub mod sha256;
pub mod speed;
pub mod window;

pub use checksum::{
    Checksum, ChecksumAlgorithm, ChecksumError, Checksummer, Coverage, Crc, CrcAlgorithm, ETag,
    StoredChecksum,
};
pub use digest::{Digest, DigestError, DigestFunction};
pub use extents::Extents;
pub use parts::{CrcParts, PartsError};
pub use plan::{PlanOptions, ShardPlan, Shards, split_point};
pub use range::{ByteRange, ContentRange, RangeError};
pub use retry::{GiveUpReason, Retry, RetryClass, RetryDecision, RetryPolicy};
pub use speed::{SpeedFloor, SpeedVerdict};
pub use window::{Outcome, Ticket, Window, WindowOptions};
