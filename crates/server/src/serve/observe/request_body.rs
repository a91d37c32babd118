//! [`RequestBody`]: the body of a request. It counts its bytes, and fails when the client stalls.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::serve::stall::{PROGRESS_BYTES_MIN, StallTimer};

/// Why the body of a request ended early.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum RequestBodyError {
    #[error("the client cut the request")]
    Cut(#[source] hyper::Error),
    #[error("the client sent less than {PROGRESS_BYTES_MIN} bytes in {} seconds", .time_max.as_secs_f32())]
    Stalled { time_max: Duration },
}

/// The body of a request.
#[derive(Debug)]
pub(in crate::serve) struct RequestBody {
    body: Incoming,
    received: Arc<AtomicU64>,
    stall: StallTimer,
}

impl RequestBody {
    pub(super) const fn new(
        body: Incoming,
        received: Arc<AtomicU64>,
        stall_time_max: Duration,
    ) -> Self {
        Self { body, received, stall: StallTimer::new(stall_time_max) }
    }

    /// Allows the client to stall for at most this time.
    pub(in crate::serve) fn limit_stall(&mut self, time_max: Duration) {
        self.stall.limit(time_max);
    }

    /// The server does something else than to wait for the client.
    pub(in crate::serve) fn pause(&mut self) {
        self.stall.pause();
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                this.received.fetch_add(bytes, Ordering::Relaxed);
                this.stall.moved(bytes);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(RequestBodyError::Cut(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => this
                .stall
                .poll_stalled(cx)
                .map(|()| Some(Err(RequestBodyError::Stalled { time_max: this.stall.time_max() }))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
