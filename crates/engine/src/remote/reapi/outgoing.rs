//! Requests whose bodies are pieces that carry the bytes of blobs; see [`tidegate_reapi::pieces`].
//!
//! The generated client makes the call with an empty message; [`Carrying`] replaces the request
//! body.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt as _;
use http_body::Frame;
use http_body_util::StreamBody;
use tonic::body::Body;
use tower_service::Service;

use super::channel::Channel;
use crate::store::SendProgress;

/// A connection for one request that replaces the body of the generated client.
#[derive(Debug)]
pub(super) struct Carrying {
    channel: Channel,
    body: Option<Body>,
    progress: SendProgress,
}

impl Carrying {
    /// `progress` receives the connection that the channel chooses.
    pub(super) fn new(
        channel: &Channel,
        pieces: impl Stream<Item = Bytes> + Send + 'static,
        progress: &SendProgress,
    ) -> Self {
        let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        let body = Some(Body::new(StreamBody::new(frames)));
        Self { channel: channel.clone(), body, progress: progress.clone() }
    }
}

impl Service<http::Request<Body>> for Carrying {
    type Response = <Channel as Service<http::Request<Body>>>::Response;
    type Error = <Channel as Service<http::Request<Body>>>::Error;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(body) = self.body.take() {
            *request.body_mut() = body;
            request.extensions_mut().insert(self.progress.clone());
        }
        self.channel.call(request)
    }
}
