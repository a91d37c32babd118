//! Chunked transfers against a cache that misbehaves as scripted: what arrives, what it costs, and
//! what is left when it fails.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
#[path = "../call/mod.rs"]
mod call;
mod callers;
mod cancel;
mod chaos;
mod clients;
mod confirm;
mod down_faults;
mod everywhere;
mod head;
mod lies;
mod pace;
mod packed;
mod silence;
mod stall;
mod troubles;
mod up_faults;
