//! Sinks: where downloaded bytes go. A sink knows nothing of remotes; it takes bytes at offsets,
//! in any order, each offset at most once.
//!
//! | sink | order | memory |
//! |---|---|---|
//! | [`FileSink`] | any; written in place by one thread, off the runtime | a batch of each shard |
//! | [`OrderedSink`] | reordered before its writer | whole shards, from the budget |
//! | [`MemorySink`] | any; written in place, by each shard itself | the whole blob, from the budget |
//! | discard | any | none |
//!
//! Why a file has one writing thread: buffered writes to one file take its inode's lock, so that
//! more threads would only spin on it.
//!
//! Why an ordered sink cannot deadlock on the budget: its shards take their bytes in the order of
//! their offsets, before they start, and never wait for more. The shard that everything waits for
//! has therefore always been granted before those that wait for it. Where a shard is larger than
//! what the budget can grant, its writer waits instead, until what it brings lies within reach of
//! what has been delivered.

pub(crate) mod file;
mod memory;
mod ordered;

pub(crate) use file::FileSink;
pub(crate) use memory::MemorySink;
pub(crate) use ordered::OrderedSink;

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::{Error, Result};

/// Consecutive bytes of a blob on their way to a sink.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) offset: u64,
    pub(crate) frames: Vec<Bytes>,
    /// A run of bytes that is complete once this batch is written.
    pub(crate) mark: Option<Mark>,
    /// Given back once the bytes are no longer held.
    #[expect(dead_code, reason = "held until it is dropped with the batch")]
    pub(crate) turn: Option<OwnedSemaphorePermit>,
}

impl Batch {
    pub(crate) fn len(&self) -> u64 {
        self.frames.iter().map(|frame| frame.len() as u64).sum()
    }
}

/// A run of written bytes and its CRC: what a journal remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) start: u64,
    pub(crate) crc: Crc,
}

/// The sink of one download.
#[derive(Debug)]
pub(crate) enum Sink {
    File(FileSink),
    Ordered(OrderedSink),
    Memory(MemorySink),
    Discard,
}

impl Sink {
    /// Hands a batch over; returns when it is queued or written. The first failure of the sink is
    /// returned by every later call.
    pub(crate) async fn write(&self, batch: Batch) -> Result<()> {
        match self {
            Self::File(sink) => sink.write(batch).await,
            Self::Ordered(sink) => sink.write(batch).await,
            Self::Memory(sink) => sink.write(&batch),
            Self::Discard => Ok(()),
        }
    }

    /// Ends every wait of those who write: the download is over, and not well.
    pub(crate) fn abort(&self) {
        if let Self::Ordered(sink) = self {
            sink.abort();
        }
    }

    /// Waits until the sink has failed, and gives its error; waits for ever if it does not fail, or
    /// fails a write at once.
    pub(crate) async fn failed(&self) -> Error {
        match self {
            Self::Ordered(sink) => sink.failed().await,
            _ => std::future::pending().await,
        }
    }
}
