//! Calls as bytes, cut where a test wants.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::Code;

use crate::bed::{Bed, within};

pub(crate) const WRITE: &str = "/google.bytestream.ByteStream/Write";
pub(crate) const CAS: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage";

/// One HTTP/2 connection. Dropping it cuts the connection.
pub(crate) struct RawConnection {
    requests: SendRequest<Bytes>,
    driver: JoinHandle<()>,
}

impl Drop for RawConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// One call whose request is open.
pub(crate) struct RawCall {
    pub(crate) body: SendStream<Bytes>,
    response: ResponseFuture,
}

impl RawConnection {
    pub(crate) async fn open(bed: &Bed) -> Self {
        Self::open_with(bed, &h2::client::Builder::new()).await
    }

    /// Opens a connection with these settings.
    pub(crate) async fn open_with(bed: &Bed, settings: &h2::client::Builder) -> Self {
        let socket = TcpStream::connect(bed.address).await.unwrap();
        let (requests, connection) = settings.handshake(socket).await.unwrap();
        // The test's end ends it.
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Self { requests, driver }
    }

    /// Calls at a time that the server's settings allow, as far as they have arrived.
    pub(crate) fn calls_max(&self) -> usize {
        self.requests.current_max_send_streams()
    }

    pub(crate) async fn call(&self, path: &str, timeout: Option<&str>) -> RawCall {
        let mut request = Request::post(format!("http://server{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(timeout) = timeout {
            request = request.header("grpc-timeout", timeout);
        }
        let mut requests = within(self.requests.clone().ready()).await.unwrap();
        let (response, body) = requests.send_request(request.body(()).unwrap(), false).unwrap();
        RawCall { body, response }
    }
}

impl RawCall {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let mut rest = Bytes::copy_from_slice(bytes);
        while !rest.is_empty() {
            self.body.reserve_capacity(rest.len());
            let ready = std::future::poll_fn(|cx| self.body.poll_capacity(cx));
            let room = within(ready).await.unwrap().unwrap();
            self.body.send_data(rest.split_to(room.min(rest.len())), false).unwrap();
        }
    }

    pub(crate) fn end(&mut self) {
        self.body.send_data(Bytes::new(), true).unwrap();
    }

    pub(crate) fn reset(mut self) {
        self.body.send_reset(Reason::CANCEL);
    }

    /// The head of the response has arrived. The bytes of the body are not taken.
    pub(crate) async fn answered(self) -> h2::RecvStream {
        within(self.response).await.unwrap().into_body()
    }

    /// The status and the message of a response that is only a status.
    pub(crate) async fn refusal(self) -> (Code, String) {
        let response = within(self.response).await.unwrap();
        let header = |name| response.headers().get(name).and_then(|text| text.to_str().ok());
        let code = header("grpc-status").and_then(|code| code.parse().ok()).map(Code::from_i32);
        (code.unwrap(), header("grpc-message").unwrap_or_default().to_owned())
    }

    /// Takes at least `len` bytes of the response, and drops the call, which resets the stream.
    pub(crate) async fn receive(self, len: usize) {
        if len == 0 {
            return;
        }
        let mut body = within(self.response).await.unwrap().into_body();
        let mut received = 0;
        while received < len {
            let data = within(body.data()).await.expect("the response is shorter").unwrap();
            received += data.len();
            let _ = body.flow_control().release_capacity(data.len());
        }
    }

    /// The request and the outcome of the response, apart.
    pub(crate) fn split(self) -> (SendStream<Bytes>, impl Future<Output = (Code, Vec<u8>)>) {
        (self.body, outcome(self.response))
    }

    /// The status of the response, and its bytes.
    pub(crate) async fn outcome(self) -> (Code, Vec<u8>) {
        // The request stays open meanwhile.
        let (_body, outcome) = self.split();
        outcome.await
    }
}

async fn outcome(response: ResponseFuture) -> (Code, Vec<u8>) {
    let response = within(response).await.unwrap();
    let code = |headers: &HeaderMap| {
        let status = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
        Some(Code::from_i32(status))
    };
    let early = code(response.headers());
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = within(body.data()).await {
        let data = data.unwrap();
        let _ = body.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
    }
    let trailers = within(body.trailers()).await.unwrap();
    let late = trailers.as_ref().and_then(code);
    (early.or(late).expect("the response has no status"), bytes)
}

/// A message with its prefix.
pub(crate) fn framed(message: &impl Message) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    message.encode(&mut framed).unwrap();
    framed
}
