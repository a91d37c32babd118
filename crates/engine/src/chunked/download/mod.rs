//! A blob from a store of chunks: [`download`].
//!
//! The store is asked for the blob's manifest; each distinct chunk that is not at hand is fetched
//! once, small ones together, verified, and written at all its places as it arrives. Where there is
//! no manifest the blob comes as a whole, by one stream that goes on where it broke. Either way
//! the whole is hashed in order while it arrives, and a file gets its name only when that agrees.
//!
//! | file | idea |
//! |---|---|
//! | `options` | what the caller chooses |
//! | `ask` | the question for the manifest |
//! | `plan` | what has to be brought |
//! | `resume` | what an earlier attempt left |
//! | `queue` | what goes next, and how much of it together |
//! | `units` | which are in flight |
//! | `fetch` | chunks from the store, each once |
//! | `body` | the bytes of one blob, through as many requests as it takes |
//! | `keep` | chunks that recur in a target that takes bytes in order |
//! | `place` | verified chunks into the sink |
//! | `long` | a chunk too long to be held, into the sink as it comes |
//! | `pour` | a blob as a whole, into the sink as it comes |

mod ask;
mod body;
mod fetch;
mod keep;
mod long;
mod options;
mod place;
mod plan;
mod pour;
mod queue;
mod resume;
mod run;
mod units;

pub(crate) use options::ChunkedDownloadOptions;

use std::sync::Arc;

use tidegate_core::digest::Digest;

use super::ChunkStore;
use crate::error::{Operation, Result};
use crate::report::Report;
use crate::transfer::deadline;
use crate::transfer::target::Target;

/// Fetches the blob that `digest` names from `store` into `target`.
///
/// A file target gets its name only when every byte has been written and the whole has the digest;
/// until then what was there before stays. On failure the part file stays for the next call to use,
/// unless nothing in it is worth keeping. Nothing is in flight once this returns.
///
/// Dropping the future cancels the download: no request outlives it. To keep the last bytes for a
/// later resume too, cancel through [`ChunkedDownloadOptions::cancel`] and await the result.
///
/// # Errors
///
/// Everything in [`ErrorKind`](crate::ErrorKind); the first failure ends the others and is the one reported.
/// `Integrity` means that nothing was delivered under the target's name. An ordered target may
/// have received a prefix, verified chunk by chunk where there are chunks.
pub(crate) async fn download(
    store: &Arc<dyn ChunkStore>,
    digest: &Digest,
    target: Target,
    options: &ChunkedDownloadOptions,
) -> Result<Report> {
    let (deadline_ms, name) = (options.retry.deadline_ms, digest.to_string());
    deadline::in_time(
        deadline_ms,
        &options.cancel,
        (Operation::Download, &name),
        |cancel| async move {
            let options = ChunkedDownloadOptions { cancel, ..options.clone() };
            run::run(store, digest, target, &options).await
        },
    )
    .await
}
