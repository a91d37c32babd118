//! Clients that send or take too little for too long lose their requests, not their connections.

use std::time::Duration;

use tidegate_reapi::bytestream::ReadRequest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use crate::bed::{Bed, blob_name, memory_is_free, messages, noise, sha256, upload_name, within};
use crate::raw::{RawCall, RawConnection, WRITE, framed};

const READ: &str = "/google.bytestream.ByteStream/Read";

async fn impatient() -> Bed {
    Bed::with(|options| options.limits.stall_time_max = Duration::from_millis(100)).await
}

async fn stored(bed: &Bed, len: usize) -> String {
    let bytes = noise(len, len as u64);
    let digest = sha256(&bytes);
    bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
    blob_name(&digest)
}

async fn read(connection: &RawConnection, name: &str) -> RawCall {
    let mut call = connection.call(READ, None).await;
    let request = ReadRequest { resource_name: name.to_owned(), ..ReadRequest::default() };
    call.send(&framed(&request)).await;
    call.end();
    call
}

/// A connection whose streams take this number of bytes each.
async fn narrow(bed: &Bed, window_bytes: u32) -> RawConnection {
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(window_bytes).initial_connection_window_size(1 << 20);
    RawConnection::open_with(bed, &settings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_window_is_cut_and_its_connection_stays() {
    let bed = impatient().await;
    let (long, short) = (stored(&bed, 3 << 20).await, stored(&bed, 500).await);
    for window_bytes in [1000, 70_000] {
        let connection = narrow(&bed, window_bytes).await;
        let mut body = read(&connection, &long).await.answered().await;
        memory_is_free(&bed).await;
        let cut = loop {
            // The bytes are not released, so the window stays used.
            match within(body.data()).await.expect("the response has ended") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(cut.reason(), Some(h2::Reason::CANCEL), "{cut:?}");
        assert_eq!(read(&connection, &short).await.outcome().await.0, Code::Ok);
    }
    bed.end().await;
}

/// The task of a stream ends when the connection has its last frame.
#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_response_does_not_keep_an_idle_connection() {
    let bed = Bed::with(|options| {
        options.limits.stall_time_max = Duration::from_millis(50);
        options.limits.idle_time_max = Duration::from_millis(50);
        options.limits.header_time_max = Duration::from_secs(2);
    })
    .await;
    let name = stored(&bed, 20_000).await;
    let connection = narrow(&bed, 1000).await;
    let mut body = read(&connection, &name).await.answered().await;
    let mut received = 0;
    while let Ok(data) = within(body.data()).await.expect("the response has ended") {
        received += data.len();
    }
    assert_eq!(received, 1000);
    memory_is_free(&bed).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_is_not_read_is_closed() {
    const LEN: usize = 32 << 20;
    let bed = impatient().await;
    let name = stored(&bed, LEN).await;
    let hash = name.split('/').nth(1).unwrap();
    let mut socket = TcpStream::connect(bed.address).await.unwrap();
    let request = format!("GET /cas/{hash} HTTP/1.1\r\nhost: x\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    within(socket.readable()).await.unwrap();
    connections_are(&bed, 1).await;
    let mut received = Vec::new();
    // A reset takes nothing from what was sent.
    let _ = within(socket.read_to_end(&mut received)).await;
    assert!(received.starts_with(b"HTTP/1.1 200 "));
    assert!(received.len() < LEN, "{}", received.len());
    bed.end().await;
}

/// Asks until the server has this number of connections, with the one that asks.
async fn connections_are(bed: &Bed, count: u64) {
    let line = format!("\ntidegate_connections {count}\n");
    within(async { while !metrics(bed).await.contains(&line) {} }).await;
}

async fn metrics(bed: &Bed) -> String {
    let mut socket = TcpStream::connect(bed.address).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut text = String::new();
    within(socket.read_to_string(&mut text)).await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_a_few_bytes_at_a_time_is_refused() {
    let bed = impatient().await;
    let connection = RawConnection::open(&bed).await;
    let bytes = noise(300_000, 1);
    let request = framed(&messages(&upload_name(&sha256(&bytes)), &bytes, bytes.len(), 0)[0]);
    let (mut body, outcome) = connection.call(WRITE, None).await.split();
    let mut gap = tokio::time::interval(Duration::from_millis(1));
    let slowly = async {
        for byte in request {
            gap.tick().await;
            if body.send_data(vec![byte].into(), false).is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let code = tokio::select! {
        (code, _) = outcome => code,
        () = slowly => unreachable!(),
    };
    assert_eq!(code, Code::DeadlineExceeded);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_http_that_stalls_is_refused() {
    let bed = impatient().await;
    for sent in ["", "x"] {
        let mut socket = TcpStream::connect(bed.address).await.unwrap();
        let hash = sha256(b"a blob").checksum().hex();
        let request =
            format!("PUT /cas/{hash} HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\n{sent}");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(socket.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    memory_is_free(&bed).await;
    bed.end().await;
}
