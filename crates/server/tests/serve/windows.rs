//! The receive windows of connections, as far as the memory pays them.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use crate::bed::{Bed, messages, noise, sha256, upload_name, within};
use crate::raw::{CAS, RawConnection, WRITE, framed};

const LARGE: usize = 1 << 20;
const SMALLEST: usize = 65_535;

/// Two large windows of 4 MiB are an eighth of this.
const MEMORY_BYTES: u64 = 64 << 20;

/// A connection that sends as much as the window allows.
async fn open(bed: &Bed) -> RawConnection {
    let mut settings = h2::client::Builder::new();
    settings.max_send_buffer_size(2 * LARGE);
    RawConnection::open_with(bed, &settings).await
}

/// Bytes that a new stream of the connection may send at once.
async fn window(connection: &RawConnection) -> usize {
    // The settings arrive before a response.
    let mut first = connection.call(&format!("{CAS}/FindMissingBlobs"), None).await;
    // Its message is missing, so it uses nothing of the window.
    first.end();
    assert_eq!(first.outcome().await.0, Code::InvalidArgument);
    let mut call = connection.call(WRITE, None).await;
    call.body.reserve_capacity(LARGE);
    let ready = std::future::poll_fn(|cx| call.body.poll_capacity(cx));
    let bytes = within(ready).await.unwrap().unwrap();
    call.reset();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_are_large_as_far_as_the_memory_pays_them() {
    let bed = Bed::with(|options| options.memory_bytes_max = MEMORY_BYTES).await;
    let mut kept = Vec::new();
    for expected in [LARGE, LARGE, SMALLEST, SMALLEST] {
        let connection = open(&bed).await;
        assert_eq!(window(&connection).await, expected);
        kept.push(connection);
    }
    // A small window is enough for a long blob.
    let bytes = noise(1 << 20, 1);
    let mut call = kept[3].call(WRITE, None).await;
    for part in messages(&upload_name(&sha256(&bytes)), &bytes, 300_000, 0) {
        call.send(&framed(&part)).await;
    }
    call.end();
    assert_eq!(call.outcome().await.0, Code::Ok);
    // A connection that ends gives its window back, some time later.
    drop(kept.remove(0));
    within(async { while window(&open(&bed).await).await != LARGE {} }).await;
    bed.end().await;
}

/// On one thread, so that all streams send before the first call takes a byte.
#[tokio::test]
async fn as_many_small_frames_as_streams_do_not_end_a_connection() {
    let bed = Bed::with(|options| options.memory_bytes_max = MEMORY_BYTES).await;
    let mut kept = Vec::new();
    for streams in [1024, 1024, 100] {
        let connection = open(&bed).await;
        window(&connection).await;
        assert_eq!(connection.calls_max(), streams);
        let mut calls = Vec::new();
        for _ in 0..streams {
            let mut call = connection.call(WRITE, None).await;
            call.body.send_data(vec![0].into(), false).unwrap();
            calls.push(call);
        }
        for mut call in calls {
            call.end();
            assert_eq!(call.outcome().await.0, Code::InvalidArgument);
        }
        kept.push(connection);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_http_1_take_no_window() {
    let bed = Bed::with(|options| options.memory_bytes_max = MEMORY_BYTES).await;
    let mut kept = Vec::new();
    for _ in 0..4 {
        let mut socket = TcpStream::connect(bed.address).await.unwrap();
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        within(socket.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        kept.push(socket);
    }
    assert_eq!(window(&open(&bed).await).await, LARGE);
    bed.end().await;
}
