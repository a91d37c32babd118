//! What every remote and every store of Tidegate must do, as suites that run on each of them: those of
//! `tidegate`, those of its users, and real servers.
//!
//! A suite takes a place made by a small fixture and checks one promise after the other; what fails
//! names the promise. This is a crate of its own, because it needs the engine, on which the testkit
//! must not depend: a client and the servers that test it cannot share a mistake.

pub mod remote;
pub mod store;
