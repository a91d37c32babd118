//! Imports the folder of another cache.
//!
//! | file | idea |
//! |---|---|
//! | `bazel_remote` | the folder of bazel-remote 2: blobs, action results, values |
//! | `casblob` | one blob of it: plain, or zstd frames with a table of their offsets |
//!
//! Every blob is hashed as it is imported. What does not have its hash, or is no file of the other
//! cache, is counted and left out.

mod bazel_remote;
mod casblob;

pub use self::bazel_remote::{ImportCounts, import_bazel_remote};
