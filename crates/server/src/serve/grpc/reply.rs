//! [`Reply`]: messages and then a status, as the body of a response.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::Stream;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use prost::Message;
use tidegate::BytesPermit;
use tidegate_reapi::framing::{PREFIX_BYTES, put_prefix};
use tonic::{Code, Status};

use super::status;
use crate::serve::body::ResponseBody;
use crate::serve::error::ServeError;
use crate::serve::observe::{CallName, Lookups, MissReason};

/// Messages that are made as the client takes them: their pieces, framed.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<Vec<Bytes>, Status>> + Send>>;

/// The messages of a call that succeeds, as far as is known.
pub(super) struct Reply {
    /// Pieces of framed messages.
    pieces: VecDeque<Bytes>,
    more: Option<Messages>,
    /// The bytes of `pieces`.
    permit: Option<BytesPermit>,
    is_ended: bool,
    /// What the call found, if that is not one value.
    lookups: Option<Lookups>,
}

impl Reply {
    /// One message.
    pub(super) fn message(message: &impl Message) -> Result<Self, Status> {
        let len = message.encoded_len();
        let mut framed = BytesMut::with_capacity(PREFIX_BYTES + len);
        put_prefix(&mut framed, len).map_err(|error| status::invalid(&error))?;
        // The buffer grows, so it is never too short.
        let _ = message.encode(&mut framed);
        Ok(Self::pieces([framed.freeze()], None))
    }

    /// One message that is encoded.
    pub(super) fn encoded(message: &[u8]) -> Result<Self, Status> {
        let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
        put_prefix(&mut framed, message.len()).map_err(|error| status::invalid(&error))?;
        framed.put_slice(message);
        Ok(Self::pieces([framed.freeze()], None))
    }

    /// Pieces of framed messages, and the right to hold them.
    pub(super) fn pieces(
        pieces: impl IntoIterator<Item = Bytes>,
        permit: Option<BytesPermit>,
    ) -> Self {
        Self {
            pieces: pieces.into_iter().collect(),
            more: None,
            permit,
            is_ended: false,
            lookups: None,
        }
    }

    /// Messages that are made as the client takes them.
    pub(super) fn stream(messages: Messages) -> Self {
        Self {
            pieces: VecDeque::new(),
            more: Some(messages),
            permit: None,
            is_ended: false,
            lookups: None,
        }
    }

    /// The reply of a call that looked for several values.
    pub(super) fn with_lookups(mut self, hits: usize, misses: usize) -> Self {
        let (hits, misses) = (hits as u64, misses as u64);
        self.lookups = Some(Lookups { hits, misses, reason: MissReason::Absent });
        self
    }

    /// What the call found. Most calls that succeed found one value.
    pub(super) fn lookups(&self, name: CallName) -> Lookups {
        let one = if name.reads_one() { Lookups::HIT } else { Lookups::default() };
        self.lookups.unwrap_or(one)
    }

    pub(super) fn into_body(self) -> ResponseBody {
        self.boxed_unsync()
    }

    /// The last frame.
    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.is_ended = true;
        self.more = None;
        self.permit = None;
        let mut trailers = HeaderMap::with_capacity(3);
        if status.code() == Code::Ok {
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
        } else if status.add_header(&mut trailers).is_err() {
            trailers.insert("grpc-status", HeaderValue::from(Code::Internal as i32));
        }
        Frame::trailers(trailers)
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = ServeError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ServeError>>> {
        let this = self.get_mut();
        if this.is_ended {
            return Poll::Ready(None);
        }
        loop {
            if let Some(piece) = this.pieces.pop_front() {
                if piece.is_empty() {
                    continue;
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let next = match &mut this.more {
                Some(more) => ready!(more.as_mut().poll_next(cx)),
                None => None,
            };
            match next {
                Some(Ok(pieces)) => this.pieces.extend(pieces),
                Some(Err(status)) => return Poll::Ready(Some(Ok(this.end(&status)))),
                None => return Poll::Ready(Some(Ok(this.end(&Status::new(Code::Ok, ""))))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended
    }
}
