//! [`Cutter`]: either function, for callers that do not care which; and [`cuts`], over bytes that
//! are all there.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::vec::Drain;

use super::{Chunking, FastCdc2020, RepMaxCdc};

/// Cuts a blob that is fed piece by piece; any split of it gives the same chunks.
///
/// One pass; each byte is hashed at most once, but for few that `RepMaxCDC` may look at again.
/// Holds a few KiB for `FastCDC` and at most a horizon's bytes for `RepMaxCDC`. Which chunk a byte
/// belongs to may be known long after it was fed: with `FastCDC` once its chunk is complete and
/// one byte more is there, with `RepMaxCDC` up to twice its minimum and its horizon later.
#[derive(Clone, Debug)]
pub struct Cutter(Function);

#[derive(Clone, Debug)]
enum Function {
    FastCdc2020(FastCdc2020),
    RepMaxCdc(RepMaxCdc),
}

impl Cutter {
    /// At the beginning of a blob.
    pub fn new(chunking: &Chunking) -> Self {
        Self(match chunking {
            Chunking::FastCdc2020(params) => Function::FastCdc2020(FastCdc2020::new(params)),
            Chunking::RepMaxCdc(params) => Function::RepMaxCdc(RepMaxCdc::new(params)),
        })
    }

    /// Takes the blob's next bytes; gives the lengths of the chunks whose ends are known now, in
    /// order. Lengths that are not taken from the iterator are lost.
    pub fn feed(&mut self, bytes: &[u8]) -> Drain<'_, u64> {
        match &mut self.0 {
            Function::FastCdc2020(cutter) => cutter.feed(bytes),
            Function::RepMaxCdc(cutter) => cutter.feed(bytes),
        }
    }

    /// Passes over as many of the blob's next bytes, `count_max` at most, as have no say in where
    /// chunks end, as they are too near to a chunk's beginning; gives how many. Where bytes are
    /// costly to have, they need not be had: what is fed next are those after them.
    pub fn pass(&mut self, count_max: u64) -> u64 {
        match &mut self.0 {
            Function::FastCdc2020(cutter) => cutter.pass(count_max),
            Function::RepMaxCdc(cutter) => cutter.pass(count_max),
        }
    }

    /// Says that the blob has ended; gives the lengths of its last chunks, and is at the beginning
    /// of another blob. An empty blob has no chunk.
    pub fn finish(&mut self) -> Drain<'_, u64> {
        match &mut self.0 {
            Function::FastCdc2020(cutter) => cutter.finish(),
            Function::RepMaxCdc(cutter) => cutter.finish(),
        }
    }
}

/// So much of a slice is fed at once: the caller has the first chunks soon, and the scan has long
/// runs of bytes.
const PIECE_BYTES: usize = 1 << 20;

/// The lengths of the chunks of `bytes`, in order; they add up to it.
pub fn cuts<'a>(chunking: &Chunking, bytes: &'a [u8]) -> Cuts<'a> {
    Cuts { cutter: Cutter::new(chunking), rest: Some(bytes), known: VecDeque::new() }
}

/// The lengths of a slice's chunks; see [`cuts`].
#[derive(Clone, Debug)]
pub struct Cuts<'a> {
    cutter: Cutter,
    /// What was not fed; `None` once the cutter has finished.
    rest: Option<&'a [u8]>,
    known: VecDeque<u64>,
}

impl Iterator for Cuts<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(len) = self.known.pop_front() {
                // No longer than the slice, so it fits.
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
