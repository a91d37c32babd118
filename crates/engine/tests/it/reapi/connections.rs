//! Connections: how many the client opens, and what happens when one ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tidegate::Budget;
use tidegate::remote::RemoteOptions;
use tidegate::remote::reapi::ReapiOptions as CacheOptions;
use tidegate::transport::TransportOptions;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{ReapiFault, ReapiOptions, ReapiServer, Rpc};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::bed::{connect, digest, noise, sha256, start, whole};
use crate::call::client_of;

#[tokio::test]
async fn small_calls_one_after_the_other_share_one_connection() {
    let (server, cache) = start(ReapiOptions::default()).await;
    for n in 0..20_u8 {
        cache.missing(&[sha256(&[n])]).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn many_calls_at_once_are_spread_over_no_more_than_are_allowed() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, CacheOptions { connections_max: 3, ..CacheOptions::default() });
    let gate = Gate::new();
    server.script().always(Rpc::FindMissing, ReapiFault::Hold(gate.clone()));
    let asking: Vec<_> = (0..24_u8)
        .map(|n| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { cache.missing(&[sha256(&[n])]).await })
        })
        .collect();
    gate.reached(24).await;
    assert_eq!(server.connections(), 3);
    gate.open();
    for asked in join_all(asking).await {
        asked.unwrap().unwrap();
    }
}

#[tokio::test]
async fn after_goaway_the_client_opens_another_connection() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (name, bytes) = noise(1_000_000, 1);
    server.put(bytes.clone());
    for _ in 0..5 {
        // Calls in flight when the server sends GOAWAY succeed. Later calls use another connection,
        // without an error in between.
        server.script().next(Rpc::Read, ReapiFault::GoAway);
        let budget = Budget::default();
        let (one, other) = tokio::join!(cache.get(&name, 0, &budget), cache.get(&name, 0, &budget));
        assert!(whole(one.unwrap()).await.unwrap() == bytes);
        assert!(whole(other.unwrap()).await.unwrap() == bytes);
        cache.missing(&[name]).await.unwrap();
    }
    assert!(server.connections() >= 5, "{}", server.connections());
}

#[tokio::test]
async fn a_broken_connection_fails_only_its_own_calls() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let name = digest(&server.put(&b"data"[..]));
    server.script().next(Rpc::FindMissing, ReapiFault::Close);
    let error = cache.missing(&[name]).await.unwrap_err();
    assert_eq!(error.kind(), tidegate::ErrorKind::Transport, "{error:?}");
    assert_eq!(error.retry(), &tidegate_core::retry::RetryClass::Now);
    assert!(cache.missing(&[name]).await.unwrap().is_empty());
    assert_eq!(server.connections(), 2);
}

/// An HTML page of a proxy: HTTP/2, status 200, `text/html`.
#[tokio::test]
async fn a_server_without_grpc_is_reported_after_one_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let answers = Arc::new(AtomicUsize::new(0));
    let answered = Arc::clone(&answers);
    let page = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer_with_a_page(stream, Arc::clone(&answered)));
        }
    });
    let cache = crate::call::cache(&url, RemoteOptions::default()).unwrap();
    let error = cache.profile().await.unwrap_err();
    assert_eq!(error.kind(), tidegate::ErrorKind::Unsupported, "{}", error.chain());
    assert_eq!(error.retry(), &tidegate_core::retry::RetryClass::Never);
    assert_eq!(answers.load(Ordering::SeqCst), 1);
    page.abort();
}

/// Hand-made HTTP/2 frames (RFC 9113): a length of three bytes, a type, flags, the stream.
async fn answer_with_a_page(mut stream: TcpStream, answers: Arc<AtomicUsize>) {
    const HEADERS: u8 = 1;
    const PREFACE_BYTES: usize = 24;
    let mut preface = [0; PREFACE_BYTES];
    stream.read_exact(&mut preface).await.unwrap();
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let len = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; len]).await.unwrap();
        if head[3] == HEADERS {
            answers.fetch_add(1, Ordering::SeqCst);
            // `:status: 200`, and `content-type` (31) with a value of nine bytes.
            let block = b"\x88\x0f\x10\x09text/html";
            let mut answer = vec![0, 0, block.len().to_le_bytes()[0], HEADERS, 4];
            answer.extend_from_slice(&head[5..]);
            answer.extend_from_slice(block);
            answer.extend_from_slice(&[0, 0, 6, 0, 1]);
            answer.extend_from_slice(&head[5..]);
            answer.extend_from_slice(b"<html>");
            stream.write_all(&answer).await.unwrap();
        }
    }
}

#[tokio::test]
async fn calls_beyond_the_servers_stream_limit_wait() {
    let options = ReapiOptions { streams_max: 100, ..ReapiOptions::default() };
    let server = ReapiServer::start(options).await.unwrap();
    let cache = connect(&server, CacheOptions { connections_max: 1, ..CacheOptions::default() });
    let asking = (0..300_u16).map(|n| {
        let cache = Arc::clone(&cache);
        async move { cache.missing(&[sha256(&n.to_le_bytes())]).await }
    });
    for asked in join_all(asking).await {
        assert_eq!(asked.unwrap().len(), 1);
    }
    let calls = server.counts().rpc(Rpc::FindMissing);
    assert!(calls.arrived == 300 && calls.in_flight_peak <= 100, "{calls:?}");
}

#[tokio::test]
async fn unread_bodies_do_not_delay_other_bodies() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, CacheOptions { connections_max: 1, ..CacheOptions::default() });
    let (name, bytes) = noise(8_000_000, 2);
    server.put(bytes.clone());
    let mut waiting = Vec::new();
    for _ in 0..12 {
        waiting.push(cache.get(&name, 0, &Budget::default()).await.unwrap());
    }
    let body = cache.get(&name, 0, &Budget::default()).await.unwrap();
    assert!(whole(body).await.unwrap() == bytes);
    drop(waiting);
    server.idle().await;
}

#[tokio::test]
async fn hundreds_of_cancelled_reads_leave_the_connection_usable() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, CacheOptions { connections_max: 1, ..CacheOptions::default() });
    let (name, bytes) = noise(1_000_000, 3);
    server.put(bytes.clone());
    for _ in 0..10 {
        let budget = Budget::default();
        let reading = (0..60).map(|_| cache.get(&name, 0, &budget));
        for body in join_all(reading).await {
            // Most of the blob is still in flight.
            drop(body.unwrap());
        }
    }
    assert!(whole(cache.get(&name, 0, &Budget::default()).await.unwrap()).await.unwrap() == bytes);
    assert_eq!(server.connections(), 1);
    server.idle().await;
}

/// The clock is paused, because a slow machine may take longer than the limit to read the system's
/// certificates.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_connection_fail_with_its_error() {
    // It accepts connections and sends nothing, so the TLS handshake never begins.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpcs://{}", mute.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&accepted);
    let listening = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(mute.accept().await);
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let remotes = client_of(RemoteOptions {
        reapi: CacheOptions { connections_max: 1, ..CacheOptions::default() },
        transport: TransportOptions { connect_ms_max: 300, ..TransportOptions::default() },
        ..RemoteOptions::default()
    });
    let cache = crate::call::store(&remotes, &url).unwrap();
    let asking = (0..40_u8).map(|n| {
        let cache = Arc::clone(&cache);
        async move { cache.missing(&[sha256(&[n])]).await }
    });
    for asked in join_all(asking).await {
        let error = asked.unwrap_err();
        assert_eq!(error.kind(), tidegate::ErrorKind::Timeout, "{error:?}");
        assert!(error.chain().ends_with("in time: no connection: timed out"), "{error:?}");
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
    // A later call makes a new attempt.
    cache.missing(&[sha256(b"later")]).await.unwrap_err();
    assert_eq!(accepted.load(Ordering::Relaxed), 2);
    listening.abort();
}
