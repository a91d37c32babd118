//! The options of a window, and the outcomes that the caller reports for its requests.
//!
//! The state machine itself is in the parent module.

/// Bounds of a [`Window`](super::Window).
///
/// The defaults assume chunks of some 512 KiB from a cache in the same region. 16 in flight are
/// safe anywhere, and 256 fill 10 Gbit/s at 100 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOptions {
    /// Requests in flight at first. Default 16, as many as Bazel keeps in flight.
    pub start: u32,
    /// The lower bound; 0 counts as 1. Default 1.
    pub min: u32,
    /// The upper bound; at least `min`. Default 256.
    pub max: u32,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self { start: 16, min: 1, max: 256 }
    }
}

impl WindowOptions {
    /// A window of constant size; 0 counts as 1.
    pub const fn fixed(requests: u32) -> Self {
        Self { start: requests, min: requests, max: requests }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The request delivered its bytes.
    Ok,
    /// The server asked for fewer requests (429, `RESOURCE_EXHAUSTED`, `UNAVAILABLE` with a delay).
    Throttled,
    /// The request took time and delivered nothing that counts.
    Failed,
    /// The caller cancelled it, so it says nothing about the network.
    Cancelled,
}
