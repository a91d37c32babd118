//! `tidegate::chunked::download` as its users meet it: over a store in memory that does as a script
//! says, in paused time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod fake;
mod faults;
mod model;
mod resume;
mod seeds;
mod sharing;
mod targets;
mod window;
