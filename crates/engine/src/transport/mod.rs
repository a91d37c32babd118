//! How the network remotes reach their servers: what they share, and the two clients above it.
//!
//! | file | idea |
//! |---|---|
//! | `http1` | pooled HTTP/1.1, for all remotes over HTTP |
//! | `http2` | single HTTP/2 connections, for gRPC |
//! | `tcp`, `trust` | TCP settings; whom TLS trusts, and who we are |
//! | `written` | what a connection of `http2` has sent |
//! | `caller` | what tells the callers of one server apart |
//! | `dial` | what connections run over: TCP, or a test's own stream |
//! | `connect`, `prompt` | how connections of `http1` are made |
//! | `link`, `answer`, `pool` | how they are used: driven by whoever reads, then kept for the next |
//! | `framing` | where a body ends, where its head tells it twice |
//! | `added`, `probe` | what goes through `object_store` unseen |
//! | `failure` | what a broken connection means |

mod added;
#[cfg(feature = "_http1")]
mod answer;
#[cfg(feature = "reapi")]
mod caller;
#[cfg(feature = "_http1")]
mod connect;
mod dial;
mod failure;
#[cfg(feature = "_http1")]
mod framing;
#[cfg(feature = "_http1")]
mod http1;
#[cfg(feature = "reapi")]
mod http2;
#[cfg(feature = "_http1")]
mod link;
#[cfg(feature = "_http1")]
mod pool;
#[cfg(feature = "_http1")]
mod probe;
#[cfg(feature = "_http1")]
mod prompt;
mod tcp;
mod trust;
#[cfg(feature = "reapi")]
mod written;

#[cfg(feature = "_http1")]
pub(crate) use added::Added;
#[cfg(any(feature = "http", feature = "reapi"))]
pub(crate) use added::replace;
#[cfg(feature = "_http1")]
pub(crate) use answer::Answer;
#[cfg(feature = "reapi")]
pub(crate) use caller::CallerHash;
#[doc(hidden)]
pub use dial::{Dial, DialedStream};
pub(crate) use failure::classify;
#[cfg(feature = "_http1")]
pub(crate) use http1::Transport;
#[cfg(feature = "reapi")]
pub(crate) use http2::Http2Connector;
#[cfg(feature = "_http1")]
pub(crate) use probe::{Probe, ResponseHead};
#[cfg(feature = "reapi")]
pub(crate) use written::Written;

use std::path::PathBuf;
use std::sync::Arc;

/// What the caller chooses of connections.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// The longest that one TCP connection may take to be made.
    pub connect_ms_max: u64,
    /// The largest single read from a socket, and so the largest frame handed on. 256 KiB keeps
    /// a window of 32 in 8 MiB; on loopback nothing above it was faster.
    pub read_bytes_max: usize,
    /// The socket's receive buffer; `None` leaves it to the kernel's autotuning.
    pub receive_buffer_bytes: Option<usize>,
    /// PEM files with certificate authorities to trust besides the system's.
    pub ca_certs: Vec<PathBuf>,
    /// What is shown to servers that ask who we are in TLS.
    pub client_identity: Option<ClientIdentity>,
    /// Makes connections in place of TCP; for tests, without any promise.
    #[doc(hidden)]
    pub dial: Option<Arc<dyn Dial>>,
}

/// A certificate of ours and its key, for servers that let in those whose certificate they know
/// (mutual TLS). Read when the transport is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// A PEM file with the certificate, and after it those that it is signed with.
    pub certificates: PathBuf,
    /// A PEM file with its private key.
    pub key: PathBuf,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            connect_ms_max: 10_000,
            read_bytes_max: 256 << 10,
            receive_buffer_bytes: None,
            ca_certs: Vec::new(),
            client_identity: None,
            dial: None,
        }
    }
}
