//! Responses whose head gives the end of the body twice, or in a way that the client did not offer.
//! The framing decides, and the connection is not reused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::remote::RemoteOptions;
use tidegate::{ErrorKind, Location, Target};
use tidegate_core::retry::RetryPolicy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::bed::{Bed, Collect};
use crate::call::{DownloadOptions, ReadOptions, client_of, download};

/// Sends the same bytes to every request, and keeps the connection open.
struct Parrot {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    accepting: AbortHandle,
}

impl Parrot {
    async fn start(response: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                connections.spawn(answer(stream, response));
            }
        });
        Self { address, accepted, accepting: accepting.abort_handle() }
    }

    /// The blob over HTTP, and through a store's client.
    fn locations(&self) -> [Location; 2] {
        let endpoint = format!("http://{}", self.address);
        let options = RemoteOptions {
            endpoint: Some(endpoint.clone()),
            anonymous: true,
            ..RemoteOptions::default()
        };
        let remotes = client_of(options);
        [format!("{endpoint}/bucket/blob"), "gs://bucket/blob".to_owned()]
            .map(|url| remotes.locate(&url).unwrap())
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Parrot {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(mut stream: TcpStream, response: &[u8]) {
    let mut request = Vec::new();
    while stream.read_buf(&mut request).await.is_ok_and(|count| count > 0) {
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            if stream.write_all(response).await.is_err() {
                return;
            }
        }
    }
}

async fn read(location: &Location) -> tidegate::Result<Vec<u8>> {
    let retry = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
    let options = ReadOptions { retry, ..ReadOptions::default() };
    let mut channel = crate::call::read(location.clone(), options);
    let mut taken = Vec::new();
    while let Some(frame) = channel.next().await? {
        taken.extend_from_slice(&frame);
    }
    Ok(taken)
}

/// The length is wrong, and the bytes after the real end are another response. A client that trusts
/// the length, or that reuses the connection, would accept it.
const SMUGGLED: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n\
    4\r\nfour\r\n4\r\nmore\r\n0\r\n\r\n\
    HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";

#[tokio::test]
async fn a_length_beside_chunks_neither_cuts_the_body_nor_names_the_blobs_length() {
    let server = Parrot::start(SMUGGLED).await;
    for location in server.locations() {
        assert_eq!(read(&location).await.unwrap(), b"fourmore", "{location:?}");
        for window in [1, 4] {
            let options = DownloadOptions { window: Some(window), ..Bed::options() };
            let collect = Collect::default();
            download(&location, collect.target(), &options).await.unwrap();
            assert_eq!(collect.bytes(), b"fourmore", "{location:?} {window}");
        }
        let mut channel = crate::call::read(location, ReadOptions::default());
        assert_eq!(channel.info().await.unwrap().len_bytes, None);
    }
}

#[tokio::test]
async fn a_connection_with_contradictory_framing_is_not_reused() {
    let server = Parrot::start(SMUGGLED).await;
    for (index, location) in server.locations().into_iter().enumerate() {
        for count in 1..4 {
            assert_eq!(read(&location).await.unwrap(), b"fourmore");
            assert_eq!(server.accepted(), 3 * index + count, "{location:?}");
        }
    }
    let plain: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n";
    let server = Parrot::start(plain).await;
    for _ in 0..3 {
        assert_eq!(read(&server.locations()[0]).await.unwrap(), b"four");
    }
    assert_eq!(server.accepted(), 3, "one for each of three transports");
    let location = &server.locations()[0];
    for _ in 0..3 {
        assert_eq!(read(location).await.unwrap(), b"four");
    }
    assert_eq!(server.accepted(), 4, "chunks alone are nothing special");
}

#[tokio::test]
async fn transfer_codings_that_the_client_did_not_offer_are_refused() {
    let responses: [(&str, &'static [u8]); 4] = [
        ("gzip", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nbody"),
        (
            "gzip, chunked",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        ),
        (
            "identity",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 4\r\n\r\nbody",
        ),
        (
            "deflate",
            b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/4\r\nETag: \"a\"\r\n\
              Transfer-Encoding: deflate\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        ),
    ];
    for (coding, response) in responses {
        let server = Parrot::start(response).await;
        for location in server.locations() {
            let error = read(&location).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{coding}: {error:?}");
            assert!(error.chain().contains(coding), "{coding}: {}", error.chain());
            assert!(error.to_string().contains("transfer coding"), "{coding}: {error}");
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("target");
            let failed = download(&location, Target::File(target), &Bed::options()).await;
            assert_eq!(failed.unwrap_err().kind(), ErrorKind::Unsupported, "{coding}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{coding}");
        }
    }
}
