//! A written object: the metadata of its request, and the blob that the read side serves.

use std::{sync::Arc, time::SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};

use super::{
    algorithm::{Algorithm, Digests, Hasher, Wanted},
    call::{Call, Received},
    tags,
};
use crate::{
    blob::{Blob, Content},
    checksums::Kind,
    flavour::Flavour,
    request::Request,
    uploaded::{PartsAlgorithm, Uploaded, hex},
};

/// Fields of a request that every response about its object repeats.
const KEPT: [&str; 4] = ["Cache-Control", "Content-Disposition", "Content-Language", "Expires"];

/// What a request says about its object beyond the bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metadata {
    pub(crate) content_type: Option<String>,
    pub(crate) content_encoding: Option<String>,
    /// Fields of responses, by their whole names.
    pub(crate) fields: Vec<(String, String)>,
    /// The user's metadata, by names without the prefix of the flavour.
    pub(crate) user: Vec<(String, String)>,
    pub(crate) tags: Vec<(String, String)>,
}

/// The prefix of metadata fields.
pub(crate) fn prefix(flavour: Flavour) -> Option<&'static str> {
    match flavour {
        Flavour::S3 => Some("x-amz-meta-"),
        Flavour::Gcs => Some("x-goog-meta-"),
        Flavour::Azure => Some("x-ms-meta-"),
        Flavour::Http => None,
    }
}

impl Metadata {
    /// The metadata of an upload's first request.
    pub(crate) fn of(request: &Request, flavour: Flavour) -> Self {
        let own = |name: &str| match flavour {
            Flavour::Azure => request.field(&format!("x-ms-blob-{}", name.to_ascii_lowercase())),
            _ => request.field(name),
        };
        let mut metadata = Self {
            content_type: own("Content-Type")
                .or_else(|| request.field("content-type"))
                .map(str::to_owned),
            content_encoding: own("Content-Encoding").map(str::to_owned),
            tags: tags::of(request, flavour),
            ..Self::default()
        };
        for name in KEPT {
            if let Some(value) = own(name) {
                metadata.fields.push((name.to_owned(), value.to_owned()));
            }
        }
        if flavour == Flavour::S3
            && let Some(class) = request.field("x-amz-storage-class")
            && class != "STANDARD"
        {
            metadata.fields.push(("x-amz-storage-class".to_owned(), class.to_owned()));
        }
        let Some(prefix) = prefix(flavour) else { return metadata };
        for (name, value) in &request.fields {
            let name = name.to_ascii_lowercase();
            if let Some(short) = name.strip_prefix(prefix) {
                metadata.push(flavour, short, value.trim());
            }
        }
        metadata
    }

    /// The metadata of a list of blocks. The content type of the request is that of the list.
    pub(crate) fn of_list(request: &Request) -> Self {
        let content_type = request.field("x-ms-blob-content-type").map(str::to_owned);
        Self { content_type, ..Self::of(request, Flavour::Azure) }
    }

    /// The metadata of a blob, as a copy takes it.
    pub(crate) fn of_blob(blob: &Blob) -> Self {
        let fields = blob.fields.iter();
        Self {
            content_type: Some(blob.content_type.clone()),
            content_encoding: blob.content_encoding.clone(),
            fields: fields.map(|(name, value)| (name.to_string(), value.clone())).collect(),
            user: blob.metadata.clone(),
            tags: blob.tags.clone(),
        }
    }

    /// Adds an entry of the user's metadata.
    pub(crate) fn push(&mut self, flavour: Flavour, name: &str, value: &str) {
        self.user.push((name.to_owned(), value.to_owned()));
        if let Some(prefix) = prefix(flavour) {
            self.fields.push((format!("{prefix}{name}"), value.to_owned()));
        }
    }
}

/// A checksum that S3 keeps with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredChecksum {
    pub(crate) algorithm: Algorithm,
    pub(crate) raw: Vec<u8>,
    /// The number of parts if it is a checksum of checksums.
    pub(crate) parts: Option<usize>,
}

impl StoredChecksum {
    pub(crate) fn whole(algorithm: Algorithm, digests: &Digests) -> Self {
        Self { algorithm, raw: digests.value(algorithm), parts: None }
    }

    /// The fields of a response about the object, with one bit wrong if `wrong`.
    pub(crate) fn fields(&self, wrong: bool) -> [(&'static str, String); 2] {
        let mut raw = self.raw.clone();
        if let (true, Some(first)) = (wrong, raw.first_mut()) {
            *first ^= 1;
        }
        let text = self.text(&STANDARD.encode(raw));
        [(self.algorithm.header(), text), ("x-amz-checksum-type", self.kind().to_owned())]
    }

    /// `FULL_OBJECT` or `COMPOSITE`.
    pub(crate) fn kind(&self) -> &'static str {
        if self.parts.is_some() { "COMPOSITE" } else { "FULL_OBJECT" }
    }

    /// The value of its field from the base64 of its bytes.
    pub(crate) fn text(&self, base64: &str) -> String {
        match self.parts {
            Some(parts) => format!("{base64}-{parts}"),
            None => base64.to_owned(),
        }
    }
}

/// Bytes and what is known of them: of one request, or of the parts of many.
#[derive(Debug, Clone)]
pub(crate) struct Assembled {
    pub(crate) bytes: Option<Bytes>,
    pub(crate) len_bytes: u64,
    pub(crate) digests: Digests,
    pub(crate) etag: String,
    /// The lengths of the parts, if it was uploaded in parts.
    pub(crate) part_lens: Vec<u64>,
}

impl From<Received> for Assembled {
    fn from(received: Received) -> Self {
        let etag = received.etag();
        let Received { bytes, len_bytes, digests, .. } = received;
        Self { bytes, len_bytes, digests, etag, part_lens: Vec::new() }
    }
}

impl Assembled {
    /// Puts parts together. The checksums of the whole are computed from its bytes while there are
    /// any, so that they do not depend on the arithmetic that combines those of parts.
    pub(crate) fn of_parts(parts: &[Received]) -> Self {
        let kept = parts.iter().map(|part| part.bytes.as_ref()).collect::<Option<Vec<_>>>();
        let len_bytes = parts.iter().map(|part| part.len_bytes).sum();
        let bytes = kept.map(|pieces| {
            let mut whole = BytesMut::new();
            for piece in pieces {
                whole.extend_from_slice(piece);
            }
            whole.freeze()
        });
        let digests = match &bytes {
            Some(bytes) => {
                let mut hasher = Hasher::new(Wanted::default());
                hasher.update(bytes);
                hasher.finish()
            }
            None => parts.iter().fold(Digests::default(), |whole, part| {
                whole.followed_by(&part.digests, part.len_bytes)
            }),
        };
        let tags: Vec<u8> = parts.iter().flat_map(|part| part.tag.clone()).collect();
        let etag = format!("{}-{}", hex(&md5_of(&tags)), parts.len());
        let part_lens = parts.iter().map(|part| part.len_bytes).collect();
        Self { bytes, len_bytes, digests, etag, part_lens }
    }

    /// The blob of the read side.
    pub(crate) fn into_blob(
        self,
        call: &Call<'_>,
        metadata: Metadata,
        stored: Option<StoredChecksum>,
    ) -> Blob {
        let flavour = call.origin.options.flavour;
        let content = match self.bytes {
            Some(bytes) => Content::Memory(bytes),
            None => Content::Dropped { len_bytes: self.len_bytes },
        };
        let mut blob = Blob::of(content).with_last_modified(SystemTime::now());
        blob.version = call.origin.store.next_version();
        blob = match flavour {
            Flavour::S3 | Flavour::Gcs => blob.with_etag(self.etag),
            Flavour::Azure => {
                let etag = format!("0x8{:015X}", crate::random::mix(blob.version) >> 4);
                blob.with_etag(etag)
            }
            Flavour::Http => blob,
        };
        blob.preset(Kind::Crc32c, self.digests.value(Algorithm::Crc32c));
        blob.preset(Kind::Crc64Nvme, self.digests.value(Algorithm::Crc64Nvme));
        // The MD5 of an object in parts is not known to its store.
        blob.md5 = self.digests.md5.is_some() && self.part_lens.is_empty();
        if let Some(md5) = self.digests.md5 {
            blob.preset(Kind::Md5, md5);
        }
        if let Some(sha256) = self.digests.sha256 {
            blob.preset(Kind::Sha256, sha256);
        }
        if !self.part_lens.is_empty() && flavour == Flavour::S3 {
            blob.uploaded = Some(Arc::new(uploaded(&self.part_lens)));
        }
        blob.stored = stored;
        if let Some(content_type) = metadata.content_type {
            blob.content_type = content_type;
        }
        blob.content_encoding = metadata.content_encoding;
        blob.fields =
            metadata.fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        blob.metadata = metadata.user;
        blob.tags = metadata.tags;
        blob
    }
}

/// The places of the parts, for `?partNumber=`. The checksum is kept elsewhere.
fn uploaded(lens: &[u64]) -> Uploaded {
    let mut start = 0;
    let mut parts = Vec::with_capacity(lens.len());
    for len in lens {
        parts.push(start..start + len);
        start += len;
    }
    Uploaded { parts, algorithm: PartsAlgorithm::Md5, composite: Vec::new(), md5: Vec::new() }
}

fn md5_of(bytes: &[u8]) -> Vec<u8> {
    let mut hasher = Hasher::new(Wanted { md5: true, ..Wanted::default() });
    hasher.update(bytes);
    hasher.finish().md5.unwrap_or_default()
}
