//! How the network remotes reach their servers: two HTTP clients and the parts that they share.
//!
//! | file | idea |
//! |---|---|
//! | `http1` | pooled HTTP/1.1, for all remotes over HTTP |
//! | `http2` | single HTTP/2 connections, for gRPC |
//! | `tcp`, `trust` | TCP settings; trusted authorities and the client certificate |
//! | `connection_writes` | counts the bytes that a connection of `http2` has sent |
//! | `caller` | a hash that distinguishes the callers of one server |
//! | `dial` | the stream below a connection: TCP, a test's own, or a tunnel |
//! | `proxy`, `tunnel` | which connections go through a proxy; the method `CONNECT` |
//! | `rate` | a limit on the bytes per second of all connections |
//! | `connect`, `prompt` | how connections of `http1` are made |
//! | `link`, `response_body`, `pool` | how they are used: the reader drives one, then the pool keeps it |
//! | `framing` | the length of a body if its head gives two |
//! | `added`, `probe` | headers and responses that bypass `object_store` |
//! | `request_body` | the bytes of a request, held or read while they are sent |
//! | `request_event` | the `tracing` event of each request |
//! | `failure` | the error kind and retry class of a broken connection |

mod added;
#[cfg(feature = "reapi")]
mod caller;
#[cfg(feature = "_http1")]
mod connect;
#[cfg(feature = "reapi")]
mod connection_writes;
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
mod proxy;
mod rate;
#[cfg(feature = "_http1")]
mod request_body;
mod request_event;
#[cfg(feature = "_http1")]
mod response_body;
mod tcp;
mod trust;
mod tunnel;

#[cfg(feature = "_http1")]
pub(crate) use added::Added;
#[cfg(any(feature = "http", feature = "reapi"))]
pub(crate) use added::replace;
#[cfg(feature = "reapi")]
pub(crate) use caller::CallerHash;
#[cfg(feature = "reapi")]
pub(crate) use connection_writes::ConnectionWrites;
#[doc(hidden)]
pub use dial::{Dial, DialedStream};
pub(crate) use failure::classify;
#[cfg(feature = "_http1")]
pub(crate) use http1::Transport;
#[cfg(feature = "reapi")]
pub(crate) use http2::Http2Connector;
#[cfg(feature = "_http1")]
pub(crate) use probe::{Probe, ResponseHead};
pub use proxy::Proxies;
pub use rate::RateLimit;
#[cfg(feature = "_http1")]
pub(crate) use request_body::RequestBody;
pub(crate) use request_event::RequestEvent;
#[cfg(feature = "_http1")]
pub(crate) use response_body::ResponseBody;

use std::path::PathBuf;
use std::sync::Arc;

/// Connection settings.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// Timeout for connecting one TCP connection.
    pub connect_ms_max: u64,
    /// The largest single read from a socket, and so the largest frame. With 256 KiB, a window of
    /// 32 takes 8 MiB; on loopback no larger value was faster.
    pub read_bytes_max: usize,
    /// The socket's receive buffer; `None` leaves it to the kernel's autotuning.
    pub receive_buffer_bytes: Option<usize>,
    /// PEM files with certificate authorities to trust in addition to the system's.
    pub ca_certs: Vec<PathBuf>,
    /// The client certificate for servers that request one in TLS.
    pub client_identity: Option<ClientIdentity>,
    /// The proxies between this process and the servers: none by default. A program that its users
    /// configure by the environment gives [`Proxies::from_environment`].
    pub proxies: Proxies,
    /// A limit on the bytes per second that all connections receive and send.
    pub rate: Option<RateLimit>,
    /// Makes connections in place of TCP. For tests only; it may change at any time.
    #[doc(hidden)]
    pub dial: Option<Arc<dyn Dial>>,
}

/// A client certificate and its key, for servers with mutual TLS. The files are read when the
/// transport is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// A PEM file with the certificate, followed by the certificates that sign it.
    pub certificates: PathBuf,
    /// A PEM file with the private key of the certificate.
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
            proxies: Proxies::none(),
            rate: None,
            dial: None,
        }
    }
}
