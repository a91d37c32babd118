//! Servers that send any wrong responses, chosen by a seed: the bytes of a success are right, or
//! the call fails.
//!
//! | promise | test |
//! |---|---|
//! | a success is one version of the blob, whatever the origin responds: files, memory, ordered output, channels, resumed and restored reads | `origin::a_success_is_one_version_of_the_blob` |
//! | a success is right whatever a cache responds, down and up; nothing panics, hangs, or exceeds the budget | `cache::a_success_with_a_hostile_cache_is_right` |
//!
//! A program of its own, so that other seeds can run without the other tests:
//! `TIDEGATE_HOSTILE_SEEDS=20000..90000` and `TIDEGATE_HOSTILE_CACHE_SEEDS=1000..9000`, with `cargo
//! test -p tidegate --all-features --test hostile`. Also, `cache` counts every panic of its process
//! as a failure, so no test that panics on purpose may run in it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod cache;
#[path = "../call/mod.rs"]
mod call;
mod origin;
