//! Chores of this repository that deserve code. So far: [`tidy`], the rules that no lint checks.
//!
//! No dependency: the chores build in a second on a new machine.

pub mod tidy;
