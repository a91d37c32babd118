//! Sinks: where downloaded bytes go. A sink knows nothing of remotes. It takes bytes at offsets, in
//! any order, each offset at most once.
//!
//! | sink | order | memory |
//! |---|---|---|
//! | [`FileSink`] | any; written in place by one thread, off the runtime | a batch of each shard |
//! | [`OrderedSink`] | reordered before its writer | whole shards, from the budget |
//! | [`MemorySink`] | any; written in place, by each shard itself | the whole blob, from the budget |
//! | discard | any | none |
//!
//! Why a file has one writing thread: buffered writes to a file take its inode's lock, so more
//! threads would only spin on that lock.
//!
//! Why an ordered sink cannot deadlock on the budget: its shards reserve their bytes in the order
//! of their offsets, before they start, and never wait for more. So the shard at the head was
//! granted its bytes before the shards that wait for it. If a shard is larger than the budget can
//! grant, its writer waits instead, until its bytes lie close enough to the delivered ones.

pub(crate) mod file;
pub(crate) mod hashers;
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
    /// Released when the bytes are no longer held.
    #[expect(dead_code, reason = "held until it is dropped with the batch")]
    pub(crate) turn: Option<OwnedSemaphorePermit>,
}

impl Batch {
    pub(crate) fn len(&self) -> u64 {
        self.frames.iter().map(|frame| frame.len() as u64).sum()
    }
}

/// A run of written bytes and its CRC: one record of a journal.
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
    /// Hands a batch over; returns when it is queued or written. Once the sink has failed, every
    /// later call returns that error.
    pub(crate) async fn write(&self, batch: Batch) -> Result<()> {
        match self {
            Self::File(sink) => sink.write(batch).await,
            Self::Ordered(sink) => sink.write(batch).await,
            Self::Memory(sink) => sink.write(&batch),
            Self::Discard => Ok(()),
        }
    }

    /// Ends every wait of the writers, because the download has failed.
    pub(crate) fn abort(&self) {
        if let Self::Ordered(sink) = self {
            sink.abort();
        }
    }

    /// Waits until an ordered sink has failed, and returns its error. For the other sinks it waits
    /// forever: they report a failure from `write`.
    pub(crate) async fn failed(&self) -> Error {
        match self {
            Self::Ordered(sink) => sink.failed().await,
            _ => std::future::pending().await,
        }
    }
}
