//! Conformance suites: the promises that every remote and every store must keep, and those of the
//! Remote Execution API. They run on the remotes and stores of `tidegate`, on those of its users, and
//! on real servers.
//!
//! A suite takes a place from a small fixture and checks one promise after the other. A failure
//! names the promise. This is a crate of its own, because it needs the engine, and the testkit must
//! not depend on the engine: otherwise a client and the servers that test it could share a mistake.

pub mod reapi;
pub mod remote;
pub mod store;
