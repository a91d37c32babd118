//! The suite of stores, on every store.
//!
//! | promise | test |
//! |---|---|
//! | memory, folder, and a store of three methods pass | `ours` |
//! | the store of the cache server passes, also through the server | `server_store` |
//! | caches of the Remote Execution API pass | `caches` |
//! | real servers pass | `servers`, if `TIDEGATE_CONFORMANCE_STORES` names some |
//! | the suite finds the faults of a store | `faults` |
//! | the server keeps the promises of the Remote Execution API | `protocol` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod caches;
mod faults;
mod ours;
mod protocol;
mod server_store;
mod servers;
mod shelf;

use tidegate::store::ChunkStore;
use tidegate_conformance::store::check;

/// Fails with all violations of the store.
async fn assert_conforms(name: &str, store: &dyn ChunkStore, seed: u64) {
    let violations = check(store, seed).await;
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{name}:\n{}", lines.join("\n"));
}
