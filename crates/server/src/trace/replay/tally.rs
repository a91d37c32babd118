//! [`Tally`]: the sums of a replay.

/// The sums of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads and existence checks.
    pub requests: u64,
    /// Those of blobs that the cache held.
    pub hits: u64,
    /// The bytes of all requested blobs.
    pub requested_bytes: u64,
    /// The bytes of those that the cache held.
    pub hit_bytes: u64,
    /// The bytes that the cache stored.
    pub written_bytes: u64,
    /// The most bytes that it held.
    pub bytes_max: u64,
    /// Blobs that it refused.
    pub refused: u64,
}

impl Tally {
    /// Hits of all requests, 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        rate(self.hits, self.requests)
    }

    /// Bytes of hits of all requested bytes, 0 to 1.
    pub fn byte_hit_rate(&self) -> f64 {
        rate(self.hit_bytes, self.requested_bytes)
    }
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn rate(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
