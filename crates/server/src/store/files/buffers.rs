//! [`ReadBuffers`]: the memory of pieces that were read and sent, for the next pieces.
//!
//! A new allocation of this length is new pages: the kernel clears each of them, and the allocator may
//! give them back at once. That costs a tenth of a read.
//!
//! Memory outside of the budget: [`IDLE_MAX`] buffers of [`BUFFER_BYTES`] that are not in use. A buffer in
//! use is a piece, which its reader charges.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The length of a buffer: a whole piece of a large value.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;
/// Buffers that are kept: 8 MiB.
const IDLE_MAX: usize = 32;

/// Buffers that are not in use. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadBuffers(Arc<Mutex<Vec<Box<[u8]>>>>);

/// A buffer in use. It goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    /// Empty only while it is dropped.
    bytes: Box<[u8]>,
    buffers: ReadBuffers,
}

impl ReadBuffers {
    /// A buffer of [`BUFFER_BYTES`]. Its bytes are those of an earlier piece.
    pub(crate) fn take(&self) -> ReadBuffer {
        let idle = self.idle().pop();
        let bytes = idle.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        ReadBuffer { bytes, buffers: self.clone() }
    }

    /// Nothing panics with the lock, so a poisoned lock guards a sound value.
    fn idle(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadBuffer {
    /// The bytes, to read into.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The bytes, to be shared. The buffer goes back when the last of them is dropped.
    pub(crate) fn share(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut idle = self.buffers.idle();
        if idle.len() < IDLE_MAX {
            idle.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_after_the_last_piece_of_it() {
        let buffers = ReadBuffers::default();
        let mut buffer = buffers.take();
        buffer.bytes_mut().fill(1);
        let piece = buffer.share();
        let rest = piece.slice(100..);
        drop(piece);
        let mut other = buffers.take();
        other.bytes_mut().fill(2);
        assert!(rest.iter().all(|byte| *byte == 1), "a buffer in use was given away");
        drop(rest);
        assert_eq!(buffers.take().as_ref()[0], 1, "the first buffer did not come back");
    }

    #[test]
    fn few_idle_buffers_are_kept() {
        let buffers = ReadBuffers::default();
        let taken: Vec<_> = (0..IDLE_MAX + 5).map(|_| buffers.take()).collect();
        drop(taken);
        assert_eq!(buffers.idle().len(), IDLE_MAX);
    }
}
