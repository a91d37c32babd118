//! The suites of `tidegate_conformance::remote` on the remotes of the engine.
//!
//! | promise | test |
//! |---|---|
//! | local files are read, written, listed and deleted as every remote must | `file` |
//! | links, odd names and permissions are treated as a file system needs | `file_system` |
//! | a killed process leaves the target complete, and its uploads can be aborted | `killed` |
//! | HTTP, Google, S3 and Azure are read as every remote must | `servers` |
//! | S3, Google, Azure and web servers are written as every remote must | `buckets` |
//! | a cache of the Remote Execution API is read as every remote must | `caches` |
//! | an ability that a remote lacks is `Unsupported`, and the error names it | `servers` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bucket;
mod buckets;
mod caches;
mod file;
mod file_system;
mod folder;
mod killed;
mod servers;
