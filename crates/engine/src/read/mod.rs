//! Reads one blob as a stream, through as many requests as it takes.
//!
//! [`ReadChannel`] is the stream; [`BlockingReadChannel`] is the same for code without a runtime;
//! [`ReadState`] moves a read to another process.
//!
//! | file | idea |
//! |---|---|
//! | `options` | the caller's options |
//! | `channel` | [`ReadChannel`]: its position, and its asynchronous interfaces |
//! | `blocking` | its interface for `std::io` |
//! | `verify` | the running checksum, and the result of verification |
//! | `decode` | gzip |
//! | `state` | a captured read |
//! | `range_stream` | one range through as many requests as it takes; downloads of shards and chunks read through it, too |
//! | `request`, `live` | one request: until the head of its response, and through the body |
//! | `retrying` | the decision after a failed request: another one, or the reason why there is none |
//! | `flow` | the minimum speed of a transfer, and its requests before the first byte |
//! | `lookup`, `stat` | facts about a blob |
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
pub(crate) use lookup::Lookup;
pub(crate) use options::ReadOptions;
pub(crate) use range_stream::{FLAWS_MAX, Known, RangeOptions, RangeStream};
pub(crate) use retrying::{Next, Retrying};
pub use state::ReadState;
pub use stats::{ReadStats, ReadTotals};
pub use verify::{Verification, Verify};
