//! In place of the sixteen lanes, on processors that have no such instructions.

use std::convert::Infallible;

use super::{Block, LANES, State};

/// Does not exist.
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
