//! `/origin/NAME/PATH` over real connections, with a remote that fails as scripted.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod failures;
mod ranges;
mod versions;
mod whole;
