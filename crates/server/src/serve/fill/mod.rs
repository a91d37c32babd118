//! Fills: blobs that the store lacks, on their way from a remote into the store.
//!
//! | file | idea |
//! |---|---|
//! | `flight` | [`Flight`]: the state of one fill, which its followers watch |
//! | `flights` | [`Flights`]: one fill for each blob, and the owner of their tasks |
//! | `intake` | [`Intake`]: what the engine downloads, into the store |
//! | `fetch` | one download of the engine into an intake |
//! | `follow` | the bytes of a blob while it arrives |
//! | `failure` | [`FillError`]: why a fill failed |
//!
//! The engine downloads the shards of a blob at once and writes them in order into a staged file of the
//! store, which nothing names. Followers read the file up to the place that was written. A fill does
//! not keep a blob in memory: what a fill holds does not depend on the blob's length, and a slow
//! follower holds one piece. A buffer in memory would need a second way for blobs that do not fit.
//! What was just written is in the page cache, so a follower costs no disk reads.
//!
//! Invariants:
//! - The last [`HELD_BACK_BYTES`] of a blob are delivered only after the blob was verified and named.
//!   So no client takes a damaged blob for a whole one.
//! - A blob is fetched once, however many ask for it. A follower that leaves does not end the fill.
//! - A fill never waits for a follower.
//! - Fills take their memory from a part of the server's budget, so calls and fills do not wait for
//!   each other.

mod failure;
mod fetch;
mod flight;
mod flights;
mod follow;
mod intake;

use tidegate::RetryPolicy;

pub use failure::FillError;
pub(super) use fetch::fetch;
pub(super) use flight::{Description, Flight, FlightOutcome};
pub(super) use flights::Flights;
pub(super) use follow::{FollowState, follow};

/// Bytes at the end of a blob that wait for verification: enough that no format's end is among those
/// that are delivered before.
pub(super) const HELD_BACK_BYTES: u64 = 64 << 10;

/// Fills at a time. Each holds a shard of 4 MiB at first, so that 32 of them fit a quarter of 512 MiB.
const RUNNING_MAX: usize = 32;

/// Fills that run or wait. A request for another one is refused, and its client may retry.
const WAITING_MAX: usize = 1024;

/// The part of the server's memory that fills take: a quarter.
pub(super) const MEMORY_SHARE: u64 = 4;

/// How requests to remotes are retried: four attempts take about a second if each is refused, so a
/// remote that is down is reported before a client gives up.
pub(super) fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        attempts_max: 4,
        delay_ms_max: 2_000,
        connect_ms_max: 5_000,
        header_ms_max: 15_000,
        ..RetryPolicy::default()
    }
}
