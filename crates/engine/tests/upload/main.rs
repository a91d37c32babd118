//! Uploads to a remote that misbehaves as scripted: what is stored is what was sent, or nothing is.

mod bed;
mod conditions;
mod faults;
mod resume;
mod sizes;
mod sources;
mod streams;
