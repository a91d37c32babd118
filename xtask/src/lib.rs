//! Chores of this repository that deserve code. So far: [`tidy`], the rules that no lint checks.
//!
//! The crate has no dependency, so it builds in a second on a new machine.

pub mod tidy;
