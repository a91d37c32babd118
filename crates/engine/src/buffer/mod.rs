//! A positional buffer that many writers fill at once.
//!
//! ```
//! use std::io::Write;
//! use tidegate::buffer::{ShardBuffer, ShardBufferOptions};
//!
//! let buffer = ShardBuffer::new(ShardBufferOptions::default())?;
//! let mut first = buffer.shard(0..5)?;
//! let mut second = buffer.shard(5..11)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(move || second.write_all(b" world"));
//!     scope.spawn(move || first.write_all(b"hello"));
//! });
//! assert_eq!(buffer.freeze(11)?, "hello world");
//! # Ok::<(), tidegate::buffer::BufferError>(())
//! ```
//!
//! - Writers never wait for one another: [`ShardBuffer::shard`] hands out a [`ShardWriter`] that
//!   owns its range, and writing through it takes no lock.
//! - Growth never copies: address space is reserved, memory is committed as ranges are. A wrong
//!   hint costs nothing.
//! - Nothing that was not written is ever read: it is an error ([`ShardBuffer::read_at`]) or a wait
//!   ([`ShardBuffer::wait_for`], [`ShardReader`]), never zeros.
//! - [`ShardBuffer::freeze`] gives `bytes::Bytes` over the same memory.
//!
//! # How it is made
//!
//! | file | idea |
//! |---|---|
//! | `shard_buffer`, `writer`, `reader`, `wait`, `cursor`, `pool` | what users see |
//! | `shared` | the lock around the table, and how writers do without it |
//! | `state` | the table: reservations, extents, waiters |
//! | `slot` | how far one writer has come: the only thing that writers and readers share |
//! | `memory` | the unsafe core: bytes, and the rights to touch them |
//!
//! Which order makes a read see a write is said in `slot`; why no two parties ever touch one byte
//! at once, in `memory`. Reservations, retirements and readers take one short lock; a writer that
//! has passed a position somebody waits for only tries it (see `shared`).

mod cursor;
mod error;
mod memory;
mod options;
mod pool;
mod reader;
mod shard_buffer;
mod shared;
mod slot;
mod state;
mod sync;
mod wait;
mod writer;

#[cfg(all(test, tidegate_loom))]
mod interleavings;

pub use cursor::Cursor;
pub use error::BufferError;
pub(crate) use memory::committed_bytes;
pub use options::{Backing, BufferStats, ShardBufferOptions};
pub use pool::{BufferPool, BufferPoolOptions};
pub use reader::ShardReader;
pub use shard_buffer::ShardBuffer;
pub use wait::WaitFor;
pub use writer::ShardWriter;
