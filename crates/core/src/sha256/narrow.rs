//! Replaces `avx512` on processors that have no such instructions.

use std::convert::Infallible;

use super::{Block, LANES, State};

/// A type without values: the wide instructions are never available.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide(Infallible);

impl Wide {
    pub(super) const fn detect() -> Option<Self> {
        None
    }

    pub(super) fn compress(self, _states: &mut [State; LANES], _lanes: &[&[Block]; LANES]) {
        match self.0 {}
    }
}
