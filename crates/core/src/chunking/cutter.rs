//! [`Cutter`]: one interface to both chunking functions; and [`cuts`], for a complete byte slice.
//!
//! Both return lengths only. The caller keeps the bytes and computes the digests.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::vec::Drain;

use super::{Chunking, FastCdc2020, RepMaxCdc};

/// Cuts a blob that arrives in pieces. Every split of the blob gives the same chunks.
///
/// One pass: each byte is hashed at most once, except for a few that `RepMaxCDC` may hash again. It
/// holds a few KiB for `FastCDC`, and at most a horizon's bytes for `RepMaxCDC`. The end of a chunk
/// may be known long after its bytes were fed: with `FastCDC` when the chunk is complete and one
/// byte more is fed, with `RepMaxCDC` up to twice its minimum plus its horizon later.
#[derive(Clone, Debug)]
pub struct Cutter(Function);

#[derive(Clone, Debug)]
enum Function {
    FastCdc2020(FastCdc2020),
    RepMaxCdc(RepMaxCdc),
}

impl Cutter {
    /// A cutter at the start of a blob.
    pub fn new(chunking: &Chunking) -> Self {
        Self(match chunking {
            Chunking::FastCdc2020(params) => Function::FastCdc2020(FastCdc2020::new(params)),
            Chunking::RepMaxCdc(params) => Function::RepMaxCdc(RepMaxCdc::new(params)),
        })
    }

    /// Takes the blob's next bytes. Returns the lengths of the chunks whose ends are now known, in
    /// order. Lengths that the caller does not take from the iterator are lost.
    pub fn feed(&mut self, bytes: &[u8]) -> Drain<'_, u64> {
        match &mut self.0 {
            Function::FastCdc2020(cutter) => cutter.feed(bytes),
            Function::RepMaxCdc(cutter) => cutter.feed(bytes),
        }
    }

    /// Skips at most `count_max` of the next bytes: those too close to a chunk's start to affect
    /// any cut. Returns how many. A caller for which reading is expensive can omit these bytes, and
    /// feed the bytes after them next.
    pub fn pass(&mut self, count_max: u64) -> u64 {
        match &mut self.0 {
            Function::FastCdc2020(cutter) => cutter.pass(count_max),
            Function::RepMaxCdc(cutter) => cutter.pass(count_max),
        }
    }

    /// Ends the blob. Returns the lengths of its last chunks, and resets the cutter to the start of
    /// another blob. An empty blob has no chunk.
    pub fn finish(&mut self) -> Drain<'_, u64> {
        match &mut self.0 {
            Function::FastCdc2020(cutter) => cutter.finish(),
            Function::RepMaxCdc(cutter) => cutter.finish(),
        }
    }
}

/// The bytes of a slice that are fed at once: the caller gets the first chunks early, and the scan
/// has long runs of bytes.
const PIECE_BYTES: usize = 1 << 20;

/// The lengths of the chunks of `bytes`, in order. Their sum is `bytes.len()`.
pub fn cuts<'a>(chunking: &Chunking, bytes: &'a [u8]) -> Cuts<'a> {
    Cuts { cutter: Cutter::new(chunking), rest: Some(bytes), known: VecDeque::new() }
}

/// The lengths of a slice's chunks; see [`cuts`].
#[derive(Clone, Debug)]
pub struct Cuts<'a> {
    cutter: Cutter,
    /// The bytes that were not fed yet; `None` once the cutter has finished.
    rest: Option<&'a [u8]>,
    known: VecDeque<u64>,
}

impl Iterator for Cuts<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(len) = self.known.pop_front() {
                // At most the slice's length, so it fits.
                return usize::try_from(len).ok();
            }
            match self.rest? {
                [] => {
                    self.known.extend(self.cutter.finish());
                    self.rest = None;
                }
                rest => {
                    let (piece, rest) = rest.split_at(rest.len().min(PIECE_BYTES));
                    self.known.extend(self.cutter.feed(piece));
                    self.rest = Some(rest);
                }
            }
        }
    }
}

impl FusedIterator for Cuts<'_> {}
