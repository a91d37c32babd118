//! [`ServeOptions`]: what the owner of a server chooses; [`ServeLimits`]: its limits.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::access::{Quota, TlsFiles};
use super::origin::OriginOptions;
use crate::store::StoreOptions;

/// What the owner of a server chooses.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The folder of the store.
    pub folder: PathBuf,
    /// The store.
    pub store: StoreOptions,
    /// The address to listen on. Port 0 takes a free port.
    pub listen: SocketAddr,
    /// Bytes of messages and of pieces of blobs that the server holds in memory.
    pub memory_bytes_max: u64,
    /// The file of tokens and certificates, and what they may do. Without it, all who reach the
    /// address may read and write.
    pub credentials: Option<PathBuf>,
    /// Whether the owner wants that. It is needed for an address that is not loopback, unless there
    /// are credentials.
    pub is_open: bool,
    /// TLS. Without it, connections are plain.
    pub tls: Option<TlsFiles>,
    /// Whether a blob counts only for the tenants that sent all of its bytes. Else all tenants share
    /// blobs.
    pub isolates_tenants: bool,
    /// What instances may write.
    pub quotas: Vec<Quota>,
    /// Remotes whose blobs the server serves.
    pub origins: OriginOptions,
    /// The cache, `grpc(s)://HOST/INSTANCE`, that fills what the store lacks. It is reached as the
    /// origins are.
    pub upstream: Option<String>,
    /// The limits.
    pub limits: ServeLimits,
}

impl ServeOptions {
    /// A server on this folder and address, with 512 MiB of memory and the default limits, for
    /// clients of this machine.
    pub fn new(folder: impl Into<PathBuf>, store: StoreOptions, listen: SocketAddr) -> Self {
        Self {
            folder: folder.into(),
            store,
            listen,
            memory_bytes_max: 512 << 20,
            credentials: None,
            is_open: false,
            tls: None,
            isolates_tenants: false,
            quotas: Vec::new(),
            origins: OriginOptions::default(),
            upstream: None,
            limits: ServeLimits::default(),
        }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServeLimits {
    /// Connections at a time. More of them wait in the backlog of the system.
    pub connections_max: usize,
    /// Connections at a time of one client, which is an IPv4 address or an IPv6 network of 64 bits. More
    /// of them are closed at once. `usize::MAX` is no limit.
    pub connections_per_client_max: usize,
    /// Requests in flight of one client. More of them are refused, and the client may retry.
    /// `usize::MAX` is no limit.
    pub requests_per_client_max: usize,
    /// Requests at a time on one connection. A connection whose receive window the memory does not pay has 100 at
    /// most.
    pub streams_max: u32,
    /// Bytes of the headers of one request.
    pub header_bytes_max: u32,
    /// The time for the headers of a request, and for the first request of a connection.
    pub header_time_max: Duration,
    /// A connection without a request for this time is closed.
    pub idle_time_max: Duration,
    /// A client that waits with a request, or does not take a response: it must send or take 64 KiB in
    /// this time. Else its request is refused, or its response is cut.
    pub stall_time_max: Duration,
    /// How long requests may continue after the server was asked to stop.
    pub drain_time_max: Duration,
}

impl Default for ServeLimits {
    /// For 1,024 connections of 1,024 requests. Clients of builds keep one connection for hours and
    /// reconnect without notice, so ten minutes of idle time cost them nothing. One Bazel opens up to
    /// 100 connections, so the limits of one client leave room for a team behind one address.
    fn default() -> Self {
        Self {
            connections_max: 1024,
            connections_per_client_max: 512,
            requests_per_client_max: 4096,
            streams_max: 1024,
            header_bytes_max: 32 << 10,
            header_time_max: Duration::from_secs(30),
            idle_time_max: Duration::from_mins(10),
            stall_time_max: Duration::from_mins(2),
            drain_time_max: Duration::from_secs(20),
        }
    }
}
