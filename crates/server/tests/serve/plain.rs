//! HTTP, the health of the server, its end.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::ErrorKind;
use tidegate_server::serve::{ServeOptions, Server};
use tidegate_server::store::StoreOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use crate::bed::{Bed, messages, noise, sha256, upload_name, within};
use crate::raw::{RawConnection, WRITE, framed};

/// The status line of an HTTP/1.1 response.
async fn ask(bed: &Bed, request: &str) -> String {
    let mut socket = TcpStream::connect(bed.address).await.unwrap();
    let request = format!("{request}\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    within(socket.read_to_string(&mut response)).await.unwrap();
    response.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn health_is_asked_over_http_on_the_same_port() {
    let bed = Bed::new().await;
    assert_eq!(ask(&bed, "GET /healthz HTTP/1.1").await, "HTTP/1.1 200 OK");
    assert_eq!(ask(&bed, "GET /readyz HTTP/1.1").await, "HTTP/1.1 200 OK");
    assert_eq!(ask(&bed, "HEAD /readyz HTTP/1.1").await, "HTTP/1.1 200 OK");
    assert_eq!(ask(&bed, "POST /healthz HTTP/1.1").await, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(ask(&bed, "GET /other HTTP/1.1").await, "HTTP/1.1 404 Not Found");
    bed.end().await;
}

#[tokio::test]
async fn long_headers_are_refused() {
    let bed = Bed::new().await;
    let request = format!("GET /healthz HTTP/1.1\r\nx: {}", "x".repeat(100_000));
    let status = ask(&bed, &request).await;
    assert_eq!(status, "HTTP/1.1 431 Request Header Fields Too Large");
    bed.end().await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let bed = Bed::with(|options| {
        options.limits.header_time_max = Duration::from_millis(20);
        options.limits.connections_max = 1;
    })
    .await;
    let mut silent = TcpStream::connect(bed.address).await.unwrap();
    let mut byte = [0];
    assert_eq!(within(silent.read(&mut byte)).await.unwrap_or(0), 0);
    // Its slot is free.
    assert_eq!(ask(&bed, "GET /healthz HTTP/1.1").await, "HTTP/1.1 200 OK");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_ends_after_the_stop() {
    let bed = Bed::new().await;
    let connection = RawConnection::open(&bed).await;
    let bytes = noise(300_000, 1);
    let parts = messages(&upload_name(&sha256(&bytes)), &bytes, 100_000, 0);
    let mut call = connection.call(WRITE, None).await;
    call.send(&framed(&parts[0])).await;
    bed.stop();
    for part in &parts[1..] {
        call.send(&framed(part)).await;
    }
    call.end();
    assert_eq!(call.outcome().await.0, Code::Ok);
    let bed = Bed::within(bed.end().await, |_| {}).await;
    assert!(bed.has(&sha256(&bytes)).await);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_end_is_cut() {
    let bed = Bed::with(|options| options.limits.drain_time_max = Duration::from_millis(20)).await;
    let connection = RawConnection::open(&bed).await;
    let call = connection.call(WRITE, None).await;
    assert!(bed.has(&sha256(b"")).await);
    bed.end().await;
    drop(call);
}

#[tokio::test]
async fn addresses_that_others_reach_need_a_decision() {
    let folder = tempfile::tempdir().unwrap();
    let any: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let mut options = ServeOptions::new(folder.path(), StoreOptions::new(1 << 30), any);
    let error = Server::bind(options.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    options.is_open = true;
    assert_ne!(Server::bind(options).await.unwrap().address().port(), 0);
}
