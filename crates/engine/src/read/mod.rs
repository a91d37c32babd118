//! Reading one range of one blob through as many requests as it takes.

mod channel;
mod stats;

pub use channel::{ReadChannel, ReadOptions};
pub use stats::{ReadStats, ReadTotals};
