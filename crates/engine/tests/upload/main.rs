//! Uploads to a remote that misbehaves as scripted: what is stored is what was sent, or nothing is.
//!
//! | promise | test |
//! |---|---|
//! | a source of any length and kind is stored, and compared at the end | `sizes`, `streams` |
//! | a fault that passes costs its own request, at each request of an upload | `faults` |
//! | a lost response is resolved by looking | `faults` |
//! | damage and lies are found | `faults` |
//! | an interrupted upload goes on with what is stored | `resume` |
//! | a copy is its source, described as its source | `copies` |
//! | of many writers with a condition one wins | `conditions` |
//! | a source that changes makes no blob | `sources` |
//! | a copy of a remote blob is right, or there is none | `between` |
//! | every fault at every request of every way to send a blob | `matrix` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod between;
mod conditions;
mod copies;
mod faults;
mod matrix;
mod resume;
mod sizes;
mod sources;
mod streams;
