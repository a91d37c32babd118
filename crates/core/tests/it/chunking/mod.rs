//! Checks where blobs are cut: against vectors of independent implementations, against a naive
//! version of the definitions, and for every split of the blob into pieces.

mod input;
mod naive;
mod properties;
mod vectors;
