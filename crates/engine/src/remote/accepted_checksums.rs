//! [`AcceptedChecksums`]: which checksum a service verifies, as far as its refusals have shown.
//!
//! Services that imitate a cloud refuse checksums that they do not know: one accepts no CRC-64,
//! another no checksum header at all. Such a refusal names the header, or it is a failure without a
//! reason, as Azurite's. The next algorithm of the list is used from then on; after the last one, no
//! checksum is sent.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate_core::checksum::ChecksumAlgorithm;
use tidegate_core::retry::RetryClass;

use super::object_client::Refusal;
use crate::error::{Error, ErrorKind};

/// Words by which services name the header that they refuse.
const NAMES: [&str; 5] = ["checksum", "crc64", "crc32", "content-md5", "x-goog-hash"];

/// Codes of a checksum that was compared and differs. They are no refusal of the header.
const DIFFERS: [&str; 6] = [
    "BadDigest",
    "InvalidDigest",
    "XAmzContentChecksumMismatch",
    "XAmzContentSHA256Mismatch",
    "Md5Mismatch",
    "Crc64Mismatch",
];

/// See the module docs.
#[derive(Debug)]
pub(super) struct AcceptedChecksums {
    order: &'static [ChecksumAlgorithm],
    /// The first algorithm that was not refused.
    first: AtomicUsize,
    /// Whether a failure without a reason may be the refusal of an algorithm that the service has
    /// not accepted yet.
    may_fail: AtomicBool,
}

impl AcceptedChecksums {
    pub(super) fn new(order: &'static [ChecksumAlgorithm]) -> Self {
        Self { order, first: AtomicUsize::new(0), may_fail: AtomicBool::new(false) }
    }

    /// The same, for a service whose emulator fails with status 500 or 501 at an unknown header.
    #[cfg(feature = "azure")]
    pub(super) fn or_failing(self) -> Self {
        self.may_fail.store(true, Ordering::Relaxed);
        self
    }

    /// The algorithm to use; `None` if the service refuses all.
    pub(super) fn now(&self) -> Option<ChecksumAlgorithm> {
        self.order.get(self.first.load(Ordering::Relaxed)).copied()
    }

    /// Records that the service accepted a request with this checksum.
    #[cfg(feature = "azure")]
    pub(super) fn accept(&self, algorithm: Option<ChecksumAlgorithm>) {
        if algorithm.is_some() && algorithm == self.now() {
            self.may_fail.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a request with this checksum was refused because of its header.
    pub(super) fn is_refused(
        &self,
        algorithm: Option<ChecksumAlgorithm>,
        refusal: &Refusal,
    ) -> bool {
        if algorithm.is_none() || DIFFERS.contains(&refusal.code()) {
            return false;
        }
        let text = refusal.text.to_ascii_lowercase();
        match refusal.status() {
            Some(400 | 501) if NAMES.iter().any(|name| text.contains(name)) => true,
            Some(500 | 501) => algorithm == self.now() && self.may_fail.load(Ordering::Relaxed),
            _ => false,
        }
    }

    /// Goes on to the algorithm after this one. A retry of the same request cannot succeed: its
    /// checksum must be computed anew.
    pub(super) fn explain(&self, algorithm: Option<ChecksumAlgorithm>, refusal: Refusal) -> Error {
        if let Some(algorithm) = algorithm {
            // Of several requests with one algorithm only the first refusal goes on.
            let _ = self.first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |first| {
                (self.order.get(first) == Some(&algorithm)).then_some(first + 1)
            });
            tracing::debug!(%algorithm, "the remote refuses this checksum");
        }
        refusal.error.into_kind(ErrorKind::Unsupported).retryable(RetryClass::Never)
    }
}
