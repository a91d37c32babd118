//! The limits of one client. All connections of a test come from one address.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use crate::bed::{Bed, within};
use crate::raw::{CAS, RawCall, RawConnection, WRITE};

/// One request of HTTP/1.1, and the whole response.
async fn ask(bed: &Bed, line: &str) -> String {
    let mut socket = TcpStream::connect(bed.address).await.unwrap();
    let request = format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    within(socket.read_to_string(&mut response)).await.unwrap();
    response
}

/// The server knows the connection.
async fn is_served(connection: &RawConnection) {
    let mut call = connection.call(&format!("{CAS}/FindMissingBlobs"), None).await;
    call.send(&[0; 5]).await;
    call.end();
    assert_eq!(call.outcome().await.0, Code::Ok);
}

/// A write that stays open, and that the server knows: requests of a connection begin in their order.
async fn open(connection: &RawConnection) -> RawCall {
    let call = connection.call(WRITE, None).await;
    is_served(connection).await;
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_closed() {
    let bed = Bed::with(|options| options.limits.connections_per_client_max = 2).await;
    let kept = [RawConnection::open(&bed).await, RawConnection::open(&bed).await];
    for connection in &kept {
        is_served(connection).await;
    }
    let mut refused = TcpStream::connect(bed.address).await.unwrap();
    assert_eq!(within(refused.read(&mut [0])).await.unwrap_or(0), 0);
    let [closed, open] = kept;
    drop(closed);
    // The server notices the end of a connection some time after it.
    let metrics = within(async {
        loop {
            let mut socket = TcpStream::connect(bed.address).await.unwrap();
            let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            let _ = socket.write_all(request).await;
            let mut response = String::new();
            if socket.read_to_string(&mut response).await.is_ok_and(|len| len > 0) {
                break response;
            }
        }
    });
    let metrics = metrics.await;
    let refused = metrics.lines().find_map(|line| {
        line.strip_prefix("tidegate_connections_refused_total ")?.parse::<u64>().ok()
    });
    assert!(refused.is_some_and(|refused| refused > 0), "{metrics}");
    is_served(&open).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_limit_are_refused_and_may_be_sent_again() {
    let bed = Bed::with(|options| options.limits.requests_per_client_max = 3).await;
    let connection = RawConnection::open(&bed).await;
    let calls = [open(&connection).await, open(&connection).await];
    let third = connection.call(WRITE, None).await;
    let fourth = connection.call(WRITE, None).await;
    let (code, message) = fourth.refusal().await;
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("3%20requests") || message.contains("3 requests"), "{message}");
    let response = ask(&bed, "GET /cas/aa HTTP/1.1").await;
    assert!(response.starts_with("HTTP/1.1 429 "), "{response}");
    assert!(response.to_lowercase().contains("\r\nretry-after: 1\r\n"), "{response}");
    assert!(response.contains("3 requests"), "{response}");
    // Probes are answered.
    assert!(ask(&bed, "GET /healthz HTTP/1.1").await.starts_with("HTTP/1.1 200 "));
    for call in calls {
        call.reset();
    }
    third.reset();
    let metrics = within(async {
        loop {
            let response = ask(&bed, "GET /metrics HTTP/1.1").await;
            if response.starts_with("HTTP/1.1 200 ") {
                break response;
            }
        }
    });
    let metrics = metrics.await;
    let refused = metrics.lines().find_map(|line| {
        line.strip_prefix("tidegate_refusals_total{reason=\"client\"} ")?.parse::<u64>().ok()
    });
    assert!(refused.is_some_and(|refused| refused >= 2), "{metrics}");
    bed.end().await;
}
