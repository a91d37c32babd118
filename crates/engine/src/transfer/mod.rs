//! What all transfers have in common, whether their units are shards or chunks.
//!
//! | file | idea |
//! |---|---|
//! | `attempt` | one call, made as often as it takes |
//! | `deadline` | a transfer ends in time, and keeps what has arrived |
//! | `gather` | consecutive bytes, until a sink takes them |
//! | `limits` | what a unit, a stream and a target may hold in memory |
//! | `part` | the part of a blob that an error is about |

pub(crate) mod attempt;
pub(crate) mod deadline;
pub(crate) mod gather;
pub(crate) mod limits;
pub(crate) mod part;
