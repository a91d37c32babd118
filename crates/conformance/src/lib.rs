//! What every remote and every store must do alike, checked against any of them: those of
//! `tidegate`, those of its users, and real servers.
//!
//! A crate of its own: the suites need the traits of `tidegate`, and `tidegate-testkit` must not
//! depend on what it tests.

pub mod store;
