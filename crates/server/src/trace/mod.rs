//! Traces of requests: recorded by a server, or made by a generator, and replayed against caches of
//! several sizes and policies. So a user can choose the size of a cache before buying the disk.
//!
//! | file | idea |
//! |---|---|
//! | `format` | [`TraceRequest`]: one request, one line |
//! | `recorder` | [`TraceRecorder`]: writes a trace beside the requests, never in their way |
//! | `synthetic` | [`SyntheticTrace`]: builds over a working set, from a seed |
//! | [`replay`] | simulated caches, and their hit rates |

mod format;
mod recorder;
pub mod replay;
mod synthetic;

pub use self::format::{TraceError, TraceOperation, TraceReader, TraceRequest};
pub use self::recorder::{TraceCounts, TraceLimits, TraceRecorder};
pub use self::synthetic::{SyntheticOptions, SyntheticTrace};
