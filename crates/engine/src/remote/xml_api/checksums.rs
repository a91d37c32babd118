//! [`Accepted`]: which checksum a service verifies, as far as its refusals have shown.
//!
//! Services that imitate S3 refuse checksums that they do not know: one accepts no CRC-64, another
//! no checksum header at all. Such a refusal names the header. The next algorithm of the list is
//! used from then on; after the last one, no checksum is sent.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::checksum::ChecksumAlgorithm;
use tidegate_core::retry::RetryClass;

use crate::error::{Error, ErrorKind};
use crate::remote::object_client::Refusal;

/// Words by which services name the header that they refuse.
const NAMES: [&str; 5] = ["checksum", "crc64", "crc32", "content-md5", "x-goog-hash"];

/// Codes of a checksum that was compared and differs. They are no refusal of the header.
const DIFFERS: [&str; 4] =
    ["BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"];

/// See the module docs.
#[derive(Debug)]
pub(super) struct Accepted {
    order: &'static [ChecksumAlgorithm],
    /// The first algorithm that was not refused.
    first: AtomicUsize,
}

impl Accepted {
    pub(super) fn new(order: &'static [ChecksumAlgorithm]) -> Self {
        Self { order, first: AtomicUsize::new(0) }
    }

    /// The algorithm to use; `None` if the service refuses all.
    pub(super) fn now(&self) -> Option<ChecksumAlgorithm> {
        self.order.get(self.first.load(Ordering::Relaxed)).copied()
    }

    /// Whether a request with a checksum of this algorithm was refused because of it.
    pub(super) fn is_refused(&self, refusal: &Refusal, used: Option<ChecksumAlgorithm>) -> bool {
        if !matches!(refusal.status(), Some(400 | 501)) || DIFFERS.contains(&refusal.code()) {
            return false;
        }
        let text = refusal.text.to_ascii_lowercase();
        used.is_some() && NAMES.iter().any(|name| text.contains(name))
    }

    /// Goes on to the next algorithm, unless another refusal has done so. A retry of the same request
    /// cannot succeed: its checksum must be computed anew.
    pub(super) fn explain(&self, refusal: Refusal, used: Option<ChecksumAlgorithm>) -> Error {
        if let Some(algorithm) = used {
            let _ = self.first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |first| {
                (self.order.get(first) == Some(&algorithm)).then_some(first + 1)
            });
            tracing::debug!(%algorithm, "the remote refuses this checksum");
        }
        refusal.error.into_kind(ErrorKind::Unsupported).retryable(RetryClass::Never)
    }
}
