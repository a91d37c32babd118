//! Blobs as chunks: downloads and uploads over a store in memory and over the wire, and their
//! memory use.
//!
//! | promise | test |
//! |---|---|
//! | a download delivers the blob or leaves the target as it was, over any store | `download`, with a table of its own |
//! | an upload registers the file, sends only missing chunks, and reports every failure | `upload`, with a table of its own |
//! | both hold against a cache that fails as scripted | `wire`, with a table of its own |
//! | a transfer uses little more memory than it reserves from the budget | `memory` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../call/mod.rs"]
mod call;
mod download;
#[cfg(target_os = "linux")]
mod memory;
mod upload;
mod wire;
