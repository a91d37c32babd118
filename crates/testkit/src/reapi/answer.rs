//! Sends the response to a call.
//!
//! Data is sent only when the client's windows and the link have room for it, so at most one
//! message per call waits in memory. Every function ends with [`Gone`] as soon as the client has
//! reset the stream or the connection is broken.

use std::{future::Future, future::poll_fn, sync::Arc, time::Duration};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut, buf::Chain};
use h2::{Reason, SendStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use prost::Message;

use super::{messages::PREFIX_BYTES, shared::Shared, status::GrpcStatus};

/// The content of one `DATA`: the prefix of a message, and the message, which is not copied.
pub(crate) type Data = Chain<Bytes, Bytes>;

/// The time for sent bytes to leave before a reset or the end of the connection overtakes them.
const OVERTAKING: Duration = Duration::from_millis(20);

/// The client no longer waits for the response.
#[derive(Debug)]
pub(crate) struct Gone;

pub(crate) struct Answer {
    shared: Arc<Shared>,
    stage: Stage,
}

enum Stage {
    Waiting(SendResponse<Data>),
    Begun(SendStream<Data>),
    Over,
}

impl Answer {
    pub(crate) fn new(shared: Arc<Shared>, respond: SendResponse<Data>) -> Self {
        Self { shared, stage: Stage::Waiting(respond) }
    }

    /// Runs the future until it ends or the client is gone.
    pub(crate) async fn or_gone<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Gone> {
        tokio::select! {
            biased;
            () = self.reset() => Err(Gone),
            done = work => Ok(done),
        }
    }

    /// Waits until the client gives up, possibly forever.
    pub(crate) async fn until_gone(&mut self) -> Gone {
        self.reset().await;
        Gone
    }

    async fn reset(&mut self) {
        poll_fn(|cx| match &mut self.stage {
            Stage::Waiting(respond) => respond.poll_reset(cx).map(|_| ()),
            Stage::Begun(stream) => stream.poll_reset(cx).map(|_| ()),
            Stage::Over => std::task::Poll::Ready(()),
        })
        .await;
    }

    /// Sends the head, once.
    pub(crate) fn begin(&mut self) -> Result<(), Gone> {
        if let Stage::Waiting(respond) = &mut self.stage {
            let stream = respond.send_response(head(HeaderMap::new()), false).map_err(gone)?;
            self.stage = Stage::Begun(stream);
        }
        Ok(())
    }

    /// Sends any head, once; `is_all` if nothing follows.
    pub(crate) fn open(&mut self, http: u16, head: HeaderMap, is_all: bool) -> Result<(), Gone> {
        let Stage::Waiting(respond) = &mut self.stage else { return Err(Gone) };
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(http).unwrap_or_default();
        *response.headers_mut() = head;
        let stream = respond.send_response(response, is_all).map_err(gone)?;
        self.stage = if is_all { Stage::Over } else { Stage::Begun(stream) };
        Ok(())
    }

    /// Sends bytes unchanged.
    pub(crate) async fn raw(&mut self, bytes: Bytes) -> Result<(), Gone> {
        self.send(Bytes::new().chain(bytes)).await
    }

    /// Ends the stream, with these trailers or with none.
    pub(crate) fn close(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone> {
        let Stage::Begun(mut stream) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Err(Gone);
        };
        match trailers {
            Some(trailers) => stream.send_trailers(trailers).map_err(gone),
            None => stream.send_data(Bytes::new().chain(Bytes::new()), true).map_err(gone),
        }
    }

    /// Sends a whole message.
    pub(crate) async fn message(&mut self, message: &impl Message) -> Result<(), Gone> {
        let body = Bytes::from(message.encode_to_vec());
        self.framed(&[], body).await
    }

    /// Sends a message that consists of `before` and `payload`. It does not copy `payload`.
    pub(crate) async fn framed(&mut self, before: &[u8], payload: Bytes) -> Result<(), Gone> {
        self.begin()?;
        let length = u32::try_from(before.len() + payload.len()).unwrap_or(u32::MAX);
        let mut prefix = BytesMut::with_capacity(PREFIX_BYTES + before.len());
        prefix.put_u8(0);
        prefix.put_u32(length);
        prefix.put_slice(before);
        self.send(prefix.freeze().chain(payload)).await
    }

    async fn send(&mut self, data: Data) -> Result<(), Gone> {
        let bytes = data.remaining();
        let shared = Arc::clone(&self.shared);
        self.or_gone(shared.link.admit(bytes)).await?;
        let Stage::Begun(stream) = &mut self.stage else { return Err(Gone) };
        // When there is room for a byte, the rest may wait in the stream without a copy.
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            let room = poll_fn(|cx| stream.poll_capacity(cx)).await;
            let Some(Ok(_)) = room else { return Err(Gone) };
        }
        stream.send_data(data, false).map_err(gone)
    }

    /// Ends the call.
    pub(crate) fn end(&mut self, status: &GrpcStatus) -> Result<(), Gone> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting(mut respond) => {
                let sent = respond.send_response(head(status.trailers()), true);
                sent.map(|_| ()).map_err(gone)
            }
            Stage::Begun(mut stream) => stream.send_trailers(status.trailers()).map_err(gone),
            Stage::Over => Err(Gone),
        }
    }

    /// Ends the stream after the sent bytes have had time to leave.
    pub(crate) async fn abandon(&mut self, code: u32) -> Gone {
        self.overtaken().await;
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting(mut respond) => respond.send_reset(Reason::from(code)),
            Stage::Begun(mut stream) => stream.send_reset(Reason::from(code)),
            Stage::Over => {}
        }
        Gone
    }

    /// Gives the sent bytes time to leave.
    pub(crate) async fn overtaken(&self) {
        if matches!(self.stage, Stage::Begun(_)) {
            tokio::time::sleep(OVERTAKING).await;
        }
    }
}

/// After any error of the stream, the client no longer waits for the response.
fn gone(_: h2::Error) -> Gone {
    Gone
}

fn head(fields: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.headers_mut() = fields;
    let content_type = HeaderValue::from_static("application/grpc+proto");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
