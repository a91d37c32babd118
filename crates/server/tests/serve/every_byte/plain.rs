//! Cuts of connections with HTTP/1.1: each byte of each kind of request.

use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::recorded::{Goodbye, send_cut};
use super::{CUTS, memory_is_free, serves_on};
use crate::bed::{Bed, noise, sha256, within};

/// A request, and the path that it would name.
struct PlainRequest {
    bytes: Vec<u8>,
    named: Option<String>,
    /// The last byte that the server needs.
    needed: usize,
}

fn head(method: &str, path: &str, more: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: server\r\nconnection: close\r\n{more}\r\n").into()
}

fn put(path: &str, body: &[u8], more: &str) -> PlainRequest {
    let more = format!("content-length: {}\r\n{more}", body.len());
    let bytes = [&head("PUT", path, &more)[..], body].concat();
    PlainRequest { needed: bytes.len(), bytes, named: Some(path.to_owned()) }
}

fn put_in_chunks(path: &str, body: &[u8]) -> PlainRequest {
    let mut bytes = head("PUT", path, "transfer-encoding: chunked\r\n");
    for part in body.chunks(60) {
        bytes.extend(format!("{:x}\r\n", part.len()).into_bytes());
        bytes.extend_from_slice(part);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    PlainRequest { needed: bytes.len(), bytes, named: Some(path.to_owned()) }
}

fn ask(method: &str, path: &str, more: &str) -> PlainRequest {
    let bytes = head(method, path, more);
    PlainRequest { needed: bytes.len(), bytes, named: None }
}

fn requests(known: &str) -> Vec<PlainRequest> {
    let blob = |seed| noise(100, seed);
    let path = |seed| format!("/cas/{}", sha256(&blob(seed)).checksum().hex());
    let key = "0".repeat(64);
    vec![
        put(&path(1), &blob(1), ""),
        put_in_chunks(&path(2), &blob(2)),
        put(&format!("/ac/{key}"), b"an opaque value", ""),
        put("/cache/key", b"of gradle", ""),
        put("/v1/cache/12", b"of nx", "authorization: Bearer x\r\n"),
        put("/v8/artifacts/00aa", b"of turborepo", "x-artifact-tag: t\r\n"),
        put("/webdav/file", b"of sccache", ""),
        ask("GET", known, "range: bytes=5-40\r\n"),
        ask("HEAD", known, ""),
        ask("GET", "/cache/other", ""),
        ask("PROPFIND", "/webdav/", "depth: 0\r\n"),
        ask("DELETE", "/webdav/none", ""),
    ]
}

/// The status of the response to a whole request.
async fn send(bed: &Bed, request: &[u8]) -> u16 {
    let mut socket = TcpStream::connect(bed.address).await.unwrap();
    socket.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    within(socket.read_to_end(&mut answer)).await.unwrap();
    status(&answer).expect("no response")
}

async fn get(bed: &Bed, path: &str) -> u16 {
    send(bed, &head("GET", path, "")).await
}

/// The status of a response; `None` if the connection was closed without one.
fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer.get(..12)?).unwrap();
    Some(line.strip_prefix("HTTP/1.1 ").unwrap().parse().unwrap())
}

async fn cut_everywhere(goodbye: Goodbye) {
    let bed = Bed::new().await;
    let known = noise(1000, 9);
    bed.put(&[&known]).await;
    for request in requests(&format!("/cas/{}", sha256(&known).checksum().hex())) {
        let cuts = futures_util::stream::iter(0..request.needed).map(|cut| {
            let (bed, bytes) = (&bed, &request.bytes[..cut]);
            async move {
                let answer = send_cut(bed, bytes, goodbye).await;
                if let Some(status) = status(&answer) {
                    let shown = String::from_utf8_lossy(bytes);
                    assert!((400..500).contains(&status), "{status} after {cut} bytes: {shown}");
                }
            }
        });
        cuts.buffer_unordered(CUTS).collect::<Vec<()>>().await;
        memory_is_free(&bed).await;
        let Some(named) = &request.named else { continue };
        assert_eq!(get(&bed, named).await, 404, "a part of {named} is there");
        let put = send(&bed, &request.bytes).await;
        assert!((200..300).contains(&put), "{named}: {put}");
        assert_eq!(get(&bed, named).await, 200, "{named} is not there");
    }
    serves_on(&bed).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_at_any_byte_is_refused() {
    cut_everywhere(Goodbye::End).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_reset_at_any_byte_names_nothing() {
    cut_everywhere(Goodbye::Reset).await;
}
