//! What a caller chooses about a window, and what it tells of each request.

/// Bounds of a [`Window`](super::Window).
///
/// The defaults assume chunks of some 512 KiB from a cache in the same region: 16 in flight are
/// safe anywhere, and 256 fill 10 Gbit/s at 100 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOptions {
    /// Requests in flight at first. Default 16, what Bazel keeps in flight all the time.
    pub start: u32,
    /// Never fewer; 0 counts as 1. Default 1.
    pub min: u32,
    /// Never more; at least `min`. Default 256.
    pub max: u32,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self { start: 16, min: 1, max: 256 }
    }
}

impl WindowOptions {
    /// A window that stays as it is; 0 counts as 1.
    pub const fn fixed(requests: u32) -> Self {
        Self { start: requests, min: requests, max: requests }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It brought what it was to bring.
    Ok,
    /// The server asked for less (429, `RESOURCE_EXHAUSTED`, `UNAVAILABLE` with a delay).
    Throttled,
    /// It took its time and brought nothing that counts.
    Failed,
    /// The caller ended it: it says nothing about the network.
    Cancelled,
}
