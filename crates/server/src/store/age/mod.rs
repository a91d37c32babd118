//! Eviction by age of last use: which values go so that the store stays below its limit.
//!
//! Each entry of the index holds a coarse last-use number, in ticks. Exact LRU would need a list
//! through all entries, and a lock for each use. A sweep instead counts bytes by age, finds the age
//! that frees enough, and drops what is older.
//!
//! | file | idea |
//! |---|---|
//! | `histogram` | [`AgeHistogram`]: bytes by age; [`Eviction`]: what a sweep drops |
//! | `pins` | [`Pins`]: last uses in the future, for values that a client is about to read |
//!
//! A pinned value has its last use in the future. So a pin takes no memory, survives a restart, and
//! expires by itself.
//!
//! This is pure: the caller passes the time.

mod histogram;
mod pins;

pub use self::histogram::{AgeHistogram, Eviction};
pub use self::pins::Pins;
