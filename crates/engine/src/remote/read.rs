//! [`Read`]: facts about a blob, and a range of its bytes, pinned to a version.
//!
//! A remote makes exactly one attempt for each call. Its error says whether another attempt can help;
//! [`crate::read`] makes it. A remote knows nothing of transfers.
//!
//! Bytes come as they are stored. Google's storage decompresses for clients that do not accept `gzip`,
//! so requests to it accept `gzip`; requests to the others ask for `identity`, as some servers compress
//! on the way. A response that was decompressed anyway is refused.

use std::fmt;
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

/// What a remote says of a blob, as far as it says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobInfo {
    /// Length in bytes of what the remote stores.
    pub len_bytes: Option<u64>,
    /// What pins the content.
    pub version: Option<Version>,
    /// Checksums of the stored bytes.
    pub checksums: Vec<StoredChecksum>,
    /// `Content-Encoding` of the stored bytes, `identity` left out.
    pub content_encoding: Option<String>,
    /// Media type.
    pub content_type: Option<String>,
    /// When it was last changed, as the remote writes it.
    pub last_modified: Option<String>,
    /// Names this content and no other that the blob's name ever led to: a generation of Google
    /// Cloud Storage, or a version id of S3 or Azure together with the entity tag. `None` where the
    /// remote gives none of these.
    pub revision: Option<String>,
}

/// What [`Read::open`] is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// The bytes wanted; never empty.
    pub range: ByteRange,
    /// The version that they must be of; `None` takes whatever there is.
    pub version: Option<Version>,
}

/// An answer whose bytes are on their way.
#[non_exhaustive]
pub struct Opened {
    /// Facts that came with the answer.
    pub info: BlobInfo,
    /// Offset in the blob of the body's first byte.
    pub start: u64,
    /// Offset in the blob of the byte after the body's last; `None` where the remote does not say.
    /// A body that goes on beyond it is an error.
    pub end: Option<u64>,
    /// The remote ignored the range and sends the whole blob.
    pub whole: bool,
    /// The bytes come in the coding that the facts name, although they were asked for without.
    pub encoded_unasked: bool,
    /// The bytes come as their maker makes them, as in a pipe: however long that takes is no stall.
    pub unhurried: bool,
    /// From asking until the head of the answer.
    pub waited: Duration,
    /// Requests that it took: redirects, and what the remote had to look up, count too.
    pub requests: u32,
    /// The bytes.
    pub body: Body,
}

impl Opened {
    /// An answer to one request, whose body begins at offset `start` of the blob. It says no end
    /// and no time; both may be filled in.
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

    /// Counts a request that led to this answer.
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

/// A place whose blobs can be read, each by its name (an object's key, a URL, a path).
#[async_trait]
pub trait Read: fmt::Debug + Send + Sync {
    /// Facts about a blob, in one request. Cancel-safe.
    async fn stat(&self, blob: &str) -> Result<BlobInfo>;

    /// Facts about one version of a blob, in one request; [`BlobInfo::version`] is of the same
    /// kind as `version`. Cancel-safe.
    ///
    /// Fails with `Changed` if the blob is of another version (with `NotFound` where versions are
    /// objects of their own, as generations are, and this one is gone), and with `Invalid` for a version
    /// that [`Self::check_version`] refuses.
    async fn stat_version(&self, blob: &str, version: &Version) -> Result<BlobInfo> {
        self.check_version(version)?;
        let info = self.stat(blob).await?;
        version.expect(info.version.as_ref(), Operation::Stat, "the blob")?;
        Ok(info)
    }

    /// Whether blobs here can be asked for by this version: `Invalid` for a kind that this remote
    /// does not count by, and for text that cannot be of its kind. No request is sent.
    fn check_version(&self, version: &Version) -> Result<()> {
        let _ = version;
        Ok(())
    }

    /// Everything that decides which object the name `blob` leads to: the whole URL, the endpoint,
    /// the user, headers. An interrupted download is resumed without more proof only if this is what
    /// it was; where it is `None`, as by default, a checksum of the whole blob has to prove the
    /// result. No request is sent.
    fn selection(&self, blob: &str) -> Option<Selection> {
        let _ = blob;
        None
    }

    /// Asks for a range of a blob, in one request. Dropping the future or the body ends the
    /// request.
    ///
    /// Where `request.version` is given, [`BlobInfo::version`] of the answer is of the same kind: an
    /// answer that names another version, or none, is not read.
    ///
    /// Fails with `Changed` if `request.version` is given and the blob is of another, with
    /// `NotFound`, `NoAccess`, `Invalid` (the range starts beyond the end) and so on; an error's
    /// [`crate::Error::retry`] says whether the same call can succeed later.
    ///
    /// What the remote needs to decode the bytes is taken from `budget`, without waiting, since the
    /// caller holds a request of it.
    async fn open(&self, blob: &str, request: &OpenRequest, budget: &Budget) -> Result<Opened>;

    /// Whether the answer to a ranged [`Self::open`] names all the checksums that
    /// [`Self::stat`] does; where it does not, a reader that wants them asks both side by side.
    fn open_gives_checksums(&self) -> bool {
        true
    }
}
