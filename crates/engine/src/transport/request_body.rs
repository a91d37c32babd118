//! [`RequestBody`]: the bytes of a request, held in memory or read while they are sent.
//!
//! `object_store`'s own body must be in memory. A part of an upload is read from its file while the
//! connection takes it, so it is a stream of a known length.
//!
//! Invariant: a stream delivers exactly its length, or the request fails. The connection then
//! closes before the declared length is reached, so that no server takes the request for complete.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body, Frame, SizeHint};
use object_store::client::HttpRequestBody;

use crate::error::Result;

/// The frames of a request's body.
type Frames = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// See the module docs.
pub(crate) enum RequestBody {
    /// Bytes in memory.
    Held(HttpRequestBody),
    /// Bytes that are read while they are sent.
    Stream(SentStream),
}

/// A stream of a known length.
pub(crate) struct SentStream {
    // Never locked: it makes the connection shareable, as its other parts are.
    frames: Mutex<Frames>,
    left: u64,
}

impl RequestBody {
    /// A body of exactly `len_bytes` bytes.
    pub(crate) fn stream(frames: Frames, len_bytes: u64) -> Self {
        Self::Stream(SentStream { frames: Mutex::new(frames), left: len_bytes })
    }

    /// Bytes left to send.
    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            Self::Held(body) => body.content_length() as u64,
            Self::Stream(stream) => stream.left,
        }
    }
}

impl From<HttpRequestBody> for RequestBody {
    fn from(body: HttpRequestBody) -> Self {
        Self::Held(body)
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("len_bytes", &self.len_bytes()).finish_non_exhaustive()
    }
}

/// The stream ended at another length than the one that was declared.
#[derive(Debug, thiserror::Error)]
#[error("the body has another length than the request declares")]
struct WrongLength;

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, BoxError>>> {
        let stream = match &mut *self {
            Self::Held(body) => return Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Stream(stream) => stream,
        };
        let frames = stream.frames.get_mut().unwrap_or_else(PoisonError::into_inner);
        frames.as_mut().poll_next(cx).map(|frame| match frame {
            Some(Ok(frame)) => match stream.left.checked_sub(frame.len() as u64) {
                Some(left) => {
                    stream.left = left;
                    Some(Ok(Frame::data(frame)))
                }
                None => Some(Err(WrongLength.into())),
            },
            Some(Err(error)) => Some(Err(error.into())),
            None if stream.left > 0 => Some(Err(WrongLength.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Held(body) => body.is_end_stream(),
            // The source may still have to compare its checksum after the last byte.
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len_bytes())
    }
}
