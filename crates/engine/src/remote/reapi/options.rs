//! What the caller chooses of a cache.

/// How a cache is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReapiOptions {
    /// Whether blobs travel compressed.
    pub compression: Compression,
    /// Whether blobs travel as chunks, where the cache knows how. Default yes; without, the cache
    /// is taken for one that holds whole blobs only.
    pub chunks: bool,
    /// Connections to one cache, at most. They are made as requests need them: one carries a few
    /// at once, more are shared out. Default 4: on loopback one carries all that two cores can
    /// send and receive (2 GiB/s and more), and more of them neither help nor harm; beyond
    /// loopback each has a congestion window of its own, and many servers drive each by one thread.
    pub connections_max: usize,
    /// A connection that is waited upon and brings nothing for this long is asked whether it lives,
    /// and given up where it does not answer within 20 s; `None` never asks. Default 60,000: less,
    /// and servers built with gRPC's own libraries, which count such questions, hang up on whoever
    /// waits long for an answer.
    pub keep_alive_ms: Option<u64>,
    /// Names what the requests belong to, for the server's logs: the same for all runs that belong
    /// together, such as a build's.
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

/// Whether blobs travel as zstd, where the cache offers it.
///
/// Why not by default: it pays where the link is slower than the compressor, and what can be known
/// of a link before it is used is nothing. On a fast one it halves the speed (a cache on the same
/// machine gave 923 MiB/s as it is and 544 MiB/s as zstd) and costs both sides a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    #[default]
    Never,
    /// Downloads wherever the cache offers it; uploads where a sample shrinks by an eighth.
    Auto,
    /// Wherever the cache offers it.
    Always,
}
