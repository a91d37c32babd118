//! 500 streams that declare 1 GiB and send nothing, or one byte: other clients still read and write.

use std::time::Duration;

use prost::Message as _;
use tidegate_core::digest::Digest;
use tidegate_reapi::bytestream::WriteRequest;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tonic::Code;

use crate::bed::{Bed, blob_name, messages, noise, sha256, text, upload_name, zstd};
use crate::raw::{CAS, RawCall, RawConnection, WRITE, framed};

/// A connection with the smallest window takes no more.
const STREAMS_OF_CONNECTION: u64 = 100;
const STREAMS: u64 = 5 * STREAMS_OF_CONNECTION;
const MEMORY_BYTES: u64 = 64 << 20;

/// What a stream sends.
type First<'a> = &'a dyn Fn(u64) -> Vec<u8>;

fn declared(number: u64) -> Digest {
    Digest { len: 1 << 30, ..sha256(&number.to_le_bytes()) }
}

fn packed(name: &str) -> String {
    name.replacen("blobs/", "compressed-blobs/zstd/", 1)
}

/// Nothing but a name.
fn named(name: String) -> Vec<u8> {
    framed(&WriteRequest { resource_name: name, ..WriteRequest::default() })
}

/// A message that declares 1 GiB, its data almost as much, and one byte of it.
fn first_byte(number: u64) -> Vec<u8> {
    let data = noise(1, number);
    let message = messages(&upload_name(&declared(number)), &data, 1, 0).remove(0);
    let mut fields = message.encode_to_vec();
    fields.truncate(fields.len() - 3);
    let mut request = vec![0, 0x40, 0, 0, 0];
    request.extend_from_slice(&fields);
    request.extend_from_slice(&[0x52, 0x80, 0xfe, 0xff, 0xff, 0x03, 7]);
    request
}

/// Opens the streams; `first` makes what each sends.
async fn open(
    bed: &Bed,
    path: &str,
    first: impl Fn(u64) -> Vec<u8>,
) -> (Vec<RawConnection>, Vec<RawCall>) {
    let (mut connections, mut calls) = (Vec::new(), Vec::new());
    for number in 0..STREAMS {
        if number % STREAMS_OF_CONNECTION == 0 {
            connections.push(RawConnection::open(bed).await);
        }
        let mut call = connections[connections.len() - 1].call(path, None).await;
        call.send(&first(number)).await;
        calls.push(call);
    }
    (connections, calls)
}

/// Others write and read: plain and compressed streams, batches.
async fn others_are_served(bed: &Bed, seed: u64) {
    let connection = RawConnection::open(bed).await;
    let plain = noise(3 << 20, seed);
    let long = text(1 << 20, usize::try_from(seed).unwrap());
    let writes = [
        (upload_name(&sha256(&plain)), plain.clone()),
        (packed(&upload_name(&sha256(&long))), zstd(&long)),
    ];
    for (name, bytes) in writes {
        let mut call = connection.call(WRITE, None).await;
        for part in messages(&name, &bytes, 100_000, 0) {
            call.send(&framed(&part)).await;
        }
        call.end();
        assert_eq!(call.outcome().await.0, Code::Ok, "{name}");
    }
    let many: Vec<Vec<u8>> = (0..100).map(|number| noise(4096, seed * 1000 + number)).collect();
    bed.put(&many.iter().map(Vec::as_slice).collect::<Vec<_>>()).await;
    assert!(bed.read(&blob_name(&sha256(&plain)), 0, 0).await.unwrap() == plain);
    assert!(bed.read(&packed(&blob_name(&sha256(&long))), 0, 0).await.unwrap() == zstd(&long));
    assert!(bed.budget.held_bytes() <= MEMORY_BYTES);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_declare_much_and_send_nothing_do_not_block_others() {
    let bed = Bed::with(|options| options.memory_bytes_max = MEMORY_BYTES).await;
    let batch = format!("{CAS}/BatchUpdateBlobs");
    let kinds: [(&str, First<'_>); 5] = [
        (WRITE, &|_| Vec::new()),
        (WRITE, &|number| named(upload_name(&declared(number)))),
        (WRITE, &|number| named(packed(&upload_name(&declared(number))))),
        (WRITE, &first_byte),
        (&batch, &|_| vec![0, 3, 0, 0, 0, 1]),
    ];
    for (seed, (path, first)) in (1..).zip(kinds) {
        let (_connections, calls) = open(&bed, path, first).await;
        others_are_served(&bed, seed).await;
        for call in calls {
            call.reset();
        }
    }
    bed.end().await;
}

/// A stream that decompresses holds memory from its first byte on. So it is refused when it stalls.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_streams_that_stall_give_way() {
    let bed = Bed::with(|options| {
        options.memory_bytes_max = MEMORY_BYTES;
        options.limits.stall_time_max = Duration::from_secs(2);
    })
    .await;
    let calls = open(&bed, WRITE, |number| {
        let name = packed(&upload_name(&declared(number)));
        framed(&messages(&name, &zstd(b"a frame")[..1], 1, 0)[0])[..].to_vec()
    });
    let calls = calls.await;
    others_are_served(&bed, 1).await;
    drop(calls);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_over_http_that_send_nothing_do_not_block_others() {
    let bed = Bed::with(|options| options.memory_bytes_max = MEMORY_BYTES).await;
    let mut sockets = Vec::new();
    for number in 0..STREAMS {
        let hash = declared(number).checksum().hex();
        let head =
            format!("PUT /cas/{hash} HTTP/1.1\r\nhost: x\r\ncontent-length: 1073741824\r\n\r\n");
        let mut socket = TcpStream::connect(bed.address).await.unwrap();
        socket.write_all(head.as_bytes()).await.unwrap();
        sockets.push(socket);
    }
    others_are_served(&bed, 1).await;
    drop(sockets);
    bed.end().await;
}
