//! What a test sees of an object, without a request.

use bytes::Bytes;

use super::algorithm::{Algorithm, Digests, Hasher, Wanted};
use crate::{
    blob::{Blob, Content},
    checksums::Kind,
};

/// An object as the server holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The content; `None` if it was dropped or is in a file.
    pub bytes: Option<Bytes>,
    /// The length of the content.
    pub len_bytes: u64,
    /// The CRC-32C of the content; 0 if it cannot be read.
    pub crc32c: u32,
    /// The CRC-64/NVME of the content; 0 if it cannot be read.
    pub crc64_nvme: u64,
    /// The `ETag` without quotes.
    pub etag: String,
    /// The generation of GCS.
    pub version: u64,
    /// The media type.
    pub content_type: String,
    /// The user's metadata, by names without the flavour's prefix, in the order of the request.
    pub metadata: Vec<(String, String)>,
    /// The tags.
    pub tags: Vec<(String, String)>,
    /// All further fields that responses about it have, metadata included.
    pub fields: Vec<(String, String)>,
    /// The lengths of its parts, if it was uploaded in parts and the flavour remembers them.
    pub part_lens: Vec<u64>,
}

impl Stored {
    pub(crate) fn of(blob: &Blob) -> Self {
        let digests = digests(blob);
        let bytes = match &blob.content {
            Content::Memory(bytes) => Some(bytes.clone()),
            Content::File { .. } | Content::Dropped { .. } => None,
        };
        let fields = blob.fields.iter().map(|(name, value)| (name.to_string(), value.clone()));
        let parts = blob.uploaded.iter().flat_map(|uploaded| uploaded.parts.iter());
        Self {
            bytes,
            len_bytes: blob.len_bytes(),
            crc32c: u32::try_from(digests.crc32c).unwrap_or(0),
            crc64_nvme: digests.crc64_nvme,
            etag: blob.etag(),
            version: blob.version(),
            content_type: blob.content_type.clone(),
            metadata: blob.metadata.clone(),
            tags: blob.tags.clone(),
            fields: fields.collect(),
            part_lens: parts.map(|part| part.end - part.start).collect(),
        }
    }

    /// The value of an entry of the user's metadata, by its name in any case.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        let mut entries = self.metadata.iter();
        entries.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The CRCs of a blob: those that were computed when it arrived, or else computed now.
pub(crate) fn digests(blob: &Blob) -> Digests {
    if let Content::Dropped { .. } = blob.content {
        return known_digests(blob);
    }
    let mut hasher = Hasher::new(Wanted::default());
    match blob.content.scan(0, blob.len_bytes(), |piece| hasher.update(piece)) {
        Ok(()) => hasher.finish(),
        Err(_unreadable) => Digests::default(),
    }
}

/// The checksums that a blob has without its bytes.
pub(crate) fn known_digests(blob: &Blob) -> Digests {
    let number = |kind: Kind| {
        let raw = blob.known(kind).unwrap_or_default();
        raw.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let stored = blob.stored.as_ref().filter(|stored| stored.parts.is_none());
    let stored = stored.filter(|stored| stored.algorithm == Algorithm::Crc32);
    let crc32 = stored.map_or(0, |stored| {
        stored.raw.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    });
    Digests {
        crc64_nvme: number(Kind::Crc64Nvme),
        crc32c: number(Kind::Crc32c),
        crc32,
        md5: blob.known(Kind::Md5),
        sha1: None,
        sha256: blob.known(Kind::Sha256),
    }
}
