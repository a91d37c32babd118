//! The fault matrix over the command as it is installed: what arrives, how it exits, what it says,
//! how often it asks, and what it leaves behind.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod faults;
mod run;
