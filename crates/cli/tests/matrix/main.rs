//! The fault matrix for the installed command: its output, exit code, messages, number of requests,
//! and leftovers.
//!
//! | promise | test |
//! |---|---|
//! | a transient fault costs its own requests | `faults::a_transient_fault_…`, `faults::random_transient_faults_are_survived` |
//! | a permanent fault has its exit code after a bounded number of requests | `faults::a_permanent_fault_…` |
//! | wrong bytes are not delivered | `faults::wrong_bytes_are_not_delivered` |
//! | a server without ranges is read as one stream, and the report says so | `faults::a_server_without_ranges_…` |
//! | the deadline ends a transfer | `faults::the_deadline_ends_…` |
//! | latency and rate change only the time | `faults::jitter_and_a_rate_…` |
//!
//! A program of its own, so that the matrix can also run against another version of the command.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod faults;
mod run;
