//! Where blobs are cut: against vectors that independent implementations agree on, against the
//! definitions written down naively, and the same however the blob comes in pieces.

mod input;
mod naive;
mod properties;
mod vectors;
