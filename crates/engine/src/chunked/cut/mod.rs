//! [`cut_file`]: a file's chunks with their digests, in order, as fast as all cores together can
//! hash it, in memory that does not depend on the file.
//!
//! There is work of three kinds: *cutting* reads the file in order, but for what has no say in it,
//! and says where chunks end; *digesting* reads a chunk and hashes it; *the whole*, where that is
//! asked for, reads the file in order and hashes all of it. Cutting and the whole are done by one
//! thread at a time each, as each byte depends on those before it; chunks by as many as there are.
//! No thread has a kind of its own: whoever is free takes what is most urgent (see `board`), so
//! that no core waits for another while there is anything to do, whatever the kinds cost.
//!
//! Every kind reads the bytes for itself, into a buffer small enough to stay in the core's cache.
//! Handing them on instead would save a copy from the page cache, and cost one through memory that
//! the cores share; and it would need memory for what cutting looks ahead. It was tried, and slower
//! (docs/benchmarks.md).
//!
//! | file | idea |
//! |---|---|
//! | `stream` | what the caller holds |
//! | `board` | what is to be done, by whom, and what was found |
//! | `worker` | one thread of those that do it |
//! | `ended` | the chunks that it hashed, until the others are told |
//! | `lanes` | the chunks that it hashes side by side |
//! | `room` | its buffers, paid for while it works only |
//!
//! # Invariants
//!
//! - Chunks are given in order, without gaps; together they are as long as the caller said.
//! - A thread that waits holds nothing of the budget: a caller may wait for bytes of the same
//!   budget before it takes the next chunk.
//! - Dropping the stream ends the threads within one piece each.

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

/// What [`cut_file`] does, and with what.
#[derive(Clone, Debug)]
pub struct CutOptions {
    /// Where chunks end.
    pub chunking: Chunking,
    /// What names them.
    pub digest_function: DigestFunction,
    /// The digest of the whole file is wanted, too.
    pub whole: bool,
    /// The file's length in bytes. Bytes beyond are not looked at; a shorter file is an error.
    pub len: u64,
    /// The file's name, for errors.
    pub name: String,
    /// Pays for the threads' buffers, at most 768 KiB each.
    pub budget: Budget,
    /// Ends it with an error.
    pub cancel: CancellationToken,
}

/// Cuts a file, and digests its chunks on as many threads as there are cores.
///
/// Begins at once and runs some way ahead of whoever takes the chunks. That the file stays the same
/// meanwhile is the caller's to see to, by its size and modification time before and after.
pub fn cut_file(file: Arc<File>, options: CutOptions) -> CutStream {
    CutStream::begin(file, options)
}
