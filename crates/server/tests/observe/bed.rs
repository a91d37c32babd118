//! A server, and its operator who asks over HTTP.

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::serving::{Bed, within};

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// One request on a connection of its own.
pub(crate) async fn send(bed: &Bed, line: &str, headers: &[&str], body: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(bed.address).await.unwrap();
    let mut head = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    if line.starts_with("PUT") {
        head.extend(["content-length: ", &body.len().to_string(), "\r\n"]);
    }
    for header in headers {
        head.extend([*header, "\r\n"]);
    }
    socket.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    socket.write_all(body).await.unwrap();
    let mut all = Vec::new();
    within(socket.read_to_end(&mut all)).await.unwrap();
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: all[end + 4..].to_vec() }
}

pub(crate) async fn get(bed: &Bed, path: &str) -> Answer {
    send(bed, &format!("GET {path}"), &[], b"").await
}

/// The status document.
pub(crate) async fn status(bed: &Bed) -> Value {
    let answer = get(bed, "/status").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    serde_json::from_slice(&answer.body).unwrap()
}

/// Asks until all requests of other connections have ended: the last frame of a response reaches the client
/// before the server counts it.
pub(crate) async fn settled(bed: &Bed) -> Value {
    loop {
        let status = status(bed).await;
        // The one that asks.
        if status["requests_in_flight"] == 1 {
            return status;
        }
        tokio::task::yield_now().await;
    }
}
