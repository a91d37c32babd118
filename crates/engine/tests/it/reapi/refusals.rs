//! How servers refuse, and endpoints that are no gRPC servers.

use std::sync::Arc;
use std::time::Duration;

use tidegate::remote::RemoteOptions;
use tidegate::{Budget, ErrorKind};
use tidegate_core::digest::DigestFunction;
use tidegate_core::retry::RetryClass;
use tidegate_testkit::reapi::{
    Code, GrpcStatus, HashFunction, ReapiFault, ReapiOptions, ReapiServer, Rpc,
};
use tidegate_testkit::{Flavour, Server, ServerOptions};

use super::bed::{noise, sha256, start};

#[tokio::test]
async fn the_servers_message_and_retry_delay_are_kept() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(1000, 1);
    server.put(bytes);
    let status = GrpcStatus::new(Code::Unavailable, "draining \u{1b}[2J").retry_after_ms(1500);
    for rpc in [Rpc::Read, Rpc::FindMissing, Rpc::BatchRead, Rpc::Split] {
        server.script().next(rpc, ReapiFault::Fail(status.clone()));
        let error = match rpc {
            Rpc::Read => cache.get(&digest, 0, &Budget::default()).await.map(drop),
            Rpc::FindMissing => cache.missing(&[digest]).await.map(drop),
            Rpc::BatchRead => cache.get_batch(&[digest], &Budget::default()).await.map(drop),
            _ => cache.manifest(&digest, None, &Budget::default()).await.map(drop),
        }
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Remote, "{rpc:?}");
        assert_eq!(error.retry(), &RetryClass::After(Duration::from_millis(1500)), "{rpc:?}");
        let chain = error.chain();
        assert!(chain.contains("UNAVAILABLE: draining \\u{1b}"), "{rpc:?}: {chain}");
    }
}

#[tokio::test]
async fn a_reset_stream_is_distinguished_from_throttling() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(1000, 2);
    server.put(bytes);
    for (code, kind) in [
        (7, ErrorKind::Transport),  // REFUSED_STREAM
        (8, ErrorKind::Transport),  // CANCEL
        (2, ErrorKind::Transport),  // INTERNAL_ERROR
        (11, ErrorKind::Throttled), // ENHANCE_YOUR_CALM
    ] {
        server.script().next(Rpc::Read, ReapiFault::Reset(code));
        let error = cache.get(&digest, 0, &Budget::default()).await.map(drop).unwrap_err();
        assert_eq!((error.kind(), error.retry()), (kind, &RetryClass::Now), "{code}");
        server.script().next(Rpc::FindMissing, ReapiFault::Reset(code));
        let error = cache.missing(&[digest]).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (kind, &RetryClass::Now), "{code}");
    }
}

#[tokio::test]
async fn a_lost_response_is_cancelled_with_its_call() {
    let (server, cache) = start(ReapiOptions::default()).await;
    for fault in [ReapiFault::Lost, ReapiFault::AnswerLost] {
        server.script().next(Rpc::FindMissing, fault);
        server.clear_counts();
        let asking = {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { cache.missing(&[sha256(b"x")]).await })
        };
        server.counted(|counts| counts.calls(Rpc::FindMissing) == 1).await;
        asking.abort();
        server.idle().await;
    }
}

#[tokio::test]
async fn capabilities_are_requested_once_and_again_after_a_failure() {
    let (server, cache) = start(ReapiOptions {
        hash_functions: vec![HashFunction::Blake3],
        splice: false,
        zstd: false,
        ..ReapiOptions::default()
    })
    .await;
    let status = GrpcStatus::new(Code::Unavailable, "starting");
    server.script().next(Rpc::Capabilities, ReapiFault::Fail(status));
    assert_eq!(cache.profile().await.unwrap_err().retry(), &RetryClass::Now);
    for _ in 0..3 {
        let profile = cache.profile().await.unwrap();
        assert_eq!(profile.digest_functions, [DigestFunction::Blake3]);
        assert_eq!((profile.can_split, profile.can_splice), (true, false));
        assert_eq!(profile.chunkings.len(), 2);
    }
    assert_eq!(server.counts().calls(Rpc::Capabilities), 2);
    let status = GrpcStatus::new(Code::Unimplemented, "what is that?");
    let (server, cache) = start(ReapiOptions::default()).await;
    server.script().next(Rpc::Capabilities, ReapiFault::Fail(status));
    assert_eq!(cache.profile().await.unwrap().digest_functions, [DigestFunction::Sha256]);
}

#[tokio::test]
async fn a_server_of_another_version_or_instance_is_refused() {
    let (_server, cache) =
        start(ReapiOptions { versions: [(3, 0), (3, 1)], ..ReapiOptions::default() }).await;
    assert_eq!(cache.profile().await.unwrap_err().kind(), ErrorKind::Unsupported);
    let server =
        ReapiServer::start(ReapiOptions { instance: "one".to_owned(), ..ReapiOptions::default() })
            .await
            .unwrap();
    let other = server.url().replace("/one", "/two");
    let cache = crate::call::cache(&other, RemoteOptions::default()).unwrap();
    let error = cache.profile().await.unwrap_err();
    assert!(error.to_string().contains("/two"), "{error}");
}

#[tokio::test]
async fn an_endpoint_without_a_grpc_server_is_reported() {
    // A server that speaks only HTTP/1.1, and a port without a listener.
    let http = Server::start(ServerOptions::of(Flavour::Http)).await.unwrap();
    let url = http.url("/").replace("http://", "grpc://");
    let cache = crate::call::cache(url.trim_end_matches('/'), RemoteOptions::default()).unwrap();
    let error = cache.profile().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transport, "{error:?}");
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("grpc://{}", listener.local_addr().unwrap())
    };
    let cache = crate::call::cache(&closed, RemoteOptions::default()).unwrap();
    let error = cache.profile().await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Transport, &RetryClass::Now));
}
