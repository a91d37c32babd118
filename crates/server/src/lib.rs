//! The cache server of Tidegate. For now: its store.
//!
//! | module | idea |
//! |---|---|
//! | [`store`] | blobs, action results and opaque values on this machine's disk |
//! | [`trace`] | recorded and generated requests, replayed to choose the size of a store |

pub mod store;
pub mod trace;
