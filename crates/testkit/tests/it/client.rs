//! A client that reports bytes and endings as they are, and judges nothing.

use std::io;

use tidegate_testkit::Server;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As its head promised.
    Complete,
    /// The stream ended first.
    Fin,
    /// The connection was reset.
    Reset,
}

/// A received response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// All bytes before the body, unchanged.
    pub(crate) head: String,
    /// 0 without a whole head.
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

impl Reply {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// One connection. Bytes that were read beyond a response are kept for the next one.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    pub(crate) buffer: Vec<u8>,
}

impl Client<TcpStream> {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::over(TcpStream::connect(server.addr()).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Sends a request with these field lines and reads its response.
    pub(crate) async fn ask(&mut self, method: &str, target: &str, fields: &[&str]) -> Reply {
        self.send(method, target, fields).await;
        self.reply(method == "HEAD").await
    }

    /// Sends a request with a body and reads its response.
    pub(crate) async fn write(
        &mut self,
        method: &str,
        target: &str,
        fields: &[&str],
        body: &[u8],
    ) -> Reply {
        let length = format!("Content-Length: {}", body.len());
        self.send(method, target, &[fields, &[&length]].concat()).await;
        // The server may end the connection before it has read the body.
        let _ = self.stream.write_all(body).await;
        self.reply(method == "HEAD").await
    }

    pub(crate) async fn send(&mut self, method: &str, target: &str, fields: &[&str]) {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
        for field in fields {
            text.push_str(field);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn reply(&mut self, head_only: bool) -> Reply {
        let mut reply =
            Reply { head: String::new(), status: 0, body: Vec::new(), end: End::Complete };
        let head_end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            if let Some(end) = self.more().await {
                reply.head = String::from_utf8_lossy(&self.buffer).into_owned();
                reply.end = end;
                return reply;
            }
        };
        let head: Vec<u8> = self.buffer.drain(..head_end).collect();
        reply.head = String::from_utf8_lossy(&head).into_owned();
        let status = reply.head.split(' ').nth(1).and_then(|code| code.parse().ok());
        reply.status = status.unwrap_or(0);
        if !head_only && reply.status != 304 && reply.status != 204 {
            (reply.body, reply.end) = self.body(&reply).await;
        }
        reply
    }

    async fn body(&mut self, reply: &Reply) -> (Vec<u8>, End) {
        if let Some(length) = reply.field("content-length") {
            return self.take(length.parse().unwrap()).await;
        }
        if reply.field("transfer-encoding") == Some("chunked") {
            return self.chunks().await;
        }
        loop {
            if let Some(end) = self.more().await {
                return (std::mem::take(&mut self.buffer), end);
            }
        }
    }

    async fn chunks(&mut self) -> (Vec<u8>, End) {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                if let Some(at) = find(&self.buffer, b"\r\n") {
                    break at;
                }
                if let Some(end) = self.more().await {
                    return (body, end);
                }
            };
            let line: Vec<u8> = self.buffer.drain(..line_end + 2).collect();
            let size = std::str::from_utf8(&line[..line_end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            let (chunk, end) = self.take(size + 2).await;
            body.extend_from_slice(&chunk[..chunk.len().min(size)]);
            if end != End::Complete || size == 0 {
                return (body, end);
            }
        }
    }

    async fn take(&mut self, count: usize) -> (Vec<u8>, End) {
        while self.buffer.len() < count {
            if let Some(end) = self.more().await {
                return (std::mem::take(&mut self.buffer), end);
            }
        }
        (self.buffer.drain(..count).collect(), End::Complete)
    }

    /// Reads more bytes; reports the end if there are none.
    pub(crate) async fn more(&mut self) -> Option<End> {
        let mut piece = vec![0; 64 * 1024];
        match self.stream.read(&mut piece).await {
            Ok(0) => Some(End::Fin),
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                None
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Some(End::Reset),
            // A TLS stream that ends without close_notify.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some(End::Fin),
            Err(error) => panic!("reading the response: {error}"),
        }
    }
}

/// One request on a connection of its own.
pub(crate) async fn get(server: &Server, target: &str, fields: &[&str]) -> Reply {
    Client::connect(server).await.ask("GET", target, fields).await
}

/// One request with a body on a connection of its own.
pub(crate) async fn write(
    server: &Server,
    method: &str,
    target: &str,
    fields: &[&str],
    body: &[u8],
) -> Reply {
    Client::connect(server).await.write(method, target, fields, body).await
}

/// One request without a body on a connection of its own.
pub(crate) async fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Reply {
    Client::connect(server).await.ask(method, target, fields).await
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
