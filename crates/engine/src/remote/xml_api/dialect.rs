//! [`XmlDialect`]: the differences between the two services that share the interface. Pure.

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};
use url::form_urlencoded;

use crate::remote::response::Dialect;

/// The metadata that holds [`WriteOptions::mark`](crate::remote::WriteOptions::mark).
pub(super) const MARK: &str = "tidegate-upload";

/// Google's condition on the generation that is replaced.
pub(super) const IF_GENERATION: HeaderName = HeaderName::from_static("x-goog-if-generation-match");

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::remote) enum XmlDialect {
    S3,
    #[cfg_attr(not(feature = "gcs"), expect(dead_code, reason = "only Google speaks it"))]
    Gcs,
}

impl XmlDialect {
    /// The dialect of its responses.
    pub(super) fn of_responses(self) -> Dialect {
        match self {
            #[cfg(feature = "s3")]
            Self::S3 => Dialect::S3,
            #[cfg(feature = "gcs")]
            Self::Gcs => Dialect::Gcs,
            #[cfg(not(all(feature = "s3", feature = "gcs")))]
            #[cfg(feature = "s3")]
            Self::Gcs => Dialect::S3,
            #[cfg(not(all(feature = "s3", feature = "gcs")))]
            #[cfg(feature = "gcs")]
            Self::S3 => Dialect::Gcs,
        }
    }

    /// What is before the name of a caller's own metadata.
    pub(super) fn metadata(self) -> &'static str {
        match self {
            Self::S3 => "x-amz-meta-",
            Self::Gcs => "x-goog-meta-",
        }
    }

    pub(super) fn storage_class(self) -> &'static str {
        match self {
            Self::S3 => "x-amz-storage-class",
            Self::Gcs => "x-goog-storage-class",
        }
    }

    /// The header of an object's tags, if the service has tags.
    pub(super) fn tags(self) -> Option<&'static str> {
        (self == Self::S3).then_some("x-amz-tagging")
    }

    /// Whether the service decompresses objects for readers that do not accept their coding.
    pub(super) fn decompresses(self) -> bool {
        matches!(self, Self::Gcs)
    }

    /// Where a source's modification time is kept: rclone's name and format on S3, gsutil's on
    /// Google Cloud Storage.
    pub(super) fn modified(self, time: SystemTime) -> Option<(&'static str, String)> {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        Some(match self {
            Self::S3 => ("mtime", format!("{}.{:09}", since.as_secs(), since.subsec_nanos())),
            Self::Gcs => ("goog-reserved-file-mtime", since.as_secs().to_string()),
        })
    }

    /// The checksums that the service verifies, the preferred one first.
    pub(super) fn checksums(self) -> &'static [ChecksumAlgorithm] {
        match self {
            Self::S3 => {
                &[ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Md5]
            }
            Self::Gcs => &[ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Md5],
        }
    }

    /// The header by which a body is verified.
    pub(super) fn checksum(self, checksum: &Checksum) -> Option<(HeaderName, String)> {
        let value = checksum.to_base64();
        Some(match (self, checksum.algorithm()) {
            (_, ChecksumAlgorithm::Md5) => (HeaderName::from_static("content-md5"), value),
            (Self::S3, ChecksumAlgorithm::Crc64Nvme) => {
                (HeaderName::from_static("x-amz-checksum-crc64nvme"), value)
            }
            (Self::S3, ChecksumAlgorithm::Crc32c) => {
                (HeaderName::from_static("x-amz-checksum-crc32c"), value)
            }
            (Self::Gcs, ChecksumAlgorithm::Crc32c) => {
                (HeaderName::from_static("x-goog-hash"), format!("crc32c={value}"))
            }
            _ => return None,
        })
    }

    /// S3's name of an algorithm whose checksum of a whole upload it verifies.
    pub(super) fn whole_name(self, algorithm: ChecksumAlgorithm) -> Option<&'static str> {
        match (self, algorithm) {
            (Self::S3, ChecksumAlgorithm::Crc64Nvme) => Some("CRC64NVME"),
            (Self::S3, ChecksumAlgorithm::Crc32c) => Some("CRC32C"),
            _ => None,
        }
    }

    /// Whether the service compares the checksum of the whole before the object appears.
    pub(super) fn verifies_whole(self, algorithm: ChecksumAlgorithm) -> bool {
        self.whole_name(algorithm).is_some()
    }

    /// S3 reports checksums only if it is asked for them.
    pub(super) fn asks_for_checksums(self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self == Self::S3 {
            headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        }
        headers
    }

    /// The kind of version on which a write can be conditional.
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::S3 => "an entity tag",
            Self::Gcs => "a generation",
        }
    }

    /// 48.8 TiB at Amazon, 5 TiB at Google. Other services of S3 accept less, and say so.
    pub(super) fn blob_bytes_max(self) -> u64 {
        match self {
            Self::S3 => 10_000 * (5 << 30),
            Self::Gcs => 5 << 40,
        }
    }

    /// The longest object that one request copies.
    pub(super) fn copy_bytes_max(self) -> u64 {
        match self {
            Self::S3 => 5 << 30,
            Self::Gcs => 5 << 40,
        }
    }

    /// Cloudflare's R2 refuses parts of different lengths.
    pub(super) fn needs_equal_parts(self, base: &str) -> bool {
        self == Self::S3 && base.contains(".r2.cloudflarestorage.com")
    }
}

/// Tags as S3's header has them: a query string.
pub(super) fn tagging(tags: &[(String, String)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(tags).finish()
}
