//! A store behind an HTTP/1.1 server on a free loopback port, and a client that sends exactly what a
//! test says.

use std::fmt::Write as _;
use std::net::SocketAddr;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tidegate::Budget;
use tidegate_server::serve::{Caller, HttpCache, HttpLimits, Tenant};
use tidegate_server::store::{LocalStore, StoreOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running server. Dropping it ends all its tasks.
pub(crate) struct Bed {
    pub(crate) address: SocketAddr,
    pub(crate) store: LocalStore,
    pub(crate) budget: Budget,
    _folder: TempDir,
    _tasks: JoinSet<()>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::with(StoreOptions::new(512 << 20), HttpLimits::default()).await
    }

    pub(crate) async fn with(options: StoreOptions, limits: HttpLimits) -> Self {
        Self::with_budget(options, limits, Budget::default()).await
    }

    pub(crate) async fn with_budget(
        options: StoreOptions,
        limits: HttpLimits,
        budget: Budget,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::open(folder.path(), options).await.unwrap();
        let cache = HttpCache::new(store.clone(), budget.clone(), limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, cache));
        Self { address, store, budget, _folder: folder, _tasks: tasks }
    }

    /// One request on a connection of its own. Its body has a `Content-Length`.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        self.send_with(method, path, &[], body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, b"").await
    }

    pub(crate) async fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.send("PUT", path, body).await
    }

    /// As [`Self::send`], with more headers.
    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &[u8],
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        if method == "PUT" || method == "POST" {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut connection = self.connect().await;
        connection.write_all(head.as_bytes()).await.unwrap();
        // The server may answer before it has read everything.
        let _ = connection.write_all(body).await;
        answer(&mut connection).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// Reads a response until the server closes the connection.
pub(crate) async fn answer(connection: &mut TcpStream) -> Answer {
    let mut all = Vec::new();
    // A reset after the response takes nothing from it.
    let _ = connection.read_to_end(&mut all).await;
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("no response");
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let mut body = all.split_off(end + 4);
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body }
}

fn unchunked(mut chunked: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = chunked.windows(2).position(|two| two == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&chunked[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return all;
        }
        all.extend_from_slice(&chunked[end + 2..end + 2 + len]);
        chunked = &chunked[end + 4 + len..];
    }
}

/// The tenant of a connection is what the header `x-tenant` says.
async fn accept(listener: TcpListener, cache: HttpCache) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let cache = cache.clone();
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let cache = cache.clone();
            async move {
                let tenant = request.headers().get("x-tenant");
                let tenant = tenant.map_or("", |tenant| tenant.to_str().unwrap());
                let caller = Caller::anyone(Tenant::new(tenant).unwrap());
                Ok::<_, std::convert::Infallible>(cache.handle(request, caller).await)
            }
        });
        connections.spawn(async move {
            // A client that goes away ends its connection with an error.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Bytes that do not compress.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(len as u64);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}
