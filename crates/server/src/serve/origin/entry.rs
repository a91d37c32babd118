//! [`Entry`]: the version, length and digest of a blob of an origin, as an opaque value of the store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use tidegate::remote::{BlobInfo, Version};
use tidegate_core::digest::Digest;

use super::{BlobPath, Origins};
use crate::serve::fill::Description;

/// What the server knows of a blob that it has fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    version: Option<Version>,
    /// The digest, which has the length.
    digest: String,
    /// The checksums of the remote that the bytes were compared with; none if it has none.
    verified_by: Vec<String>,
    content_type: Option<String>,
    content_encoding: Option<String>,
    /// When the remote confirmed the version, in milliseconds since 1970.
    confirmed_ms: u64,
}

/// The longest entry. Texts of a remote are bounded by the headers of a response.
const ENTRY_BYTES_MAX: u64 = 256 << 10;

impl Entry {
    pub(super) fn new(digest: &Digest, info: &BlobInfo, verified_by: Vec<String>) -> Self {
        Self {
            version: info.version.clone(),
            digest: digest.to_string(),
            verified_by,
            content_type: info.content_type.clone(),
            content_encoding: info.content_encoding.clone(),
            confirmed_ms: now_ms(),
        }
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        Digest::parse(&self.digest).ok()
    }

    /// Whether the remote confirmed it at this time or later, in milliseconds since 1970.
    pub(super) fn is_since(&self, since_ms: u64) -> bool {
        self.confirmed_ms >= since_ms
    }

    /// Whether the remote confirmed it within this time. A time in the future is none.
    pub(super) fn is_fresh(&self, time: Duration) -> bool {
        let age = now_ms().checked_sub(self.confirmed_ms);
        age.is_some_and(|age| u128::from(age) < time.as_millis())
    }

    /// Whether the remote's facts are of the same version. Without a version, nothing is.
    pub(super) fn is_same(&self, info: &BlobInfo) -> bool {
        let len = self.digest().map(|digest| digest.len);
        self.version.is_some()
            && self.version == info.version
            && (info.len_bytes.is_none() || info.len_bytes == len)
    }

    /// The same, confirmed now.
    pub(super) fn confirmed(&self) -> Self {
        Self { confirmed_ms: now_ms(), ..self.clone() }
    }

    pub(super) fn description(&self, cache_status: &'static str) -> Description {
        let digest = self.digest();
        Description {
            len: digest.map(|digest| digest.len),
            tag: tag(self.version.as_ref())
                .or_else(|| digest.map(|digest| format!("\"{}\"", digest.checksum().hex()))),
            content_type: self.content_type.clone(),
            content_encoding: self.content_encoding.clone(),
            cache_status,
        }
    }
}

/// What the first response of a remote says.
pub(super) fn described(info: &BlobInfo, cache_status: &'static str) -> Description {
    Description {
        len: info.len_bytes,
        tag: tag(info.version.as_ref()),
        content_type: info.content_type.clone(),
        content_encoding: info.content_encoding.clone(),
        cache_status,
    }
}

/// An entity tag that is known before the bytes: a hash of the version.
fn tag(version: Option<&Version>) -> Option<String> {
    let hash = blake3::hash(version?.to_string().as_bytes());
    let half = hash.to_hex();
    half.get(..32).map(|half| format!("\"{half}\""))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Origins {
    /// The name of an entry in the store. It covers the URL, so an origin that gets another URL finds
    /// nothing of the earlier one.
    fn entry_name(&self, path: &BlobPath) -> Vec<u8> {
        let url = blake3::hash(self.url(path).as_bytes()).to_hex();
        ["", "origin", &path.origin, &url].join("\0").into_bytes()
    }

    pub(super) async fn entry(&self, path: &BlobPath) -> tidegate::Result<Option<Entry>> {
        let Some((len, body)) = self.0.store.value(&self.entry_name(path)).await? else {
            return Ok(None);
        };
        if len > ENTRY_BYTES_MAX {
            return Ok(None);
        }
        let pieces: Vec<Bytes> = body.try_collect().await?;
        // An entry of another program version is a miss.
        Ok(serde_json::from_slice(&pieces.concat()).ok())
    }

    pub(super) async fn put_entry(&self, path: &BlobPath, entry: &Entry) -> tidegate::Result<()> {
        let Ok(text) = serde_json::to_vec(entry) else { return Ok(()) };
        if text.len() as u64 > ENTRY_BYTES_MAX {
            return Ok(());
        }
        let Some(writer) = self.0.store.begin_value(&self.entry_name(path)) else { return Ok(()) };
        writer.write(text.into()).await?.finish().await
    }

    pub(super) async fn remove_entry(&self, path: &BlobPath) -> tidegate::Result<()> {
        self.0.store.remove_value(&self.entry_name(path)).await
    }
}
