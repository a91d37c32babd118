//! [`Write`]: storing blobs, in one request or in parts.
//!
//! | file | idea |
//! |---|---|
//! | [`payload`] | bytes to send, which can be sent again |
//! | [`profile`] | what a remote takes: sizes, checksums, preconditions, parts |
//! | [`upload`] | an upload in parts: its id, its parts, its state, its result |
//!
//! As [`Read`](super::Read), a remote makes one attempt for each call and says in the error whether
//! another attempt can help. The caller makes it, holds the bytes, and pays for them from its budget.
//!
//! # One trait for four protocols
//!
//! | | S3 multipart | Azure blocks | GCS session | file |
//! |---|---|---|---|---|
//! | order of parts | any | any | in order | any |
//! | where a part belongs | its number | its number | its offset | its offset |
//! | precondition is checked | at the end | at the end | at the beginning | at both ends |
//! | last part | by itself | by itself | with `complete` | by itself |
//! | state after a crash | list of parts | list of parts | length of the prefix | list of parts |
//!
//! So a part has both a number and an offset; the precondition is given to `begin`, and the
//! [`Upload`] carries it to `complete`; the [`PartProfile`] says where the last part travels; and
//! [`UploadState`] has a form for each kind of state.
//!
//! # When a response is lost
//!
//! A remote may have done what it was asked for, although the response never came. A part sent again
//! replaces itself. After a `complete` or `put` whose result is unknown, the caller looks before it
//! sends again: [`Write::parts`] says [`UploadState::Completed`] or fails with `NotFound`, and
//! [`Read::stat`](super::Read::stat) shows what has the name. Otherwise the caller would take its own
//! success for another writer's: a second `put` under [`Precondition::Absent`] fails with
//! `AlreadyExists`.

mod payload;
mod profile;
mod upload;

pub use payload::Payload;
pub use profile::{Guarantee, LastPart, PartOrder, PartProfile, WriteProfile};
pub use upload::{
    CompleteRequest, PartNumber, StoredPart, UnfinishedUpload, Upload, UploadId, UploadPage,
    UploadPart, UploadState, Written,
};

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{PageToken, Version};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::sink::file::Durability;

/// What must be true of the target for a write to take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Precondition {
    /// Nothing: what has the name is replaced.
    #[default]
    None,
    /// Nothing has the name; else the write fails with `AlreadyExists`.
    Absent,
    /// The blob is of this version; else, also where there is none, the write fails with `Changed`.
    Version(Version),
}

/// What a caller chooses about a write.
///
/// By default what has the name is replaced, the remote decides the media type, and a file's bytes
/// are on the disk before it gets its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What must be true of the target.
    pub precondition: Precondition,
    /// Media type. Remotes without metadata ignore it.
    pub content_type: Option<String>,
    /// Coding of the bytes, such as `gzip`. Remotes without metadata ignore it.
    pub content_encoding: Option<String>,
    /// The caller's own names and values. Remotes without metadata ignore them
    /// ([`WriteProfile::keeps_metadata`]).
    pub metadata: Vec<(String, String)>,
    /// What must be on the disk when a local write ends. Remotes behind a network ignore it.
    pub durability: Durability,
}

impl WriteOptions {
    /// The default, under this precondition.
    #[must_use]
    pub fn when(precondition: Precondition) -> Self {
        Self { precondition, ..Self::default() }
    }
}

/// The source of [`Write::copy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// Its name at the same remote.
    pub blob: String,
    /// The version that it must be of; `None` takes whatever there is.
    pub version: Option<Version>,
}

/// A place that stores blobs.
///
/// A blob appears under its name only as a whole: readers see the old content or the new, never a
/// mixture and never a part. What a failed or dropped call leaves behind is seen only by
/// [`Self::parts`] and [`Self::uploads`].
///
/// The methods for parts and copies fail with `Unsupported` by default; [`WriteProfile::parts`] and
/// [`WriteProfile::copy_bytes_max`] say in advance whether they are there.
///
/// # Errors
///
/// All calls: `AlreadyExists` and `Changed` for a precondition that does not hold, `Integrity` for
/// bytes that are not what their checksum says, `Unsupported` for what the profile rules out,
/// `NoAccess`, `Storage` (no space), `Throttled`, `Transport` and so on.
#[async_trait]
pub trait Write: fmt::Debug + Send + Sync {
    /// What this remote takes under this precondition, as far as known now: a remote that refused a
    /// checksum once does not name it again. No request is sent.
    fn write_profile(&self, precondition: &Precondition) -> WriteProfile;

    /// Stores a whole blob in one request, of at most [`WriteProfile::put_bytes_max`] bytes. The
    /// remote compares the bytes with the payload's checksum, if it has one, before the blob appears.
    ///
    /// Dropping the future ends the request. The blob may be stored nevertheless.
    async fn put(&self, blob: &str, payload: &Payload, options: &WriteOptions) -> Result<Written>;

    /// Begins an upload in parts, in one request. Fails early where the precondition is already
    /// known not to hold.
    ///
    /// Dropping the future may leave an upload behind, which only [`Self::uploads`] finds.
    async fn begin(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        let _ = options;
        Err(no_parts(blob))
    }

    /// What parts this upload takes. No request is sent. It may differ from what
    /// [`Self::write_profile`] said before the upload began: where Google Cloud Storage forbids
    /// parallel parts, `begin` falls back to a session, whose parts come in order.
    fn part_profile(&self, upload: &Upload) -> Option<PartProfile> {
        self.write_profile(&upload.options.precondition).parts
    }

    /// Stores one part, in one request. A part of the same number is replaced, so the call can be
    /// repeated. Where [`PartProfile::order`] is [`PartOrder::Any`], parts may be stored in parallel.
    ///
    /// Dropping the future ends the request. The part may be stored, or lost; never a mixture.
    ///
    /// Fails with `NotFound` where the remote does not know the upload.
    async fn part(&self, upload: &Upload, part: &UploadPart) -> Result<StoredPart> {
        let _ = part;
        Err(no_parts(&upload.blob))
    }

    /// What the remote has of an upload: what a resumed upload believes. Its memory is bounded by
    /// [`PartProfile::count_max`], some 100 bytes a part. Cancel-safe.
    ///
    /// Fails with `NotFound` where the remote does not know the upload: completed, aborted, expired.
    async fn parts(&self, upload: &Upload) -> Result<UploadState> {
        Err(no_parts(&upload.blob))
    }

    /// Makes the blob of its parts. The remote compares every part with what `request` says of it,
    /// and the whole with [`CompleteRequest::checksum`] where [`PartProfile::whole_checksums`] has
    /// its algorithm.
    ///
    /// Fails with `Invalid` where the parts do not add up to the blob. After a failure the upload is
    /// still there and can be completed or aborted, unless [`Self::parts`] fails with `NotFound`: then
    /// it must begin anew.
    ///
    /// Dropping the future may leave the blob complete or the upload unfinished; [`Self::parts`] tells.
    async fn complete(&self, upload: &Upload, request: &CompleteRequest) -> Result<Written> {
        let _ = request;
        Err(no_parts(&upload.blob))
    }

    /// Ends an upload and removes its parts. An upload that is not there counts as aborted. A part
    /// that is on its way meanwhile may survive at some remotes: the caller waits for its parts
    /// first.
    ///
    /// Dropping the future may leave parts; the call can be repeated.
    async fn abort(&self, upload: &Upload) -> Result<()> {
        Err(no_parts(&upload.blob))
    }

    /// One page of the unfinished uploads of blobs whose names begin with `prefix`, of any process;
    /// the next one begins at `from`. An upload that another process is still writing is among them.
    /// Some servers answer only for the exact name of a blob. Cancel-safe.
    ///
    /// Memory beyond the page is taken from `budget`, as in [`List::list`](super::List::list).
    async fn uploads(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
        budget: &Budget,
    ) -> Result<UploadPage> {
        let _ = (from, budget);
        Err(no_parts(prefix))
    }

    /// Stores a copy of a blob of this remote, of at most [`WriteProfile::copy_bytes_max`] bytes. No
    /// byte passes through this process where the remote can avoid it.
    ///
    /// Fails with `NotFound` where there is no source, and with `Changed` where it is of another
    /// version or changes meanwhile.
    ///
    /// Dropping the future ends the request. The copy may be stored nevertheless.
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
