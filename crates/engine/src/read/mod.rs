//! Reads one blob as a stream, with as many requests as needed.
//!
//! [`ReadChannel`] is the stream. [`BlockingReadChannel`] is the same stream for code without an
//! asynchronous runtime. [`ReadState`] moves a read to another process.
//!
//! | file | idea |
//! |---|---|
//! | `options` | the caller's options |
//! | `channel` | [`ReadChannel`]: its position, and its asynchronous interfaces |
//! | `blocking` | its interface for `std::io` |
//! | `verify` | the running checksum, and the result of verification |
//! | `decode` | gzip |
//! | `state` | a captured read |
//! | `range_stream` | one range with as many requests as needed; downloads of shards and chunks use it, too |
//! | `request`, `live` | one request: up to the head of its response, and its body |
//! | `retrying` | the decision after a failed request: a retry, or the reason why there is none |
//! | `flow` | the minimum speed of a transfer, and its requests before the first byte |
//! | `lookup`, `stat` | facts about a blob |
//! | `parts` | the parts that a composite checksum covers |
//! | `stats` | counters of requests and bytes |
//! | `io_error` | this crate's error as one of `std::io` |

mod blocking;
mod channel;
mod decode;
mod flow;
mod io_error;
mod live;
mod lookup;
mod options;
mod parts;
mod range_stream;
mod request;
mod retrying;
pub(crate) mod stat;
mod state;
mod stats;
mod verify;

pub use blocking::BlockingReadChannel;
pub use channel::ReadChannel;
pub(crate) use flow::{Flow, SLOW_HINT, floor_of};
pub(crate) use lookup::{Facts, Lookup};
pub(crate) use options::ReadOptions;
pub(crate) use parts::{PartsCheck, PartsWanted, md5_of_entity_tag};
pub(crate) use range_stream::{FLAWS_MAX, Known, RangeOptions, RangeStream};
pub(crate) use retrying::{Next, Retrying};
pub use state::ReadState;
pub use stats::{ReadStats, ReadTotals};
pub use verify::{Verification, Verify};
