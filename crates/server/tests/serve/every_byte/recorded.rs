//! The bytes of a connection, recorded and sent again up to a cut.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::calls::Call;
use crate::bed::{Bed, within};

/// How a client goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goodbye {
    /// It ends its side (FIN) and reads what comes.
    End,
    /// It resets the connection (RST).
    Reset,
}

/// What a client sends for one call of gRPC on a new connection.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) bytes: Vec<u8>,
    /// Where the first frame of the request begins: the preface and the settings are before it.
    pub(super) start: usize,
    /// Where the last byte of a message ends.
    pub(super) data_end: usize,
}

/// Makes the call, and records what the client sends.
pub(super) async fn record(bed: &Bed, call: &Call) -> Recording {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let socket = TcpStream::connect(bed.address).await.unwrap();
    let recorder = Recorder { socket, sent: Arc::clone(&sent) };
    let (requests, connection) = h2::client::handshake(recorder).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::post(format!("http://server{}", call.path))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let mut requests = within(requests.ready()).await.unwrap();
    let (response, mut body) = requests.send_request(request.body(()).unwrap(), false).unwrap();
    body.send_data(Bytes::copy_from_slice(&call.request), true).unwrap();
    assert_eq!(within(response).await.unwrap().status(), 200);
    driver.abort();
    let bytes = std::mem::take(&mut *sent.lock().unwrap());
    let frames = frames(&bytes);
    let start = frames.iter().find(|(kind, _)| *kind == HEADERS).unwrap().1.start;
    let data_end = frames.iter().rfind(|(kind, _)| *kind == DATA).unwrap().1.end;
    // What follows belongs to the response.
    let request_end = data_end;
    Recording { bytes: bytes[..request_end].to_vec(), start, data_end }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// The kinds of frames (RFC 9113, section 4.1), and where each lies.
fn frames(bytes: &[u8]) -> Vec<(u8, std::ops::Range<usize>)> {
    assert!(bytes.starts_with(PREFACE));
    let mut frames = Vec::new();
    let mut start = PREFACE.len();
    while let Some(head) = bytes.get(start..start + FRAME_HEAD) {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let end = start + FRAME_HEAD + usize::try_from(len).unwrap();
        frames.push((head[3], start..end));
        start = end;
    }
    frames
}

/// Sends bytes on a new connection and goes away. Returns what the server sent; it must close the
/// connection.
pub(super) async fn send_cut(bed: &Bed, bytes: &[u8], goodbye: Goodbye) -> Vec<u8> {
    let mut socket = TcpStream::connect(bed.address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    match goodbye {
        Goodbye::End => {
            socket.shutdown().await.unwrap();
            // A server that closes with bytes unread resets the connection.
            let _ = within(socket.read_to_end(&mut answer)).await;
        }
        Goodbye::Reset => socket.set_zero_linger().unwrap(),
    }
    answer
}

/// A socket that keeps what is written to it.
struct Recorder {
    socket: TcpStream,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Recorder {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        if let Poll::Ready(Ok(len)) = written {
            self.sent.lock().unwrap().extend_from_slice(&bytes[..len]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
