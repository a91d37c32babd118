//! [`Write`]: storing blobs, in one request or in parts.
//!
//! | file | idea |
//! |---|---|
//! | [`payload`] | a request body that can be sent again |
//! | [`profile`] | the abilities and limits of a remote: sizes, checksums, preconditions, parts |
//! | [`upload`] | an upload in parts: its id, its parts, its state, its result |
//!
//! As [`Read`](super::Read), a remote makes one attempt for each call and says in the error whether
//! another attempt can help. The caller makes the attempts, holds the bytes, and charges them to
//! its budget.
//!
//! # One trait for four protocols
//!
//! | | S3 multipart | Azure blocks | GCS session | file |
//! |---|---|---|---|---|
//! | order of parts | any | any | in order | any |
//! | position of a part | its number | its number | its offset | its offset |
//! | precondition is checked | at the end | at the end | at the beginning | at both ends |
//! | last part | by itself | by itself | with `complete` | by itself |
//! | state after a crash | list of parts | list of parts | length of the prefix | list of parts |
//!
//! So a part has both a number and an offset. The caller gives the precondition to `begin`, and the
//! [`Upload`] carries it to `complete`. The [`PartProfile`] says how the last part is sent.
//! [`UploadState`] has a form for each kind of state.
//!
//! # When a response is lost
//!
//! A remote may have executed a request although its response was lost. A part that is sent again
//! replaces itself. After a `complete` or `put` with an unknown result, the caller checks before it
//! sends again: [`Write::parts`] returns [`UploadState::Completed`] or fails with `NotFound`, and
//! [`Read::stat`](super::Read::stat) shows the current blob. Otherwise the caller would take its
//! own success for another writer's: a second `put` under [`Precondition::Absent`] fails with
//! `AlreadyExists`.

mod payload;
mod profile;
mod upload;

pub use payload::Payload;
#[cfg(feature = "_http1")]
pub(super) use payload::source_error;
pub use profile::{Guarantee, LastPart, MetadataNames, PartOrder, PartProfile, WriteProfile};
pub use upload::{
    CompleteRequest, PartNumber, StoredPart, UnfinishedUpload, Upload, UploadId, UploadPage,
    UploadPart, UploadState, Written,
};

use std::fmt;
use std::ops::Range;
use std::time::SystemTime;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{PageToken, Version};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::sink::file::Durability;

/// A condition on the target that a write requires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Precondition {
    /// No condition: an existing blob is replaced.
    #[default]
    None,
    /// No blob has the name; otherwise the write fails with `AlreadyExists`.
    Absent,
    /// The blob has this version; otherwise, or if there is no blob, the write fails with
    /// `Changed`.
    Version(Version),
}

/// The caller's options for a write.
///
/// By default an existing blob is replaced, the remote decides the media type, and a file's bytes
/// are on the disk before it gets its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The condition on the target.
    pub precondition: Precondition,
    /// Media type. Remotes without metadata ignore it.
    pub content_type: Option<String>,
    /// Coding of the bytes, such as `gzip`. Remotes without metadata ignore it.
    pub content_encoding: Option<String>,
    /// `Cache-Control` of its responses. Remotes without metadata ignore it.
    pub cache_control: Option<String>,
    /// The caller's own names and values. Remotes without metadata ignore them
    /// ([`WriteProfile::metadata`]).
    pub metadata: Vec<(String, String)>,
    /// Names and values by which the provider's rules choose blobs, at remotes that have them.
    pub tags: Vec<(String, String)>,
    /// The class of storage, in the remote's own words, such as `STANDARD_IA`.
    pub storage_class: Option<String>,
    /// Further header fields of the request that makes the blob, such as those of encryption.
    pub headers: Vec<(String, String)>,
    /// The modification time of the source. Remotes with metadata keep it under the names that
    /// other tools use.
    pub modified: Option<SystemTime>,
    /// A random text that the remote keeps with the blob, so that a writer recognises its own blob
    /// after a lost response: see [`Write::landed`].
    pub mark: Option<String>,
    /// How much must be on the disk when a local write ends. Network remotes ignore it.
    pub durability: Durability,
}

impl WriteOptions {
    /// The default, with this precondition.
    #[must_use]
    pub fn when(precondition: Precondition) -> Self {
        Self { precondition, ..Self::default() }
    }

    /// Whether they describe the blob: its type, its coding, its metadata and the like.
    #[must_use]
    pub fn describes(&self) -> bool {
        let texts = [&self.content_type, &self.content_encoding, &self.cache_control, &self.mark];
        texts.iter().any(|text| text.is_some())
            || !self.metadata.is_empty()
            || !self.headers.is_empty()
            || self.modified.is_some()
    }
}

/// How a write makes its blob: a remote may keep a precondition in one way and not in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteWay {
    /// By [`Write::put`].
    Put,
    /// By [`Write::complete`].
    Parts,
}

/// A bucket, or whatever a service calls the place of one remote's blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucket {
    /// Equal for buckets between which the provider copies: they share the service, the client and
    /// its credentials.
    pub service: String,
    /// Its name there.
    pub name: String,
}

/// The source of [`Write::copy`] and [`Write::copy_part`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopySource {
    /// The name of its bucket; `None` for that of the target.
    pub bucket: Option<String>,
    /// Its name there.
    pub blob: String,
    /// The version that it must have; `None` takes any version.
    pub version: Option<Version>,
}

impl CopySource {
    /// A blob in the bucket of the target, in any version.
    pub fn new(blob: impl Into<String>) -> Self {
        Self { bucket: None, blob: blob.into(), version: None }
    }

    /// The same blob in this version, or in any.
    #[must_use]
    pub fn at(self, version: Option<Version>) -> Self {
        Self { version, ..self }
    }

    /// A blob of the same name in this bucket; `None` for that of the target.
    #[must_use]
    pub fn in_bucket(self, bucket: Option<String>) -> Self {
        Self { bucket, ..self }
    }
}

/// A remote that stores blobs.
///
/// A blob appears under its name only when it is complete: readers see the old content or the new,
/// never a mixture and never a part. Only [`Self::parts`] and [`Self::uploads`] show what a failed
/// or dropped call leaves behind.
///
/// The methods for parts and copies fail with `Unsupported` by default; [`WriteProfile::parts`] and
/// [`WriteProfile::copy_bytes_max`] say in advance whether the remote supports them.
///
/// # Errors
///
/// All calls: `AlreadyExists` and `Changed` for a precondition that does not hold, `Integrity` for
/// bytes that do not match their checksum, `Unsupported` for requests that the profile excludes,
/// `NoAccess`, `Storage` (no space), `Throttled`, `Transport` and so on.
#[async_trait]
pub trait Write: fmt::Debug + Send + Sync {
    /// The profile of this remote under this precondition, as far as it is known now: a remote that
    /// once refused a checksum does not offer it again. Sends no request.
    fn write_profile(&self, precondition: &Precondition) -> WriteProfile;

    /// Headers of the remote's own options that describe each new blob. All writes add them; a copy
    /// needs to know them because they replace the description of its source. Sends no request.
    fn blob_headers(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Proves that the remote keeps the precondition of `options` when writers race, before a write
    /// of `blob` in this way. A remote that is known to keep it does nothing. Others race a few
    /// writers for hidden blobs beside `blob`, whose names begin with `.tidegate-probe-`, and remove
    /// them again. The result is kept for as long as the remote.
    ///
    /// Returns a note for the user if something of the proof stays behind: to remove a blob takes
    /// another right than to write it.
    ///
    /// Dropping the future may leave blobs of the proof behind.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the precondition is ignored or not kept in a race.
    async fn prove(
        &self,
        blob: &str,
        options: &WriteOptions,
        way: WriteWay,
    ) -> Result<Option<String>> {
        let _ = (blob, options, way);
        Ok(None)
    }

    /// Stores a whole blob in one request, of at most [`WriteProfile::put_bytes_max`] bytes. The
    /// remote verifies the payload's checksum, if it has one, before the blob appears.
    ///
    /// Dropping the future ends the request; the remote may still store the blob.
    async fn put(&self, blob: &str, payload: &Payload, options: &WriteOptions) -> Result<Written>;

    /// Whether the blob is the one that a write with these options made: whether it has their
    /// [mark](WriteOptions::mark). Returns `None` if it has not, if there is no blob, or if the
    /// options have no mark. For a caller that got no response to its write. Cancel-safe.
    async fn landed(&self, blob: &str, options: &WriteOptions) -> Result<Option<Written>> {
        let _ = (blob, options);
        Ok(None)
    }

    /// The tags of a blob, in this version or the newest, for remotes that keep tags
    /// ([`WriteProfile::keeps_tags`]). Cancel-safe.
    async fn tags(&self, blob: &str, version: Option<&Version>) -> Result<Vec<(String, String)>> {
        let _ = version;
        let message = "the remote keeps no tags";
        Err(Error::new(ErrorKind::Unsupported, Operation::Stat, blob, message))
    }

    /// Begins an upload in parts, in one request. Fails early if the precondition is already known
    /// not to hold.
    ///
    /// Dropping the future may leave an upload behind, which only [`Self::uploads`] finds.
    async fn begin(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        let _ = options;
        Err(no_parts(blob))
    }

    /// The part profile of this upload. Sends no request. It may differ from the profile that
    /// [`Self::write_profile`] gave before the upload began: if Google Cloud Storage forbids
    /// parallel parts, `begin` falls back to a session, whose parts are sent in order.
    fn part_profile(&self, upload: &Upload) -> Option<PartProfile> {
        self.write_profile(&upload.options.precondition).parts
    }

    /// Stores one part, in one request. A part of the same number is replaced, so the call can be
    /// repeated. If [`PartProfile::order`] is [`PartOrder::Any`], parts may be stored in parallel.
    ///
    /// Dropping the future ends the request. The part may be stored or lost, but is never a
    /// mixture.
    ///
    /// Fails with `NotFound` if the remote does not know the upload.
    async fn part(&self, upload: &Upload, part: &UploadPart) -> Result<StoredPart> {
        let _ = part;
        Err(no_parts(&upload.blob))
    }

    /// Begins an upload whose parts are copies ([`Self::copy_part`]), as [`Self::begin`] does.
    async fn begin_copies(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        self.begin(blob, options).await
    }

    /// Stores a part that is a copy of this range of a blob, in one request. No byte passes through
    /// this process. For remotes whose parts can be copies ([`PartProfile::copies`]).
    ///
    /// Fails as [`Self::part`] and [`Self::copy`] do.
    async fn copy_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        source: &CopySource,
        range: Range<u64>,
    ) -> Result<StoredPart> {
        let _ = (number, source, range);
        Err(no_parts(&upload.blob))
    }

    /// The remote's state of an upload, from which a resumed upload continues. Its memory is
    /// bounded by [`PartProfile::count_max`], about 100 bytes per part. Cancel-safe.
    ///
    /// Fails with `NotFound` if the remote does not know the upload: completed, aborted or expired.
    async fn parts(&self, upload: &Upload) -> Result<UploadState> {
        Err(no_parts(&upload.blob))
    }

    /// Makes the blob from its parts. The remote compares every part with its entry in `request`.
    /// It verifies [`CompleteRequest::checksum`] of the whole if [`PartProfile::whole_checksums`]
    /// has its algorithm.
    ///
    /// Fails with `Invalid` if the parts do not add up to the blob. After a failure the upload
    /// still exists and can be completed or aborted, unless [`Self::parts`] fails with `NotFound`:
    /// then the caller must begin a new upload.
    ///
    /// Dropping the future may leave the blob complete or the upload unfinished; [`Self::parts`]
    /// shows which.
    async fn complete(&self, upload: &Upload, request: &CompleteRequest) -> Result<Written> {
        let _ = request;
        Err(no_parts(&upload.blob))
    }

    /// Ends an upload and removes its parts. A missing upload counts as aborted. A part that is in
    /// flight at the same time may survive at some remotes, so the caller first waits for its
    /// parts.
    ///
    /// Dropping the future may leave parts; the call can be repeated.
    async fn abort(&self, upload: &Upload) -> Result<()> {
        Err(no_parts(&upload.blob))
    }

    /// One page of the unfinished uploads of blobs whose names begin with `prefix`, of any process;
    /// the page begins at `from`. It includes uploads that another process is still writing. Some
    /// servers respond only for the exact name of a blob. Cancel-safe.
    ///
    /// Memory in addition to the page is taken from `budget`, as in
    /// [`List::list`](super::List::list).
    async fn uploads(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
        budget: &Budget,
    ) -> Result<UploadPage> {
        let _ = (from, budget);
        Err(no_parts(prefix))
    }

    /// The bucket in which the blobs are, if the provider copies between its buckets.
    fn bucket(&self) -> Option<Bucket> {
        None
    }

    /// Stores a copy of a blob, of at most [`WriteProfile::copy_bytes_max`] bytes. No byte passes
    /// through this process if the remote can avoid it.
    ///
    /// The copy is described as its source unless the options describe it
    /// ([`WriteOptions::describes`]): then they replace the whole description. Where
    /// [`WriteProfile::copy_describes`] is not set, they replace the metadata only.
    ///
    /// Fails with `NotFound` if the source is missing, and with `Changed` if it has another version
    /// or changes during the copy.
    ///
    /// Dropping the future ends the request; the remote may still store the copy.
    async fn copy(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        let _ = (source, options);
        let message = "the remote does not copy blobs";
        Err(Error::new(ErrorKind::Unsupported, Operation::Write, blob, message))
    }
}

fn no_parts(blob: &str) -> Error {
    let message = "the remote does not take uploads in parts";
    Error::new(ErrorKind::Unsupported, Operation::Write, blob, message)
}
