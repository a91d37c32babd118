//! What [`Write`](super::Write) says of an upload in parts.

use std::fmt;
use std::num::NonZeroU32;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::{Checksum, StoredChecksum};

use super::{Payload, WriteOptions};
use crate::remote::{PageToken, Version};

/// An upload that has begun: all that another process needs to go on with it. It serialises, and what
/// it holds is secret: with the address of a Google session others could write the blob. A journal
/// that keeps it is its owner's alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Upload {
    /// The blob's name.
    pub blob: String,
    /// What the remote calls the upload.
    pub id: UploadId,
    /// What it was begun with.
    pub options: WriteOptions,
}

impl Upload {
    /// What [`Write::begin`](super::Write::begin) gives.
    pub fn new(blob: impl Into<String>, id: UploadId, options: &WriteOptions) -> Self {
        Self { blob: blob.into(), id, options: options.clone() }
    }
}

/// What a remote calls an upload: an id of S3, the address of a session of Google, a folder. Its
/// `Debug` form hides it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UploadId(String);

impl UploadId {
    /// An id, as the remote wrote it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id, as the remote wrote it.
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

/// A part to be stored.
#[derive(Clone, Debug)]
pub struct UploadPart {
    /// Parts make the blob in the order of their numbers.
    pub number: PartNumber,
    /// Offset in the blob of its first byte.
    pub offset: u64,
    /// Its bytes, with what they must hash to.
    pub payload: Payload,
}

/// A part that the remote has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPart {
    /// Its number.
    pub number: PartNumber,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// What the remote wants to be told of it again by `complete`: an entity tag of S3, the id of a
    /// block.
    pub tag: Option<String>,
    /// What the remote says that its bytes hash to.
    pub checksum: Option<Checksum>,
}

impl StoredPart {
    /// A part of this length. It has no tag and no checksum; both may be filled in.
    pub fn new(number: PartNumber, len_bytes: u64) -> Self {
        Self { number, len_bytes, tag: None, checksum: None }
    }
}

/// What a remote has of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadState {
    /// These parts, by number.
    Parts(Vec<StoredPart>),
    /// The blob's first bytes, this many; where parts began is forgotten.
    Prefix(u64),
    /// The blob is complete.
    Completed(Written),
}

/// What [`Write::complete`](super::Write::complete) is asked for.
#[derive(Clone, Debug)]
pub struct CompleteRequest {
    /// All parts, by number, as [`Write::part`](super::Write::part) or
    /// [`Write::parts`](super::Write::parts) gave them.
    pub parts: Vec<StoredPart>,
    /// Length of the whole in bytes.
    pub len_bytes: u64,
    /// What the whole must hash to.
    pub checksum: Option<Checksum>,
    /// The last part, where the profile says
    /// [`LastPart::WithComplete`](super::LastPart::WithComplete); it is not among `parts`.
    pub last: Option<UploadPart>,
}

impl CompleteRequest {
    /// A blob of these parts, and of nothing else.
    pub fn new(mut parts: Vec<StoredPart>) -> Self {
        parts.sort_by_key(|part| part.number);
        let len_bytes = parts.iter().map(|part| part.len_bytes).sum();
        Self { parts, len_bytes, checksum: None, last: None }
    }

    /// The same, with what the whole must hash to.
    #[must_use]
    pub fn with_checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

/// What was written, as far as the remote says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The version that the blob has now, which [`Read`](crate::remote::Read) can be asked for.
    pub version: Option<Version>,
    /// Checksums of the whole that the remote keeps or has compared.
    pub checksums: Vec<StoredChecksum>,
}

/// An upload that was begun and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedUpload {
    /// What [`Write::parts`](super::Write::parts) and [`Write::abort`](super::Write::abort) take. A
    /// remote does not say what the upload was begun with: its options are the default ones.
    pub upload: Upload,
    /// When it was begun.
    pub began: Option<SystemTime>,
}

impl UnfinishedUpload {
    /// An upload whose beginning is known as far as `began` says.
    pub fn new(upload: Upload, began: Option<SystemTime>) -> Self {
        Self { upload, began }
    }
}

/// One page of unfinished uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadPage {
    /// Those on this page.
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
