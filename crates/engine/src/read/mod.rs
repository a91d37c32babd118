//! Reading one range of one blob through as many requests as it takes.

mod channel;
pub(crate) mod stat;
mod stats;

pub use channel::{ReadChannel, ReadOptions};
pub use stat::stat;
pub use stats::{ReadStats, ReadTotals};
