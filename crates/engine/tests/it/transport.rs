//! Connections: small and large bodies one after the other on one connection, plain and encrypted.
//! And the certificates that TLS trusts.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tidegate::remote::RemoteOptions;
use tidegate::{Client, ErrorKind};
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{Blob, Server, ServerOptions, Tls, pseudo_random};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::call::{ReadOptions, client_of};

/// Lengths below a first read, around it, around a full read, and far above.
const LENGTHS: [usize; 9] =
    [1, 100, 16_000, 16 << 10, 17_000, 256 << 10, (256 << 10) + 1, 3 << 20, 5];

async fn server(tls: Option<Tls>) -> Server {
    let server = Server::start(ServerOptions { tls, ..ServerOptions::default() }).await.unwrap();
    for len in LENGTHS {
        server.put(&path(len), Blob::new(bytes(len)));
    }
    server
}

fn path(len: usize) -> String {
    format!("/f/{len}")
}

fn bytes(len: usize) -> Bytes {
    pseudo_random(len, 3)
}

/// A client that trusts `server`'s authority, if it has one. The folder holds the certificate file.
fn trusting(server: &Server) -> (Client, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let files = server.ca_pem().map(|text| {
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, text).unwrap();
        file
    });
    (remotes(files.into_iter().collect()), folder)
}

fn remotes(ca_certs: Vec<PathBuf>) -> Client {
    client_of(RemoteOptions { ca_certs, anonymous: true, ..RemoteOptions::default() })
}

async fn read(remotes: &Client, server: &Server, len: usize) -> tidegate::Result<Vec<u8>> {
    read_url(remotes, &server.url(&path(len))).await
}

async fn read_url(remotes: &Client, url: &str) -> tidegate::Result<Vec<u8>> {
    let location = remotes.locate(url)?;
    let retry = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
    let options = ReadOptions { range: ByteRange::All, retry, ..ReadOptions::default() };
    let mut channel = crate::call::read(location, options);
    let mut taken = Vec::new();
    while let Some(frame) = channel.next().await? {
        taken.extend_from_slice(&frame);
    }
    Ok(taken)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_any_length_follow_each_other_on_a_connection() {
    for tls in [None, Some(Tls::Trusted)] {
        let server = server(tls).await;
        let (remotes, _folder) = trusting(&server);
        for len in LENGTHS.into_iter().chain(LENGTHS.into_iter().rev()) {
            let taken = read(&remotes, &server, len).await.unwrap();
            assert!(taken == bytes(len), "{len} bytes, {tls:?}");
        }
        assert_eq!(server.requests(), 2 * LENGTHS.len());
        assert_eq!(server.connections_accepted(), 1, "{tls:?}");
    }
}

/// Answers one request, and closes the connection some time later. The response's head does not
/// announce this.
async fn answer_then_close(listener: &TcpListener, closing: oneshot::Receiver<()>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_buf(&mut request).await.unwrap();
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody").await.unwrap();
    closing.await.unwrap();
}

/// There is only one attempt, so the request must not use the closed connection.
#[tokio::test]
async fn a_closed_connection_is_not_reused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/f", listener.local_addr().unwrap());
    let remotes = remotes(Vec::new());
    for _ in 0..3 {
        let (close, closing) = oneshot::channel();
        let reading = async {
            assert_eq!(read_url(&remotes, &url).await.unwrap(), b"body");
            close.send(()).unwrap();
        };
        tokio::join!(reading, answer_then_close(&listener, closing));
        // The runtime sees the close when it polls its events.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_is_kept_where_nearly_all_was_read_and_closed_where_much_was_left() {
    for tls in [None, Some(Tls::Trusted)] {
        let server = server(tls).await;
        let (remotes, _folder) = trusting(&server);
        let location = |len| remotes.locate(&server.url(&path(len))).unwrap();
        // The whole body arrives with the head, and the caller does not read it.
        let mut channel = crate::call::read(location(5), ReadOptions::default());
        channel.info().await.unwrap();
        drop(channel);
        assert!(read(&remotes, &server, 100).await.unwrap() == bytes(100));
        assert_eq!(server.connections_accepted(), 1, "{tls:?}");
        let mut channel = crate::call::read(location(3 << 20), ReadOptions::default());
        assert!(channel.next().await.unwrap().is_some());
        drop(channel);
        assert!(read(&remotes, &server, 17_000).await.unwrap() == bytes(17_000));
        assert_eq!(server.connections_accepted(), 2, "{tls:?}");
    }
}

#[tokio::test]
async fn idle_connections_are_closed_in_time() {
    let server = server(None).await;
    let remotes = remotes(Vec::new());
    assert!(read(&remotes, &server, 100).await.unwrap() == bytes(100));
    assert_eq!(server.connections_open(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(54)).await;
    tokio::time::resume();
    assert!(read(&remotes, &server, 100).await.unwrap() == bytes(100));
    assert_eq!(server.connections_accepted(), 1, "it is kept for 55 seconds, anew after each use");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(56)).await;
    tokio::time::resume();
    while server.connections_open() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_connections_that_are_made_together_all_succeed() {
    let server = server(Some(Tls::Trusted)).await;
    let (remotes, _folder) = trusting(&server);
    let lens = LENGTHS.into_iter().chain(LENGTHS);
    let all = join_all(lens.map(|len| {
        let (remotes, server) = (&remotes, &server);
        async move { (len, read(remotes, server, len).await) }
    }));
    for (len, taken) in all.await {
        assert!(taken.unwrap() == bytes(len), "{len} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_first_connection_does_not_affect_others() {
    let server = server(Some(Tls::Trusted)).await;
    let (remotes, _folder) = trusting(&server);
    for _ in 0..8 {
        let mut given_up = Box::pin(read(&remotes, &server, 100));
        // The read has begun. It may or may not be waiting for the certificates.
        let _ = futures_util::poll!(given_up.as_mut());
    }
    assert!(read(&remotes, &server, 100).await.unwrap() == bytes(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untrusted_server_is_refused_and_the_error_says_so() {
    for tls in [Tls::Untrusted, Tls::OtherName, Tls::Expired] {
        let server = server(Some(tls)).await;
        let (remotes, _folder) = trusting(&server);
        let error = read(&remotes, &server, 100).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transport, "{tls:?}: {error}");
        assert!(error.to_string().contains("certificate is not trusted"), "{tls:?}: {error}");
    }
    let server = server(Some(Tls::Trusted)).await;
    let error = read(&remotes(Vec::new()), &server, 100).await.unwrap_err();
    assert!(error.to_string().contains("certificate is not trusted"), "{error}");
    assert_eq!(server.requests(), 0, "nothing was asked of a stranger");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_certificate_file_is_an_error_before_the_first_request() {
    // An error even if no connection would need the file.
    let server = server(None).await;
    let error = read(&remotes(vec!["no/such/ca.pem".into()]), &server, 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("no/such/ca.pem"), "{error}");
    assert_eq!(server.connections_accepted(), 0);
}
