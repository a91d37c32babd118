//! The HTTP side of the server over real connections.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod action_cache;
mod bed;
mod cache_client;
mod cas;
mod dialects;
mod uploads;
