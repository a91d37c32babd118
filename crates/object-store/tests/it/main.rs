//! The store against the suite of `object_store` and against servers that misbehave.
//!
//! | promise | test |
//! |---|---|
//! | what misbehaving servers cost: nothing, or an error of the right kind | `faults` |
//! | everything that the suite of `object_store` asks of a store | `suite` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod faults;
mod suite;
