//! [`Read`]: facts about a blob, and a range of its bytes, pinned to a version.
//!
//! A remote makes exactly one attempt for each call. Its error says whether another attempt can
//! help; [`crate::read`] makes it. A remote knows nothing of transfers.
//!
//! Bytes are delivered as they are stored. Google's storage decompresses for clients that do not
//! accept `gzip`, so requests to it accept `gzip`. Requests to the others ask for `identity`,
//! because some servers compress in transit. A response that was decompressed anyway is refused.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use tidegate_core::checksum::StoredChecksum;
use tidegate_core::range::ByteRange;

use super::{Selection, Version};
use crate::budget::Budget;
use crate::error::{Operation, Result};

/// A response's bytes as they arrive, each frame in the transport's own buffer.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// The facts that a remote reports about a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobInfo {
    /// Length in bytes of the stored blob.
    pub len_bytes: Option<u64>,
    /// What pins the content.
    pub version: Option<Version>,
    /// Checksums of the stored bytes.
    pub checksums: Vec<StoredChecksum>,
    /// `Content-Encoding` of the stored bytes, without `identity`.
    pub content_encoding: Option<String>,
    /// Media type.
    pub content_type: Option<String>,
    /// What else the remote says of the blob; `None` if nothing, and in listings. A box, because
    /// few blobs have it, and transfers hold these facts many times.
    pub description: Option<Box<BlobDescription>>,
    /// The time of the last change, in the remote's own format.
    pub last_modified: Option<String>,
    /// A name for this content, different from that of any other content of the blob: a generation
    /// of Google Cloud Storage, or a version id of S3 or Azure together with the entity tag. `None`
    /// if the remote gives none of these.
    pub revision: Option<String>,
}

/// What a writer described a blob as, beyond its type and coding, and how the remote keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobDescription {
    /// `Cache-Control` of its responses.
    pub cache_control: Option<String>,
    /// `Content-Disposition` of its responses.
    pub content_disposition: Option<String>,
    /// `Content-Language` of its responses.
    pub content_language: Option<String>,
    /// The writer's own names and values, sorted by name.
    pub metadata: Vec<(String, String)>,
    /// The storage class or the access tier, in the remote's own words. S3 does not name its class
    /// `STANDARD`.
    pub storage_class: Option<String>,
    /// The number of tags. Only [`Write::tags`](super::Write::tags) gives their names and values.
    pub tag_count: u32,
    /// Whether a blob in an archive is being restored, or until when a restored copy is there, in
    /// the remote's own words: `x-amz-restore` of S3, `x-ms-archive-status` of Azure.
    pub restore: Option<String>,
}

/// The request of [`Read::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// The bytes wanted; never empty.
    pub range: ByteRange,
    /// The version that they must have; `None` takes any version.
    pub version: Option<Version>,
}

/// A response whose bytes are in flight.
#[non_exhaustive]
pub struct Opened {
    /// Facts that came with the response.
    pub info: BlobInfo,
    /// Offset in the blob of the body's first byte.
    pub start: u64,
    /// Offset in the blob of the byte after the body's last; `None` if the remote does not say. A
    /// body that continues beyond it is an error.
    pub end: Option<u64>,
    /// The remote ignored the range and sends the whole blob.
    pub whole: bool,
    /// The bytes come in the coding that the facts name, although the request asked for none.
    pub encoded_unasked: bool,
    /// The producer sets the pace of the bytes, as in a pipe: no delay counts as a stall.
    pub unhurried: bool,
    /// Time from sending the request to the head of the response.
    pub waited: Duration,
    /// Number of requests that it took, including redirects and lookups of the remote.
    pub requests: u32,
    /// The bytes.
    pub body: Body,
}

impl Opened {
    /// A response to one request, whose body begins at offset `start` of the blob. It has no end
    /// and no time; the caller may set both.
    pub fn new(info: BlobInfo, start: u64, body: Body) -> Self {
        Self {
            info,
            start,
            end: None,
            whole: false,
            encoded_unasked: false,
            unhurried: false,
            waited: Duration::ZERO,
            requests: 1,
            body,
        }
    }

    /// Counts a request that led to this response.
    #[cfg(feature = "_http1")]
    pub(super) fn after_one_more(mut self) -> Self {
        self.requests += 1;
        self
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("info", &self.info)
            .field("start", &self.start)
            .field("end", &self.end)
            .field("whole", &self.whole)
            .finish_non_exhaustive()
    }
}

/// One part of the upload that made a blob, as the remote remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadedPart {
    /// The bytes of the blob that were this part.
    pub range: Range<u64>,
    /// The length of the blob in bytes.
    pub len_bytes: u64,
    /// The number of parts of the upload, if the remote provides it.
    pub parts: Option<u32>,
}

impl UploadedPart {
    /// A part with these bytes, of a blob of `len_bytes` bytes.
    pub fn new(range: Range<u64>, len_bytes: u64) -> Self {
        Self { range, len_bytes, parts: None }
    }
}

/// A remote whose blobs can be read, each by its name (an object's key, a URL, a path).
#[async_trait]
pub trait Read: fmt::Debug + Send + Sync {
    /// Facts about a blob, in one request. Cancel-safe.
    async fn stat(&self, blob: &str) -> Result<BlobInfo>;

    /// Facts about one version of a blob, in one request; [`BlobInfo::version`] has the same kind
    /// as `version`. Cancel-safe.
    ///
    /// Fails with `Changed` if the blob has another version. Fails with `NotFound` if versions are
    /// separate objects, as generations are, and this one is gone. Fails with `Invalid` for a
    /// version that [`Self::check_version`] refuses.
    async fn stat_version(&self, blob: &str, version: &Version) -> Result<BlobInfo> {
        self.check_version(version)?;
        let info = self.stat(blob).await?;
        version.expect(info.version.as_ref(), Operation::Stat, "the blob")?;
        Ok(info)
    }

    /// Checks whether blobs here can be requested by this version: `Invalid` for a kind that this
    /// remote does not use, and for malformed text. Sends no request.
    fn check_version(&self, version: &Version) -> Result<()> {
        let _ = version;
        Ok(())
    }

    /// Everything that decides which object the name `blob` leads to: the whole URL, the endpoint,
    /// the user, headers. A download resumes without further checks only if its selection is
    /// unchanged. If this is `None`, as by default, a checksum of the whole blob must verify the
    /// result. Sends no request.
    fn selection(&self, blob: &str) -> Option<Selection> {
        let _ = blob;
        None
    }

    /// Requests a range of a blob, in one request. Dropping the future or the body ends the
    /// request.
    ///
    /// If `request.version` is given, [`BlobInfo::version`] of the response has the same kind. A
    /// response that names another version, or none, is not read.
    ///
    /// Fails with `Changed` if `request.version` is given and the blob has another. Fails with
    /// `NotFound`, `NoAccess`, `Invalid` (the range starts beyond the end) and so on; an error's
    /// [`crate::Error::retry`] says whether the same call can succeed later.
    ///
    /// The remote takes memory for decoding from `budget` without waiting, because the caller
    /// already holds one of its request permits.
    async fn open(&self, blob: &str, request: &OpenRequest, budget: &Budget) -> Result<Opened>;

    /// Whether the response to a ranged [`Self::open`] names all the checksums that [`Self::stat`]
    /// does. If not, a reader that wants them sends both requests in parallel.
    fn open_gives_checksums(&self) -> bool {
        true
    }

    /// Part `number` of the upload that made the blob, in one request. The first part is 1. With the
    /// sizes of all parts, a composite checksum can be compared. `None`, as by default, if this kind
    /// of remote remembers no parts. Cancel-safe.
    ///
    /// Fails with `Changed` if `version` is given and the blob has another one. Fails with
    /// `Unsupported` if the response describes no part.
    async fn uploaded_part(
        &self,
        blob: &str,
        number: u32,
        version: Option<&Version>,
    ) -> Result<Option<UploadedPart>> {
        let _ = (blob, number, version);
        Ok(None)
    }
}
