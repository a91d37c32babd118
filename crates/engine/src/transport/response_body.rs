//! The body of a response. It drives its connection, and returns the connection to the pool when
//! the body ends.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::RequestEvent;
use super::link::Link;
use super::pool::Pool;

/// If a body is dropped with at most this much left, the rest is read so that its connection can be
/// reused: some microseconds of work. Only bytes that have already arrived are read, without
/// waiting.
const DRAIN_BYTES_MAX: u64 = 64 << 10;

/// See the module docs.
pub(crate) struct ResponseBody {
    // None once it has been dropped.
    body: Option<Incoming>,
    // None once the body has ended or failed.
    link: Option<Box<Link>>,
    // None if the connection must not be reused.
    pool: Option<Pool>,
    event: RequestEvent,
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("link", &self.link).finish_non_exhaustive()
    }
}

impl ResponseBody {
    pub(super) fn new(
        body: Incoming,
        link: Box<Link>,
        pool: Option<Pool>,
        event: RequestEvent,
    ) -> Self {
        let mut answer = Self { body: Some(body), link: Some(link), pool, event };
        if answer.is_end_stream() {
            answer.event.complete();
            answer.give_back();
        }
        answer
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn ended(&mut self) {
        self.event.complete();
        self.give_back();
    }

    /// The body has ended: returns the connection to the pool if it can take another request.
    fn give_back(&mut self) {
        let (Some(mut link), Some(pool)) = (self.link.take(), &self.pool) else { return };
        if !link.is_idle() {
            // The connection may only need one poll to process the end of the body. It is polled
            // once, without waiting.
            let _ = link.poll(&mut Context::from_waker(Waker::noop()));
        }
        if link.is_idle() {
            pool.put(link);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let mut frame = self.poll_body(cx);
        if frame.is_pending()
            && let Some(link) = &mut self.link
        {
            if link.poll(cx).is_ready() {
                self.link = None;
            }
            frame = self.poll_body(cx);
        }
        match &frame {
            Poll::Ready(Some(Err(error))) => {
                self.event.failed(error);
                self.link = None;
            }
            Poll::Ready(None) => self.ended(),
            Poll::Ready(Some(Ok(frame))) => {
                self.event.received(frame.data_ref().map_or(0, Bytes::len));
                if self.is_end_stream() {
                    self.ended();
                }
            }
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let left = self.size_hint().exact();
        // The connection discards the rest once the body is dropped.
        self.body = None;
        if left.is_none_or(|left| left <= DRAIN_BYTES_MAX) {
            self.give_back();
        }
    }
}
