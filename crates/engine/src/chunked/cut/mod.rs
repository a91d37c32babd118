//! [`cut_file`]: cuts a file into chunks and computes their digests, in order, on all cores. Its
//! memory does not depend on the size of the file.
//!
//! There are three kinds of work:
//!
//! - *Cutting* reads the file in order and finds where chunks end. It skips bytes that cannot
//!   affect a cut point.
//! - *Digesting* reads a chunk and hashes it.
//! - *The whole*, if requested, reads the file in order and hashes all of it.
//!
//! Cutting and the whole each run on one thread at a time, because each byte depends on the bytes
//! before it. Any number of threads digest chunks. No thread is reserved for one kind of work. A
//! free thread takes the most urgent task (see `board`). So no core is idle while there is work,
//! regardless of what each kind of work costs.
//!
//! Each kind reads the bytes itself, into a buffer that is small enough for the core's cache. The
//! alternative was to pass the bytes between threads. That saves a copy from the page cache, but
//! costs a copy through memory that the cores share. It also needs memory for the bytes that
//! cutting reads ahead. It was measured and was slower (docs/benchmarks.md).
//!
//! | file | idea |
//! |---|---|
//! | `stream` | the chunks, as the caller receives them |
//! | `board` | pending work, its order, and the results |
//! | `worker` | one worker thread |
//! | `ended` | a thread's finished chunks, until it reports them |
//! | `lanes` | the chunks that one thread hashes side by side |
//! | `room` | a thread's buffers, charged to the budget only while it works |
//!
//! # Invariants
//!
//! - Chunks are delivered in order and without gaps. Together they have the length that the caller
//!   gave.
//! - A waiting thread holds no bytes of the budget. So a caller may wait for bytes of the same
//!   budget before it takes the next chunk.
//! - After the stream is dropped, each thread finishes at most one piece of work and ends.

mod board;
mod ended;
mod lanes;
mod room;
mod stream;
#[cfg(test)]
mod tests;
mod worker;

use std::fs::File;
use std::sync::Arc;

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::DigestFunction;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;

pub use stream::{CutChunk, CutStream};

/// Options of [`cut_file`].
#[derive(Clone, Debug)]
pub struct CutOptions {
    /// The chunking function and its parameters.
    pub chunking: Chunking,
    /// The hash function of the digests.
    pub digest_function: DigestFunction,
    /// Also compute the digest of the whole file.
    pub whole: bool,
    /// The file's length in bytes. Bytes after it are not read; a shorter file is an error.
    pub len: u64,
    /// The file's name, for errors.
    pub name: String,
    /// Pays for the threads' buffers, at most 768 KiB for each thread.
    pub budget: Budget,
    /// Stops the threads; the stream then returns `Cancelled`.
    pub cancel: CancellationToken,
}

/// Cuts a file into chunks and hashes them, on up to as many threads as there are cores.
///
/// Starts at once, and reads ahead of the caller by a limited amount. The caller must make sure
/// that the file does not change meanwhile: compare its size and modification time before and
/// after.
pub fn cut_file(file: Arc<File>, options: CutOptions) -> CutStream {
    CutStream::begin(file, options)
}
