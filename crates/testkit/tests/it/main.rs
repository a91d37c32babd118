//! What goes over the wire, seen by a client that takes nothing for granted.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod client;
mod clouds;
mod conditions;
mod faults;
mod hostile;
mod keys;
mod lifecycle;
mod manners;
mod random;
mod reapi;
mod tls;
