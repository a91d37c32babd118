//! The caller's options for a cache.

/// How to communicate with a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReapiOptions {
    /// Whether blobs are compressed in transit.
    pub compression: Compression,
    /// Whether blobs are transferred as chunks, if the cache supports it. Default yes; otherwise
    /// the client treats the cache as one that holds whole blobs only.
    pub chunks: bool,
    /// Maximum number of connections to one cache. They are opened as requests need them: one
    /// connection carries a few requests at once, more requests are distributed. Default 4. On
    /// loopback one connection carries all that two cores can send and receive (2 GiB/s and more),
    /// and more of them neither help nor harm. On a network each connection has its own congestion
    /// window, and many servers drive each by one thread.
    pub connections_max: usize,
    /// If a connection with open requests receives nothing for this long, the client sends a ping.
    /// It closes the connection if no response arrives within 20 s. `None` never pings. Default
    /// 60,000: servers built with gRPC's own libraries count pings, and with a smaller value they
    /// close connections of clients that wait long for a response.
    pub keep_alive_ms: Option<u64>,
    /// An id of the build or run that the requests belong to, for the server's logs. All runs of
    /// one group, such as a build, have the same id.
    pub correlated_invocations_id: Option<String>,
}

impl Default for ReapiOptions {
    fn default() -> Self {
        Self {
            compression: Compression::default(),
            chunks: true,
            connections_max: 4,
            keep_alive_ms: Some(60_000),
            correlated_invocations_id: None,
        }
    }
}

/// Whether blobs are sent as zstd, if the cache offers it.
///
/// It is off by default, because it helps only on a link that is slower than the compressor, and
/// the link's speed is unknown before its use. On a fast link it halves the speed (a cache on the
/// same machine gave 923 MiB/s plain and 544 MiB/s as zstd) and costs both sides a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Never compress.
    #[default]
    Never,
    /// Downloads if the cache offers it; uploads if a sample shrinks by an eighth.
    Auto,
    /// Always, if the cache offers it.
    Always,
}
