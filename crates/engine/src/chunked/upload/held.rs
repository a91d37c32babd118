//! [`Held`]: memory that the budget has granted, and the bytes that are in it.
//!
//! Bytes go to the store, and from there to a connection, which may be sending them still when the
//! request that they belong to was given up. So what was granted goes back when the last of them is
//! gone, and not when somebody has lost interest.
//!
//! Long runs are mappings of their own. From the allocator, runs of a megabyte that come and go on
//! many threads leave holes that nobody sees: with 55 MiB held, a process had 110 to 140 MiB. A new
//! mapping's pages have to be cleared; done all at once this takes no more processor time than the
//! allocator's memory does.

use std::sync::Arc;

use bytes::Bytes;
use memmap2::{MmapMut, MmapOptions};

use crate::budget::BytesPermit;
use crate::error::Result;

/// Shorter runs come from the allocator, which has them at hand.
const MAPPED_FROM_BYTES: usize = 64 << 10;

/// Memory that the budget has granted, for as long as anybody holds a clone.
#[derive(Clone, Debug)]
pub(super) struct Held {
    bytes: u64,
    _permit: Arc<BytesPermit>,
}

impl Held {
    /// So many of the bytes of `permit`, if it has as many.
    pub(super) fn new(permit: BytesPermit, bytes: u64) -> Self {
        Self { bytes: bytes.min(permit.bytes()), _permit: Arc::new(permit) }
    }

    /// Bytes that may be held.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A run of `len` bytes, as `fill` leaves it, which this pays for as long as anybody has any of
    /// it.
    pub(super) fn filled(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let mut run = Run::new(len);
        fill(run.as_mut())?;
        Ok(Bytes::from_owner(Paid { run, _held: self.clone() }))
    }
}

/// A run of memory.
enum Run {
    Allocated(Vec<u8>),
    Mapped(MmapMut),
}

impl Run {
    fn new(len: usize) -> Self {
        if len >= MAPPED_FROM_BYTES
            && let Ok(mapped) = MmapOptions::new().len(len).populate().map_anon()
        {
            return Self::Mapped(mapped);
        }
        Self::Allocated(vec![0; len])
    }

    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Allocated(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}

/// Bytes, and after them what pays for them.
struct Paid {
    run: Run,
    _held: Held,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        match &self.run {
            Run::Allocated(bytes) => bytes,
            Run::Mapped(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn what_was_granted_goes_back_with_the_last_of_the_bytes() {
        for len in [5000, MAPPED_FROM_BYTES, MAPPED_FROM_BYTES + 1] {
            let budget = Budget::default();
            let held = Held::new(budget.try_bytes(len as u64).unwrap(), len as u64);
            let filled = held.filled(len, |bytes| {
                bytes.fill(7);
                Ok(())
            });
            let mut bytes = filled.unwrap();
            assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 7));
            let last = bytes.split_off(len - 1);
            drop((held, bytes));
            assert!(budget.held_bytes() >= len as u64);
            drop(last);
            assert_eq!(budget.held_bytes(), 0);
        }
    }
}
