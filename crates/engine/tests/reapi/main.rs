//! Caches of the Remote Execution API, through the library's public interface, against a server
//! that misbehaves as scripted.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod batches;
mod bed;
mod blobs;
#[path = "../call/mod.rs"]
mod call;
mod compression;
mod connections;
mod contradictions;
mod keep_alive;
mod manifests;
mod missing;
mod puts;
mod refusals;
mod trust;
