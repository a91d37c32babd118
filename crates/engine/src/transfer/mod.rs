//! The parts that all transfers share. Their units are shards, chunks or loads of an upload.
//!
//! | file | idea |
//! |---|---|
//! | `driver` | units in flight: when the next one starts, and how all end |
//! | `window` | how many units are in flight |
//! | `attempt` | one call with its retries |
//! | `deadline` | a transfer ends in time, and keeps the bytes that have arrived |
//! | `target`, `special` | where bytes go, opened before the first request; devices and pipes |
//! | `destination` | the sink from its opening to the finished file, or to a part file that is kept |
//! | `checks` | which checksums are computed, and what they verify |
//! | `gather` | gathers consecutive bytes until a sink takes them |
//! | `limits` | how many bytes a unit, a stream and a target may hold in memory |
//! | `blob_part` | the part of a blob that an error is about |
//! | `blocking` | work that blocks, off the runtime's threads |

pub(crate) mod attempt;
pub(crate) mod blob_part;
pub(crate) mod blocking;
pub(crate) mod checks;
pub(crate) mod deadline;
pub(crate) mod destination;
pub(crate) mod driver;
pub(crate) mod gather;
pub(crate) mod limits;
mod special;
pub(crate) mod target;
pub(crate) mod window;
