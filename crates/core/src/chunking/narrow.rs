//! Replaces `avx512` on processors that have no such instructions.

use std::convert::Infallible;

use super::gear::Table;

pub(super) const LANES: usize = 16;

pub(super) const ROW_BYTES: usize = 64;

pub(super) const GROUP: usize = 4;

pub(super) type Row = [u8; ROW_BYTES];

pub(super) type Block<const ROWS: usize> = [[Row; ROWS]; LANES];

/// Never created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) group: usize,
    pub(super) lanes: u16,
}

/// A type without values: the wide instructions are never available.
#[derive(Clone, Debug)]
pub(super) struct Wide(Infallible);

impl Wide {
    pub(super) const fn detect(_gear: &Table) -> Option<Self> {
        None
    }

    pub(super) fn candidates<const ROWS: usize>(
        &self,
        _mask: u32,
        _hash: u32,
        _block: &Block<ROWS>,
        _count_max: u32,
    ) -> Option<Vec<Candidate>> {
        match self.0 {}
    }
}
