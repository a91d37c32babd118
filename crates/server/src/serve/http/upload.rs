//! [`Upload`]: the body of a request: bounded, gathered into pieces, drained at the end.
//!
//! What a client that waits for `100 Continue` is not asked for is never read. Another client sends
//! its body anyway, so it is read up to a bound, and the response follows it.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tidegate::Budget;
use tidegate::budget::BytesPermit;

use crate::serve::error::ServeError;

/// Bytes of a piece for the store. Each costs a change of threads.
const PIECE_BYTES: usize = 128 << 10;
/// Memory of one upload: a piece, a frame of the connection, and what the store holds until a value
/// becomes a file, 64 KiB each.
const MEMORY_BYTES: u64 = PIECE_BYTES as u64 + (64 << 10) + (64 << 10);
/// Memory of an upload beside its bytes.
const MEMORY_BYTES_MIN: u64 = 16 << 10;
/// Bytes of a refused body that are read so that its sender reads the response.
const DRAIN_BYTES_MAX: u64 = 64 << 20;

/// How far the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UploadState {
    /// It sends its body only after `100 Continue`, which the first read of the body sends.
    AwaitsContinue,
    Sends,
    Broken,
}

/// The body of a request.
pub(super) struct Upload {
    body: UnsyncBoxBody<Bytes, ServeError>,
    budget: Budget,
    permit: Option<BytesPermit>,
    declared: Option<u64>,
    is_encoded: bool,
    state: UploadState,
    received: u64,
    drain_bytes_max: u64,
}

impl Upload {
    pub(super) fn new(
        parts: &Parts,
        body: UnsyncBoxBody<Bytes, ServeError>,
        budget: &Budget,
    ) -> Self {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let expect = header(EXPECT).unwrap_or_default();
        let encoding = header(CONTENT_ENCODING).unwrap_or_default();
        Self {
            body,
            budget: budget.clone(),
            permit: None,
            declared: header(CONTENT_LENGTH).and_then(|len| len.parse().ok()),
            is_encoded: !matches!(encoding.trim(), "" | "identity"),
            state: if expect.eq_ignore_ascii_case("100-continue") {
                UploadState::AwaitsContinue
            } else {
                UploadState::Sends
            },
            received: 0,
            drain_bytes_max: DRAIN_BYTES_MAX,
        }
    }

    /// The length that the client declared. A chunked body has none.
    pub(super) const fn declared(&self) -> Option<u64> {
        self.declared
    }

    /// Whether the body has a content encoding.
    pub(super) const fn is_encoded(&self) -> bool {
        self.is_encoded
    }

    /// The store has what the client sends: at most `bytes` of it are read, and dropped.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.drain_bytes_max = self.drain_bytes_max.max(bytes);
    }

    /// Fails if the declared length is too long.
    pub(super) const fn check_len(&self, bytes_max: u64) -> Result<(), ServeError> {
        match self.declared {
            Some(declared) if declared > bytes_max => Err(ServeError::BodyTooLong { bytes_max }),
            _ => Ok(()),
        }
    }

    /// The memory that the upload takes from the budget.
    fn memory_bytes(&self) -> u64 {
        let declared = self.declared.unwrap_or(u64::MAX);
        declared.saturating_mul(2).saturating_add(MEMORY_BYTES_MIN).min(MEMORY_BYTES)
    }

    /// The next piece; `None` at the end. Fails if the body ends early, or is longer than
    /// `bytes_max`. Memory is taken from the budget with the first bytes, so a client that only
    /// declares a body holds none.
    pub(super) async fn piece(&mut self, bytes_max: u64) -> Result<Option<Bytes>, ServeError> {
        let Some(mut piece) = self.frame().await? else { return Ok(None) };
        if self.permit.is_none() {
            self.permit = Some(self.budget.bytes(self.memory_bytes()).await);
        }
        if piece.len() < PIECE_BYTES / 2 && !self.body.is_end_stream() {
            let mut gathered = BytesMut::with_capacity(PIECE_BYTES);
            gathered.extend_from_slice(&piece);
            while gathered.len() < PIECE_BYTES / 2 {
                let Some(frame) = self.frame().await? else { break };
                gathered.extend_from_slice(&frame);
            }
            piece = gathered.freeze();
        }
        self.received += piece.len() as u64;
        if self.received > bytes_max {
            return Err(ServeError::BodyTooLong { bytes_max });
        }
        Ok(Some(piece))
    }

    /// All bytes in memory.
    pub(super) async fn all(&mut self, bytes_max: u64) -> Result<Bytes, ServeError> {
        self.check_len(bytes_max)?;
        let expected = self.declared.unwrap_or(bytes_max);
        // A piece is in memory beside what was gathered before.
        let memory = expected.saturating_mul(2).saturating_add(MEMORY_BYTES_MIN);
        self.permit = Some(self.budget.bytes(memory).await);
        let mut all = BytesMut::new();
        while let Some(piece) = self.piece(bytes_max).await? {
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// Releases the memory of the upload.
    pub(super) fn release(&mut self) {
        self.permit = None;
    }

    /// Reads what is left of the body, up to a bound.
    pub(super) async fn discard(mut self) {
        self.release();
        let mut read = 0;
        while self.state == UploadState::Sends && read < self.drain_bytes_max {
            let Ok(Some(frame)) = self.frame().await else { return };
            read += frame.len() as u64;
        }
    }

    /// The next frame of data that is not empty.
    async fn frame(&mut self) -> Result<Option<Bytes>, ServeError> {
        self.state = UploadState::Sends;
        while let Some(frame) = self.body.frame().await {
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(data)) if !data.is_empty() => return Ok(Some(data)),
                // Trailers, or nothing.
                Ok(_) => {}
                Err(error) => {
                    self.state = UploadState::Broken;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
}
