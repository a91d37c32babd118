//! What users of the library rely on, through its public interface, against servers that
//! misbehave as scripted.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
#[path = "../call/mod.rs"]
mod call;
mod change;
mod concurrency;
mod contact;
mod deadline;
mod descriptors;
mod faults;
mod follow;
mod forged;
mod framing;
mod headers;
mod hostile;
mod keys;
mod ranges;
mod read;
mod read_model;
mod refusals;
mod resume;
mod selection;
mod silence;
mod targets;
mod transport;
mod trial;
mod verify;
