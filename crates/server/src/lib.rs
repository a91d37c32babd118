//! The cache server of Tidegate. For now: its store.
//!
//! | module | idea |
//! |---|---|
//! | [`store`] | blobs, action results and opaque values on this machine's disk |

pub mod store;
