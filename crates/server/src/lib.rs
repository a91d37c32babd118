//! The cache server of Tidegate.
//!
//! | module | idea |
//! |---|---|
//! | [`serve`] | the server: the Remote Execution API and HTTP on one port |
//! | [`store`] | blobs, action results and opaque values on this machine's disk |
//! | [`trace`] | recorded and generated requests, replayed to choose the size of a store |

pub mod serve;
pub mod store;
pub mod trace;
