//! [`PutRequest`]: one attempt to put one blob; its source, and the state that attempts share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use tidegate_core::digest::Digest;

use super::SendProgress;
use super::verify::Verifier;
use crate::error::{Error, ErrorKind, Operation, Result};

/// Bytes that are read from a source at once: hashing them takes about 0.2 ms, too short to delay
/// the other tasks of a thread.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// The source of the bytes of a put. A caller may read them again after a failure.
#[async_trait]
pub trait PutSource: fmt::Debug + Send + Sync {
    /// The bytes from `offset` on: at least one and at most `len_max`, or none at the end. The
    /// caller of `put` has taken them from its budget; see [`super::ChunkStore::put_batch`].
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes>;
}

#[async_trait]
impl PutSource for Bytes {
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let end = start.saturating_add(len_max).min(self.len());
        Ok(self.slice(start..end))
    }
}

/// The state that the attempts to put one blob share: the name that the store gave the upload, so
/// that a later attempt can continue it. Clones are the same session.
#[derive(Clone, Debug, Default)]
pub struct PutSession(Arc<OnceLock<String>>);

impl PutSession {
    /// The store's name for the upload. The first call gets the name from `make`; later calls, by
    /// attempts that continue the upload, get the same name. A store that cannot continue an upload
    /// does not call this.
    pub fn upload_name(&self, make: impl FnOnce() -> String) -> &str {
        self.0.get_or_init(make)
    }
}

/// One attempt to put one blob.
#[derive(Clone, Debug)]
pub struct PutRequest {
    /// The blob's name.
    pub digest: Digest,
    /// The session, which attempts that continue each other share.
    pub session: PutSession,
    /// Whether an earlier attempt to put this blob failed. Then the store may ask how many bytes
    /// were kept, and continue there. A store that cannot do that reads the source from its start.
    pub resume: bool,
    /// Its bytes.
    pub source: Arc<dyn PutSource>,
    /// Counts the bytes that the store hands to a connection. The source itself counts the bytes
    /// that it delivers.
    pub progress: SendProgress,
}

impl PutRequest {
    /// The first attempt to put the blob `digest`, whose bytes `source` gives.
    pub fn new(digest: Digest, source: Arc<dyn PutSource>) -> Self {
        Self {
            digest,
            session: PutSession::default(),
            resume: false,
            source,
            progress: SendProgress::default(),
        }
    }

    /// All of its bytes, in a newly allocated buffer, which the caller accounts for.
    ///
    /// Fails with `Integrity` if they do not match the digest, with `Changed` if the source ends
    /// early, and with `Storage` if there is not enough memory.
    pub async fn read_verified(&self) -> Result<Bytes> {
        let len = usize::try_from(self.digest.len).unwrap_or(usize::MAX);
        let mut all: Vec<u8> = Vec::new();
        all.try_reserve_exact(len).map_err(|error| {
            let message = format!("{} bytes of memory are not available", self.digest.len);
            self.error(ErrorKind::Storage, message).caused_by(error)
        })?;
        let mut verifier = Verifier::new(&self.digest);
        while let Some(piece) = self.read_piece(verifier.seen_bytes()).await? {
            verifier.update(&piece);
            all.extend_from_slice(&piece);
        }
        verifier.finish().map_err(|message| self.error(ErrorKind::Integrity, message))?;
        Ok(all.into())
    }

    /// The next bytes, from `offset` on; `None` at the blob's end.
    pub(super) async fn read_piece(&self, offset: u64) -> Result<Option<Bytes>> {
        let left = usize::try_from(self.digest.len - offset).unwrap_or(usize::MAX);
        let len_max = left.min(PIECE_BYTES);
        if len_max == 0 {
            return Ok(None);
        }
        let piece = self.source.read(offset, len_max).await?;
        if piece.is_empty() || piece.len() > len_max {
            let message = format!(
                "expected 1 to {len_max} bytes at offset {offset} of {}, got {}",
                self.digest.len,
                piece.len()
            );
            return Err(self.error(ErrorKind::Changed, message));
        }
        Ok(Some(piece))
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, Operation::Write, self.digest.to_string(), message)
    }
}
