//! A remote, a server with an origin on it, and a client.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tempfile::TempDir;
use tidegate::CancellationToken;
use tidegate_server::serve::{Origin, ServeOptions, Server};
use tidegate_server::store::{LocalStore, StoreOptions};
use tidegate_testkit as testkit;
use tokio::task::JoinHandle;

/// No test should take longer. A test that does is stuck.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server with the origin `files` on a remote.
pub(crate) struct Bed {
    pub(crate) remote: testkit::Server,
    pub(crate) server: Running,
    pub(crate) folder: TempDir,
}

/// A server, and a client for it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) store: LocalStore,
    client: Client<HttpConnector, Empty<Bytes>>,
    stop: CancellationToken,
    serving: JoinHandle<tidegate::Result<()>>,
}

/// A whole response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The bytes, or how the body broke.
    pub(crate) body: Result<Bytes, String>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        self.body.as_ref().unwrap()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap()
    }

    #[track_caller]
    pub(crate) fn is(&self, status: u16, bytes: &[u8]) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.bytes() == bytes, "other bytes");
    }
}

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::with(testkit::ServerOptions::default(), |_| {}).await
    }

    /// With a remote that says checksums.
    pub(crate) async fn verifying(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let digests = testkit::HttpDigests { repr_digest: true, ..testkit::HttpDigests::default() };
        Self::with(testkit::ServerOptions { digests, ..testkit::ServerOptions::default() }, change)
            .await
    }

    pub(crate) async fn with(
        remote: testkit::ServerOptions,
        change: impl FnOnce(&mut ServeOptions),
    ) -> Self {
        let remote = testkit::Server::start(remote).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = Running::start(&folder, &remote, change).await;
        Self { remote, server, folder }
    }

    /// Puts a blob with a correct checksum at the remote.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        self.remote.put(name, testkit::Blob::new(bytes.to_vec()));
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.server.get(path, &[]).await
    }

    /// Stops the server and starts another one on its folder.
    pub(crate) async fn restart(self, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let Self { remote, server, folder } = self;
        server.end().await;
        let server = Running::start(&folder, &remote, change).await;
        Self { remote, server, folder }
    }

    /// Downloads that began at the remote. Each of them asks for the first byte once; a shard that is
    /// split or raced begins later.
    pub(crate) fn fetches(&self) -> usize {
        let log = self.remote.log();
        let is_first = |range: &str| range.starts_with("bytes=0-");
        let mut first = log.iter().filter(|one| one.range.as_deref().is_none_or(is_first));
        first.by_ref().filter(|one| one.method == "GET").count()
    }
}

impl Running {
    pub(crate) async fn start(
        folder: &TempDir,
        remote: &testkit::Server,
        change: impl FnOnce(&mut ServeOptions),
    ) -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let store = StoreOptions::new(1 << 30);
        let mut options = ServeOptions::new(folder.path().join("store"), store, listen);
        let origin = Origin::parse(&format!("files={}", remote.url("/files"))).unwrap();
        options.origins.origins.push(origin);
        change(&mut options);
        let server = Server::bind(options).await.unwrap();
        let (address, store) = (server.address(), server.store().clone());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.run(stop.clone()));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { address, store, client, stop, serving }
    }

    /// Stops the server.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        drop((self.store, self.client));
        within(self.serving).await.unwrap().unwrap();
    }

    /// The head of a response; its body is still to be read.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> http::Response<Incoming> {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.uri(format!("http://{}{path}", self.address));
        let request = request.body(Empty::new()).unwrap();
        within(self.client.request(request)).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, path, headers).await
    }

    pub(crate) async fn head(&self, path: &str) -> Answer {
        self.send(Method::HEAD, path, &[]).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        all(self.open(method, path, headers).await).await
    }
}

/// Reads all of a response.
pub(crate) async fn all(response: http::Response<Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = within(body.collect()).await;
    let body = body.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string());
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

/// Reads at least `len` bytes of a body.
pub(crate) async fn some(body: &mut Incoming, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let frame = within(body.frame()).await.unwrap().unwrap();
        bytes.extend_from_slice(frame.data_ref().unwrap());
    }
    bytes
}

/// Fails a test that hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the server hangs")
}

/// Bytes that do not compress, from a seed.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    testkit::pseudo_random(len, seed).to_vec()
}

pub(crate) const OK: u16 = StatusCode::OK.as_u16();
