//! The options of a [`ReapiServer`](super::ReapiServer), which a test chooses.

use super::{blob_name::HashFunction, chunk_function::ChunkFunction};
use crate::tls::Tls;

const MIB: u64 = 1024 * 1024;

/// How the server behaves when no fault is scripted.
///
/// The default supports the whole protocol, on an unshaped loopback, within the default limits of
/// gRPC servers.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
pub struct ReapiOptions {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// TLS, or `None` for plain text.
    pub tls: Option<Tls>,
    /// Whether clients must show a certificate signed by the server's CA. Needs TLS.
    pub client_certificate: bool,
    /// The bearer token that every call must carry.
    pub token: Option<String>,
    /// The tokens of other callers. Each caller has its own part of the cache, empty at first, and
    /// sees no other part.
    pub tenants: Vec<String>,
    /// Whether `GetCapabilities` needs no token, as with many servers.
    pub open_capabilities: bool,
    /// The only instance.
    pub instance: String,
    /// The functions that name blobs, as advertised.
    pub hash_functions: Vec<HashFunction>,
    /// The functions that cut blobs, as advertised; the first is the server's own choice.
    pub chunk_functions: Vec<ChunkFunction>,
    /// Whether `SplitBlob` is available.
    pub split: bool,
    /// Whether `SpliceBlob` is available.
    pub splice: bool,
    /// The response of `SpliceBlob` for a blob that exists already.
    pub spliced_again: SplicedAgain,
    /// Whether zstd is supported.
    pub zstd: bool,
    /// `max_batch_total_size_bytes`: blobs of one batch together; 0 sets no limit.
    pub batch_bytes_max: u64,
    /// `max_cas_blob_size_bytes`; 0 sets no limit.
    pub blob_bytes_max: u64,
    /// The longest accepted message in bytes. 4 MiB is gRPC's default.
    pub message_bytes_max: usize,
    /// Data of one message of `ByteStream.Read`, at most, in bytes.
    pub read_message_bytes: usize,
    /// The lowest and the highest version of the API, each as major and minor.
    pub versions: [(i32, i32); 2],
    /// Calls that one connection may have open.
    pub streams_max: u32,
    /// The latency of responses.
    pub latency: RpcLatency,
    /// Bytes of blobs a second, in and out together, over all connections.
    pub bytes_per_second: Option<u64>,
    /// The slowdown of each call by other calls in flight.
    pub congestion: Option<Congestion>,
    /// Received bytes are not hashed: for measurements that share their cores with the server.
    pub trusting: bool,
    /// Whether the server records what its responses acknowledge, for
    /// [`ReapiServer::acknowledged`](super::ReapiServer::acknowledged).
    pub acknowledgements: bool,
    /// The seed of the jitter.
    pub seed: u64,
}

impl Default for ReapiOptions {
    fn default() -> Self {
        Self {
            port: 0,
            tls: None,
            client_certificate: false,
            token: None,
            tenants: Vec::new(),
            open_capabilities: false,
            instance: String::new(),
            hash_functions: vec![HashFunction::Sha256, HashFunction::Blake3],
            chunk_functions: vec![ChunkFunction::FAST_CDC_2020, ChunkFunction::REP_MAX_CDC],
            split: true,
            splice: true,
            spliced_again: SplicedAgain::AlreadyExists,
            zstd: true,
            batch_bytes_max: 4 * MIB,
            blob_bytes_max: 0,
            message_bytes_max: 4 * 1024 * 1024,
            read_message_bytes: 1024 * 1024,
            versions: [(2, 0), (2, 12)],
            streams_max: 4096,
            latency: RpcLatency::default(),
            bytes_per_second: None,
            congestion: None,
            trusting: false,
            acknowledgements: false,
            seed: 0,
        }
    }
}

/// The response of `SpliceBlob` for a blob that exists already. The protocol allows both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SplicedAgain {
    /// `ALREADY_EXISTS`: the chunks' lifetimes were not extended.
    #[default]
    AlreadyExists,
    /// Success: they were.
    Extended,
}

/// The latency of the response to a call: uniform, by the seed and the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RpcLatency {
    /// The middle, in milliseconds.
    pub mean_ms: u64,
    /// The most by which it is earlier or later, in milliseconds.
    pub jitter_ms: u64,
}

impl RpcLatency {
    /// A far cache: 25 ms, 10 more or less.
    pub const FAR: Self = Self { mean_ms: 25, jitter_ms: 10 };

    /// The delay in microseconds that a random number picks.
    pub(crate) fn pick_us(self, random: u64) -> u64 {
        let span_us = self.jitter_ms.saturating_mul(2000).saturating_add(1);
        let least_us = self.mean_ms.saturating_sub(self.jitter_ms).saturating_mul(1000);
        least_us.saturating_add(random % span_us)
    }
}

/// A server that slows down under load: every call in flight beyond `calls` makes a call that
/// arrives later by `us_per_call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Congestion {
    /// Calls in flight that cost nothing.
    pub calls: usize,
    /// Microseconds for each one more.
    pub us_per_call: u64,
}

impl Congestion {
    pub(crate) fn delay_us(self, in_flight: usize) -> u64 {
        let beyond = u64::try_from(in_flight.saturating_sub(self.calls)).unwrap_or(u64::MAX);
        beyond.saturating_mul(self.us_per_call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_stays_within_its_jitter() {
        let picked: Vec<u64> = (0..100_000).map(|n| RpcLatency::FAR.pick_us(n * 7919)).collect();
        assert_eq!(picked.iter().min(), Some(&15_000));
        assert_eq!(picked.iter().max(), Some(&35_000));
        assert_eq!(RpcLatency::default().pick_us(u64::MAX), 0);
    }

    #[test]
    fn congestion_delays_only_calls_beyond_the_free_ones() {
        let congestion = Congestion { calls: 8, us_per_call: 100 };
        assert_eq!((congestion.delay_us(8), congestion.delay_us(20)), (0, 1200));
    }
}
