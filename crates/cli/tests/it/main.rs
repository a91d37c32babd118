//! The command as its users meet it: the real binary, run against the testkit's server.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod caches;
mod cat;
mod chunk;
mod cp;
mod credentials;
mod demo;
mod disk;
mod errors;
mod generate;
mod headers;
mod help;
mod interrupt;
mod limits;
mod local;
mod names;
mod output;
mod secrets;
mod several;
mod stat;
mod terminal;
mod usage;
