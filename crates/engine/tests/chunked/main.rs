//! Blobs as chunks: downloads and uploads over a store in memory, over the wire, and what they take of
//! memory.
//!
//! | promise | test |
//! |---|---|
//! | a download delivers the blob or leaves the target as it was, over any store | `download`, with a table of its own |
//! | an upload registers the file, sends only what is missing, and reports every failure | `upload`, with a table of its own |
//! | both hold against a cache that fails as scripted | `wire`, with a table of its own |
//! | a transfer takes of memory what it takes of the budget, and little more | `memory` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../call/mod.rs"]
mod call;
mod download;
#[cfg(target_os = "linux")]
mod memory;
mod upload;
mod wire;
