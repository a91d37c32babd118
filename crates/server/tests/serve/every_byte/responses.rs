//! Cuts while a response is sent: before its headers, within its body.

use tidegate_reapi::bytestream::ReadRequest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{memory_is_free, serves_on};
use crate::bed::{Bed, blob_name, noise, sha256, upload_name, within};
use crate::raw::{RawConnection, framed};

/// More than the windows and buffers on the way, so that the server still has bytes to send.
const BLOB_BYTES: usize = 24 << 20;

/// Bytes that a client reads before it goes away.
const READS: [usize; 8] = [0, 1, 9, 100, 16_393, 100_000, 1_000_000, 5_000_000];

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_cut_frees_its_memory() {
    let bed = Bed::new().await;
    let bytes = noise(BLOB_BYTES, 1);
    let digest = sha256(&bytes);
    bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
    let request = framed(&ReadRequest { resource_name: blob_name(&digest), ..Default::default() });
    let connection = RawConnection::open(&bed).await;
    for read in READS {
        for cuts_connection in [false, true] {
            let own = RawConnection::open(&bed).await;
            let used = if cuts_connection { &own } else { &connection };
            let mut call = used.call("/google.bytestream.ByteStream/Read", None).await;
            call.send(&request).await;
            call.end();
            call.receive(read).await;
            drop(own);
            memory_is_free_after_cut(&bed).await;
        }
    }
    serves_on(&bed).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_over_http_that_is_cut_frees_its_memory() {
    let bed = Bed::new().await;
    let bytes = noise(BLOB_BYTES, 1);
    let digest = sha256(&bytes);
    bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
    let path = format!("/cas/{}", digest.checksum().hex());
    for read in READS {
        for is_reset in [false, true] {
            let mut socket = TcpStream::connect(bed.address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: server\r\n\r\n");
            socket.write_all(request.as_bytes()).await.unwrap();
            let mut buffer = vec![0; read];
            within(socket.read_exact(&mut buffer)).await.unwrap();
            if is_reset {
                socket.set_zero_linger().unwrap();
            }
            drop(socket);
            memory_is_free_after_cut(&bed).await;
        }
    }
    serves_on(&bed).await;
    bed.end().await;
}

/// Another call has passed through the server since the cut.
async fn memory_is_free_after_cut(bed: &Bed) {
    assert!(bed.has(&sha256(b"")).await);
    memory_is_free(bed).await;
}
