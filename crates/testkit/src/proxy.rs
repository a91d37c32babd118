//! [`Proxy`]: an HTTP proxy that records the requests for it.
//!
//! It opens tunnels (`CONNECT`), and forwards requests whose target is a whole address. After a
//! forwarded request it closes the connection.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A longer head of a request is an error.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A request that the proxy received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxied {
    /// `CONNECT`, `GET` or another method.
    pub method: String,
    /// `HOST:PORT` of a tunnel, or the whole address of a forwarded request.
    pub target: String,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<String>,
}

/// See the module docs. Dropping it closes all its connections.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<Proxied>>>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy on a free port. It refuses requests without `authorization` with status 407.
    pub async fn start(authorization: Option<&str>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let (requests, required) = (Arc::default(), authorization.map(str::to_owned));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&requests), required));
        Ok(Self { addr, requests, _accepting: accepting })
    }

    /// The proxy's URL, without credentials.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Host and port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The requests so far, in the order in which they arrived.
    pub fn requests(&self) -> Vec<Proxied> {
        locked(&self.requests).clone()
    }
}

fn locked(requests: &Mutex<Vec<Proxied>>) -> MutexGuard<'_, Vec<Proxied>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: TcpListener,
    requests: Arc<Mutex<Vec<Proxied>>>,
    required: Option<String>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (requests, required) = (Arc::clone(&requests), required.clone());
        connections.spawn(async move {
            // The client sees a broken connection.
            let _ = serve(stream, &requests, required.as_deref()).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(
    mut client: TcpStream,
    requests: &Mutex<Vec<Proxied>>,
    required: Option<&str>,
) -> io::Result<()> {
    let head = read_head(&mut client).await?;
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let method = first.next().unwrap_or_default().to_owned();
    let target = first.next().unwrap_or_default().to_owned();
    let is_for_proxy = |line: &str| line.to_ascii_lowercase().starts_with("proxy-");
    let authorization = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("proxy-authorization").then(|| value.trim().to_owned())
    });
    let is_allowed = required.is_none() || authorization.as_deref() == required;
    locked(requests).push(Proxied {
        method: method.clone(),
        target: target.clone(),
        authorization,
    });
    if !is_allowed {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\n\
                       Proxy-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\n\r\n";
        return client.write_all(refusal.as_bytes()).await;
    }
    if method == "CONNECT" {
        let mut server = TcpStream::connect(&target).await?;
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
    let Some((authority, path)) = address(&target) else {
        return client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    };
    let mut server = TcpStream::connect(authority).await?;
    let mut forwarded = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for line in lines.filter(|line| !is_for_proxy(line)) {
        forwarded.push_str(line);
        forwarded.push_str("\r\n");
    }
    // The head's last, empty line is one of the lines.
    server.write_all(forwarded.as_bytes()).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Host and port of an `http` address, and its path.
fn address(target: &str) -> Option<(&str, &str)> {
    let rest = target.strip_prefix("http://")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    Some((authority, if path.is_empty() { "/" } else { path }))
}

async fn read_head(client: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(client.read_u8().await?);
    }
    String::from_utf8(head).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
