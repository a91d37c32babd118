//! [`ReceiveWindows`]: how much a client of HTTP/2 may send before a call takes it.
//!
//! A client can fill the window of its connection with bytes that no call has taken yet. So windows that
//! are large are paid from a part of the server's memory, and held until the connection ends. A connection
//! that the part cannot pay at once has the smallest window of HTTP/2, and works as before, with less
//! throughput on a long link: 65,535 bytes each 10 ms are 6 MiB/s. It also has fewer requests at a time.
//!
//! Outside of the memory are the smallest windows. 1,024 connections that fill theirs hold 64 MiB.

use http::Version;
use tidegate::{Budget, BudgetOptions, BytesPermit};

/// The part of the memory that windows may take. With 512 MiB, it pays 16 connections.
pub(super) const MEMORY_SHARE: u64 = 8;

/// A stream fills a link of 1 Gbit/s over 8 ms.
const STREAM_BYTES: u32 = 1 << 20;
/// Four streams at full speed.
const CONNECTION_BYTES: u32 = 4 << 20;
/// The window before a setting changes it (RFC 9113, section 6.9.2).
const SMALLEST_BYTES: u32 = 65_535;
/// Requests at a time on a connection with the smallest window. The library `h2` closes a connection whose calls leave
/// many small frames untaken: with this window about 128 of one byte. So each request may leave one. RFC 9113 wants
/// at least 100 (section 6.5.2), and Bazel opens no more.
const SMALLEST_STREAMS_MAX: u32 = 100;

/// What pays the windows of a server.
#[derive(Clone, Debug)]
pub(super) struct ReceiveWindows(Budget);

/// The windows of one connection and its streams.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// Requests at a time that they allow.
    pub(super) streams_max: u32,
    pub(super) stream_bytes: u32,
    pub(super) connection_bytes: u32,
    paid: Option<BytesPermit>,
}

impl ReceiveWindows {
    pub(super) fn new(bytes: u64) -> Self {
        Self(Budget::new(BudgetOptions { bytes, ..BudgetOptions::default() }))
    }

    /// What pays them.
    pub(super) fn budget(&self) -> Budget {
        self.0.clone()
    }

    /// The windows of a new connection. It does not wait.
    pub(super) fn open(&self) -> ReceiveWindow {
        let bytes = u64::from(CONNECTION_BYTES);
        // A budget that is smaller gives all it has.
        let is_within = bytes <= self.0.limits().bytes;
        match self.0.try_bytes(bytes).filter(|_| is_within) {
            Some(permit) => ReceiveWindow {
                streams_max: u32::MAX,
                stream_bytes: STREAM_BYTES,
                connection_bytes: CONNECTION_BYTES,
                paid: Some(permit),
            },
            None => ReceiveWindow {
                streams_max: SMALLEST_STREAMS_MAX,
                stream_bytes: SMALLEST_BYTES,
                connection_bytes: SMALLEST_BYTES,
                paid: None,
            },
        }
    }
}

impl ReceiveWindow {
    /// Releases what is paid if the connection turns out to have no windows: HTTP/1.1 has none.
    pub(super) fn note_version(&mut self, version: Version) {
        if version < Version::HTTP_2 {
            self.paid = None;
        }
    }
}
