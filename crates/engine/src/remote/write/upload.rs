//! The types of an upload in parts: requests and results of [`Write`](super::Write).

use std::fmt;
use std::num::NonZeroU32;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::{Checksum, StoredChecksum};

use super::{Payload, WriteOptions};
use crate::remote::{PageToken, Version};

/// An upload that was started, with everything that another process needs to continue it. It can be
/// serialised. Its content is secret: any process with the address of a Google session could write
/// the blob. So only its owner may read a journal that contains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Upload {
    /// The blob's name.
    pub blob: String,
    /// The remote's id of the upload.
    pub id: UploadId,
    /// The options that it was started with.
    pub options: WriteOptions,
}

impl Upload {
    /// An upload, as [`Write::begin`](super::Write::begin) returns it.
    pub fn new(blob: impl Into<String>, id: UploadId, options: &WriteOptions) -> Self {
        Self { blob: blob.into(), id, options: options.clone() }
    }
}

/// The remote's id of an upload: an id of S3, the address of a session of Google, a folder. Its
/// `Debug` form hides it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UploadId(String);

impl UploadId {
    /// An id, in the remote's own format.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id, in the remote's own format.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadId(..)")
    }
}

/// The number of a part. The first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(NonZeroU32);

impl PartNumber {
    /// The number of the first part.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// `None` for 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for PartNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A part to store.
#[derive(Clone, Debug)]
pub struct UploadPart {
    /// Its number. The blob consists of the parts in the order of their numbers.
    pub number: PartNumber,
    /// Offset in the blob of its first byte.
    pub offset: u64,
    /// Its bytes and their checksum.
    pub payload: Payload,
}

/// A part that the remote has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPart {
    /// Its number.
    pub number: PartNumber,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// An identifier that the remote expects again in `complete`: an entity tag of S3, the id of a
    /// block.
    pub tag: Option<String>,
    /// The checksum of its bytes, as the remote reports it.
    pub checksum: Option<Checksum>,
}

impl StoredPart {
    /// A part of this length. It has no tag and no checksum; the caller may set both.
    pub fn new(number: PartNumber, len_bytes: u64) -> Self {
        Self { number, len_bytes, tag: None, checksum: None }
    }
}

/// The remote's state of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadState {
    /// The remote has these parts, sorted by number.
    Parts(Vec<StoredPart>),
    /// The remote has this many of the blob's first bytes; it does not know the boundaries of
    /// parts.
    Prefix(u64),
    /// The blob is complete.
    Completed(Written),
}

/// The request of [`Write::complete`](super::Write::complete).
#[derive(Clone, Debug)]
pub struct CompleteRequest {
    /// All parts, by number, as [`Write::part`](super::Write::part) or
    /// [`Write::parts`](super::Write::parts) returned them.
    pub parts: Vec<StoredPart>,
    /// Length of the whole in bytes.
    pub len_bytes: u64,
    /// The expected checksum of the whole.
    pub checksum: Option<Checksum>,
    /// The last part, if the profile says
    /// [`LastPart::WithComplete`](super::LastPart::WithComplete); it is not in `parts`.
    pub last: Option<UploadPart>,
}

impl CompleteRequest {
    /// A blob of exactly these parts.
    pub fn new(mut parts: Vec<StoredPart>) -> Self {
        parts.sort_by_key(|part| part.number);
        let len_bytes = parts.iter().map(|part| part.len_bytes).sum();
        Self { parts, len_bytes, checksum: None, last: None }
    }

    /// The same, with the expected checksum of the whole.
    #[must_use]
    pub fn with_checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

/// The result of a write, as far as the remote reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The new version of the blob, for requests of [`Read`](crate::remote::Read).
    pub version: Option<Version>,
    /// Checksums of the whole that the remote keeps or has verified.
    pub checksums: Vec<StoredChecksum>,
}

/// An upload that was started and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedUpload {
    /// The upload, for [`Write::parts`](super::Write::parts) and
    /// [`Write::abort`](super::Write::abort). A remote does not report the options of an upload:
    /// these are the default ones.
    pub upload: Upload,
    /// When it was started.
    pub began: Option<SystemTime>,
}

impl UnfinishedUpload {
    /// An upload; `began` is `None` if its start is unknown.
    pub fn new(upload: Upload, began: Option<SystemTime>) -> Self {
        Self { upload, began }
    }
}

/// One page of unfinished uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadPage {
    /// The uploads on this page.
    pub uploads: Vec<UnfinishedUpload>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<PageToken>,
}

impl UploadPage {
    /// A page.
    pub fn new(uploads: Vec<UnfinishedUpload>, next: Option<PageToken>) -> Self {
        Self { uploads, next }
    }
}
