//! Remotes: places that hold blobs. What can be asked of one is small on purpose: facts about a
//! blob, and a range of its bytes, pinned to a version.
//!
//! A remote makes exactly one attempt for each call and says, in the error, whether another can
//! help; trying again is the business of [`crate::read`]. It knows nothing of transfers.
//!
//! Every network remote sends its requests through one `transport::Transport`.
//!
//! What a caller adds to requests belongs in one of two places. What holds for everything that is
//! asked of a remote (extra headers, who pays, a customer's key) is in [`RemoteOptions`]. What is
//! about one blob is its [`Version`], which [`Location::at`] pins: each kind of version is the
//! precondition that its remote has for it, and is refused where there is none.
//!
//! Bytes always come as they are stored. Google's storage, which decompresses on the way for
//! those who do not accept `gzip`, is told that we do; the others are asked for `identity`, as
//! some servers compress on the way. An answer that was decompressed all the same is refused.

mod file;
pub(crate) mod local;
mod locate;
mod location;
mod pinned;
mod selection;
mod version;

#[cfg(feature = "azure")]
mod azure;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod credentials;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod customer_key;
#[cfg(feature = "_transport")]
mod extra_headers;
#[cfg(feature = "gcs")]
mod gcs;
#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod key;
#[cfg(feature = "_transport")]
mod network;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod object;
#[cfg(feature = "reapi")]
pub mod reapi;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod refusal;
#[cfg(feature = "_http1")]
mod response;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod s3_profile;
#[cfg(feature = "s3")]
mod s3_redirect;

#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
pub use customer_key::CustomerKey;
#[cfg(feature = "_transport")]
pub use extra_headers::ExtraHeaders;
pub use locate::RemoteOptions;
pub(crate) use locate::Remotes;
pub use location::Location;
pub(crate) use location::Stored;
pub use selection::Selection;
pub use version::Version;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use tidegate_core::checksum::StoredChecksum;
use tidegate_core::range::ByteRange;

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

/// What [`Remote::open`] is asked for.
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
    fn after_one_more(mut self) -> Self {
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

/// A place that holds blobs, addressed by a name each (an object's key, a URL, a path).
#[async_trait]
pub trait Remote: fmt::Debug + Send + Sync {
    /// Facts about a blob, in one request. Cancel-safe.
    async fn stat(&self, blob: &str) -> Result<BlobInfo>;

    /// Facts about one version of a blob, in one request; [`BlobInfo::version`] is of the same
    /// kind as `version`. Cancel-safe.
    ///
    /// Fails with `Changed` if the blob is of another version, and with `Invalid` for a version
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
