//! The cache server of Tidegate.
//!
//! | module | idea |
//! |---|---|
//! | [`serve`] | the server: the Remote Execution API and HTTP on one port |
//! | [`store`] | blobs, action results and opaque values on this machine's disk |
//! | [`cache_client`] | the other side of `/ac/` and `/cas/`, for programs that use a cache |
//! | `otlp` | with the feature of this name: spans of requests for a collector of OpenTelemetry |
//! | [`trace`] | recorded and generated requests, replayed to choose the size of a store |

pub mod cache_client;
pub mod import;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod serve;
pub mod store;
pub mod trace;
