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
//! - Writers never wait for each other: [`ShardBuffer::shard`] returns a [`ShardWriter`] that owns
//!   its range. Writing through it takes no lock.
//! - Growth never copies. Address space is reserved up front, and memory is committed when a range
//!   is reserved. A wrong hint costs no memory.
//! - Bytes that were not written are never read. Reading them is an error
//!   ([`ShardBuffer::read_at`]) or a wait ([`ShardBuffer::wait_for`], [`ShardReader`]), never
//!   zeros.
//! - [`ShardBuffer::freeze`] returns `bytes::Bytes` over the same memory.
//!
//! # Structure
//!
//! | file | idea |
//! |---|---|
//! | `shard_buffer`, `writer`, `reader`, `wait`, `cursor`, `pool` | the public types |
//! | `shared` | the lock around the table, and how writers avoid it |
//! | `state` | the table: reservations, extents, waiters |
//! | `slot` | the position that one writer has reached, which it shares with readers |
//! | `memory` | the unsafe core: the bytes, and the rights to touch them |
//!
//! `slot` explains the memory ordering that makes a read see a write. `memory` explains why two
//! threads never touch one byte at the same time. Reservations, retirements and readers take one
//! short lock. A writer takes no lock. When it passes a position that a reader waits for, it only
//! tries the lock (see `shared`).

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
