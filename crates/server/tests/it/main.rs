//! The store with its threads on the real disk.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod full_disk;
mod limit;
