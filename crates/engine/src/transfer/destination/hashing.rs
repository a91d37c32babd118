//! [`Hashing`]: hashes a file or a buffer in order while it fills. So the hash is complete soon
//! after the last byte. A buffer of unknown length is an exception: it is hashed at the end.
//!
//! It only computes hashes. `checks` compares them with the expected ones.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::buffer::ShardBuffer;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::sink::file::follow;
use crate::sink::hashers::{Hashers, Sums};
use crate::transfer::blocking::blocking;

/// Bytes of a buffer that are hashed in one step: at most a millisecond of work.
const PIECE_BYTES: u64 = 1 << 20;

/// The hashing of one download.
#[derive(Debug)]
pub(super) enum Hashing {
    /// No hash is needed, or the sink computes it.
    None,
    /// A thread follows a file.
    File(follow::HashingThread),
    /// A task follows a buffer.
    Buffer(JoinSet<Result<Sums>>),
    /// A buffer is hashed at the end, because its length is not known before.
    AtEnd(Hashers),
}

impl Hashing {
    /// Starts a task that follows `buffer` up to `end`, if the end is known.
    pub(super) fn of_buffer(buffer: &Arc<ShardBuffer>, end: Option<u64>, hashers: Hashers) -> Self {
        if hashers.is_empty() {
            return Self::None;
        }
        let Some(len) = end else { return Self::AtEnd(hashers) };
        let mut task = JoinSet::new();
        task.spawn(follow_buffer(Arc::clone(buffer), len, hashers));
        Self::Buffer(task)
    }

    /// The hashes of a buffer that holds all of its `len` bytes.
    pub(super) async fn buffer(self, buffer: &Arc<ShardBuffer>, len: u64) -> Result<Sums> {
        match self {
            Self::None | Self::File(_) => Ok(Sums::default()),
            Self::AtEnd(hashers) => follow_buffer(Arc::clone(buffer), len, hashers).await,
            Self::Buffer(mut task) => match task.join_next().await {
                Some(Ok(sums)) => sums,
                _ => Err(failed("memory", "the hashing task ended early")),
            },
        }
    }

    /// The hashes of a file of `len` bytes, after its sink has ended.
    pub(super) async fn file(self, len: u64) -> Result<Sums> {
        let Self::File(thread) = self else { return Ok(Sums::default()) };
        let failed = |message| failed("file", message);
        blocking(move || match thread.join() {
            Ok(Ok((hashed, sums))) if hashed == len => Ok(sums),
            Ok(Ok(_)) => Err(failed("not all of it was written")),
            Ok(Err(error)) => Err(failed("it cannot be read back").caused_by(error)),
            Err(_panic) => Err(failed("the hashing thread panicked")),
        })
        .await
    }

    /// Ends the hashing of a download that failed, after its sink has ended.
    pub(super) async fn end(self) {
        match self {
            Self::None | Self::AtEnd(_) => {}
            Self::File(_) => {
                // The download reports its own error.
                let _ = self.file(0).await;
            }
            Self::Buffer(mut task) => task.shutdown().await,
        }
    }
}

fn failed(what: &str, message: &str) -> Error {
    Error::new(ErrorKind::Storage, Operation::Verify, what, message)
}

/// Hashes a buffer in order as it fills.
pub(super) async fn follow_buffer(
    buffer: Arc<ShardBuffer>,
    len: u64,
    mut hashers: Hashers,
) -> Result<Sums> {
    let mut done = 0;
    while done < len {
        let end = done.saturating_add(PIECE_BYTES).min(len);
        buffer.wait_for(done..end).await?;
        let bytes = buffer.slice(done..end)?;
        hashers = blocking(move || {
            hashers.update(&bytes);
            Ok(hashers)
        })
        .await?;
        done = end;
    }
    Ok(hashers.finish())
}
