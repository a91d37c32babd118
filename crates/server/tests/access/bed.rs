//! A server with credentials, and clients that present some.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tidegate::CancellationToken;
use tidegate_server::serve::{ServeOptions, Server};
use tidegate_server::store::StoreOptions;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

pub(crate) const READER: &str = "reader-0123456789";
pub(crate) const WRITER: &str = "writer-0123456789";
pub(crate) const ADMIN: &str = "admin-0123456789";

/// One token of each role.
pub(crate) const ROLES: &str = "
[[token]]
name = 'reader'
token = 'reader-0123456789'
role = 'read'

[[token]]
name = 'writer'
token = 'writer-0123456789'
role = 'write'

[[token]]
name = 'admin'
token = 'admin-0123456789'
role = 'admin'
";

pub(crate) struct Bed {
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<tidegate::Result<()>>,
}

/// What a request was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The status of a call.
    pub(crate) code: Option<u32>,
}

impl Bed {
    pub(crate) async fn new(credentials: &str) -> Self {
        Self::with(credentials, |_| {}).await
    }

    pub(crate) async fn with(credentials: &str, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let store = StoreOptions::new(1 << 30);
        let mut options = ServeOptions::new(folder.path().join("store"), store, listen);
        let file = folder.path().join("credentials.toml");
        std::fs::write(&file, credentials).unwrap();
        options.credentials = Some(file);
        change(&mut options);
        let server = Server::bind(options).await.unwrap();
        let address = server.address();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.run(stop.clone()));
        Self { folder, address, stop, serving }
    }

    pub(crate) fn credentials(&self) -> PathBuf {
        self.folder.path().join("credentials.toml")
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        within(self.serving).await.unwrap().unwrap();
    }

    /// A request over HTTP/1.1.
    pub(crate) async fn http(&self, token: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        let socket = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (mut requests, connection) =
            hyper::client::conn::http1::handshake(socket).await.unwrap();
        let driver = tokio::spawn(connection);
        let request = authorized(token).method(method).uri(path).header("host", "server");
        let body = Full::new(Bytes::copy_from_slice(body));
        let response = within(requests.send_request(request.body(body).unwrap())).await.unwrap();
        let answer = Answer::of(response).await;
        driver.abort();
        answer
    }

    /// A call with a message of these bytes.
    pub(crate) async fn call(&self, token: &str, path: &str, message: &[u8]) -> Answer {
        let socket = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let executor = TokioExecutor::new();
        let handshake = hyper::client::conn::http2::handshake(executor, socket).await;
        let (mut requests, connection) = handshake.unwrap();
        let driver = tokio::spawn(connection);
        let len = u32::try_from(message.len()).unwrap().to_be_bytes();
        let framed = [&[0], &len[..], message].concat();
        let request = authorized(token)
            .method("POST")
            .uri(format!("http://server{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(framed)));
        let response = within(requests.send_request(request.unwrap())).await.unwrap();
        let answer = Answer::of(response).await;
        driver.abort();
        answer
    }
}

impl Answer {
    pub(crate) async fn of(response: http::Response<hyper::body::Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = within(body.collect()).await.unwrap();
        let code = |headers: &HeaderMap| {
            let code = headers.get("grpc-status")?;
            Some(code.to_str().unwrap().parse().unwrap())
        };
        let code = code(&head.headers).or_else(|| body.trailers().and_then(code));
        Self { status: head.status, headers: head.headers, body: body.to_bytes(), code }
    }

    /// The message of a call without its prefix.
    pub(crate) fn message(&self) -> &[u8] {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.body[5..]
    }
}

/// An empty token presents nothing.
pub(crate) fn authorized(token: &str) -> http::request::Builder {
    let request = Request::builder();
    match token {
        "" => request,
        token => request.header("authorization", format!("Bearer {token}")),
    }
}

/// Fails a test that hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("the server hangs")
}
