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
//! | of many writers with a condition one wins, at every remote | `conditions`, `many` |
//! | a service that does not keep a condition is refused, and gets nothing of the user's | `proof` |
//! | a source that changes makes no blob | `sources` |
//! | a copy of a remote blob is right, or there is none | `between` |
//! | every fault at every request of every way to send a blob | `matrix` |
//! | a source is compressed on the way, and the remote names the coding | `compressed` |
//! | headers that describe a blob go with the request that makes it | `headers` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod between;
mod compressed;
mod conditions;
mod copies;
mod faults;
mod headers;
mod many;
mod matrix;
mod proof;
mod resume;
mod sizes;
mod sources;
mod streams;
mod tags;
