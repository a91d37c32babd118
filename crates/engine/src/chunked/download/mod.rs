//! [`download`]: fetches a blob from a store of chunks.
//!
//! The download first asks the store for the blob's manifest. It fetches each distinct chunk once,
//! unless a seed has it. Small chunks travel together in batches. Each chunk is verified and is
//! written at all its places as it arrives. Without a manifest the blob arrives as one stream,
//! which restarts at the first missing byte. In both cases the whole blob is hashed in order while
//! it arrives. A file gets its name only if that hash matches the digest.
//!
//! | file | idea |
//! |---|---|
//! | `options` | the caller's choices |
//! | `ask` | the request for the manifest |
//! | `plan` | the chunks to fetch or copy |
//! | `resume` | the part file of an earlier attempt |
//! | `queue` | the order of chunks, and the size of batches |
//! | `units` | the chunks in flight |
//! | `fetch`, `fetch_error` | chunks from the store, each once; why one cannot be fetched |
//! | `body` | the bytes of one blob, with restarts |
//! | `recurring` | chunks that recur in an ordered target |
//! | `place` | writes verified chunks into the sink |
//! | `long` | a chunk too long for memory, streamed into the sink |
//! | `whole` | a whole blob, streamed into the sink |

mod ask;
mod body;
mod fetch;
mod fetch_error;
mod long;
mod options;
mod place;
mod plan;
mod queue;
mod recurring;
mod resume;
mod run;
mod units;
mod whole;

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
/// A file target gets its name only when every byte is written and the whole file matches the
/// digest. Until then an older file of that name stays. On failure the part file stays for the next
/// call, unless it holds nothing worth keeping. Nothing is in flight after this returns.
///
/// Dropping the future cancels the download and its requests. To keep the last bytes for a later
/// resume too, cancel through [`ChunkedDownloadOptions::cancel`] and await the result.
///
/// # Errors
///
/// Everything in [`ErrorKind`](crate::ErrorKind). The first error cancels all other work and is the
/// one that is reported. With `Integrity` nothing was delivered under the target's name. An ordered
/// target may have received a prefix. Each chunk in it is verified, unless the chunk is too long for
/// memory or the blob arrives as one stream.
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
        Operation::Download,
        &name,
        |cancel| async move {
            let options = ChunkedDownloadOptions { cancel, ..options.clone() };
            run::run(store, digest, target, &options).await
        },
    )
    .await
}
