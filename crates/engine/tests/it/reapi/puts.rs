//! Uploads of whole blobs to a cache.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::chunked::{PutRequest, PutSource};
use tidegate::remote::reapi::{Compression, ReapiOptions as CacheOptions};
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryClass;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{
    Code, Cut, GrpcStatus, ReapiFault, ReapiOptions, ReapiRule, ReapiServer, Rpc,
};

use super::bed::{connect, noise, request, start};

#[tokio::test]
async fn a_blob_arrives_whole_under_its_name() {
    let instance = "an/instance".to_owned();
    let (server, cache) = start(ReapiOptions { instance, ..ReapiOptions::default() }).await;
    for len in [1, 256 << 10, (256 << 10) + 1, 3_000_000] {
        for function in [DigestFunction::Sha256, DigestFunction::Blake3] {
            let (_, bytes) = noise(len, 1);
            let digest = Digest::of(function, &bytes);
            cache.put(&request(digest, &bytes)).await.unwrap();
            assert!(cache.missing(&[digest]).await.unwrap().is_empty(), "{digest}");
        }
    }
    let (_, bytes) = noise(3_000_000, 1);
    let kept = server.blobs().into_iter().filter(|name| name.len_bytes == 3_000_000);
    let kept: Vec<_> = kept.map(|name| server.blob(&name).unwrap()).collect();
    assert!(kept.len() == 2 && kept.iter().all(|kept| *kept == bytes));
}

#[tokio::test]
async fn a_blob_that_exists_is_not_sent_again() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(20_000_000, 2);
    server.put(bytes.clone());
    cache.put(&request(digest, &bytes)).await.unwrap();
    // The flow-control windows let some bytes through before the response arrives.
    assert!(server.counts().bytes_in < 20_000_000, "{}", server.counts().bytes_in);
    server.idle().await;
}

#[tokio::test]
async fn an_attempt_after_another_sends_what_is_missing() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(4_000_000, 3);
    let fault = ReapiFault::CutAfter { bytes: 1_500_000, cut: Cut::Reset(2) };
    server.script().push(ReapiRule::new(fault).rpc(Rpc::Write).nth(1));
    let first = request(digest, &bytes);
    let error = cache.put(&first).await.unwrap_err();
    assert_eq!(error.retry(), &RetryClass::Now, "{error:?}");
    cache.put(&PutRequest { resume: true, ..first }).await.unwrap();
    let offsets: Vec<_> = server
        .calls()
        .iter()
        .filter(|call| call.rpc == Rpc::Write)
        .map(|call| call.offset)
        .collect();
    assert_eq!(offsets, [0, 1_500_000]);
    assert!(cache.missing(&[digest]).await.unwrap().is_empty());
}

#[tokio::test]
async fn after_a_lost_response_the_client_asks_whether_the_blob_exists() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(600_000, 4);
    let status = GrpcStatus::new(Code::Unavailable, "too late");
    server.script().next(Rpc::Write, ReapiFault::FailAfter(status));
    let first = request(digest, &bytes);
    cache.put(&first).await.unwrap_err();
    cache.put(&PutRequest { resume: true, ..first }).await.unwrap();
    assert_eq!(server.counts().calls(Rpc::Write), 1);
}

#[tokio::test]
async fn an_acknowledgement_of_fewer_bytes_is_an_error() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(10_000, 5);
    server.script().next(Rpc::Write, ReapiFault::Committed(9_999));
    let error = cache.put(&request(digest, &bytes)).await.unwrap_err();
    assert!(error.to_string().contains("got 9999"), "{error}");
    assert_eq!(error.retry(), &RetryClass::Now);
    server.script().next(Rpc::Write, ReapiFault::Committed(-1));
    cache.put(&request(digest, &bytes)).await.unwrap_err();
}

#[tokio::test]
async fn bytes_that_do_not_match_the_digest_are_refused_without_a_retry() {
    let (_server, cache) = start(ReapiOptions::default()).await;
    let (digest, _) = noise(10_000, 6);
    let (_, other) = noise(10_000, 7);
    let error = cache.put(&request(digest, &other)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Remote, &RetryClass::Never));
    assert!(error.chain().contains("INVALID_ARGUMENT"), "{}", error.chain());
}

#[tokio::test]
async fn a_blob_beyond_the_servers_limit_is_not_sent() {
    let options = ReapiOptions { blob_bytes_max: 1000, ..ReapiOptions::default() };
    let (server, cache) = start(options).await;
    let (digest, bytes) = noise(1001, 8);
    let error = cache.put(&request(digest, &bytes)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(server.counts().calls(Rpc::Write), 0);
}

/// Fails, or waits forever, after some bytes.
#[derive(Debug)]
struct Failing {
    bytes: Bytes,
    after: u64,
    hangs: bool,
}

#[async_trait]
impl PutSource for Failing {
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes> {
        if offset < self.after {
            return self.bytes.read(offset, len_max).await;
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(Error::new(ErrorKind::Changed, Operation::Read, "the file", "it changed"))
    }
}

#[tokio::test]
async fn a_source_that_fails_ends_the_upload_with_its_own_error() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(2_000_000, 9);
    let source = Arc::new(Failing { bytes: bytes.clone(), after: 1 << 20, hangs: false });
    let error = cache.put(&PutRequest { source, ..request(digest, &bytes) }).await.unwrap_err();
    assert_eq!((error.kind(), error.target()), (ErrorKind::Changed, "the file"));
    server.idle().await;
    assert!(server.blobs().is_empty());
}

#[tokio::test]
async fn a_dropped_upload_is_no_longer_in_flight() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(2_000_000, 10);
    let source = Arc::new(Failing { bytes: bytes.clone(), after: 1 << 20, hangs: true });
    let put = PutRequest { source, ..request(digest, &bytes) };
    let uploading = tokio::spawn(async move { cache.put(&put).await });
    server.counted(|counts| counts.bytes_in >= 1 << 20).await;
    uploading.abort();
    server.idle().await;
}

#[tokio::test]
async fn waiting_for_a_response_can_be_cancelled() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(1000, 11);
    let gate = Gate::new();
    server.script().next(Rpc::Write, ReapiFault::Hold(gate.clone()));
    let put = request(digest, &bytes);
    let uploading = tokio::spawn(async move { cache.put(&put).await });
    gate.reached(1).await;
    uploading.abort();
    server.idle().await;
}

/// The responses to a compressed upload that the client accepts, and those that it rejects.
#[tokio::test]
async fn only_plausible_responses_to_a_compressed_upload_are_accepted() {
    // More than one compressed message, of bytes that do not compress.
    let (digest, bytes) = noise(3_000_000, 12);
    let len = 3_000_000;
    for (fault, is_believed) in [
        (ReapiFault::Committed(-1), true),
        (ReapiFault::Committed(len), true),
        (ReapiFault::Committed(len - 1), false),
        (ReapiFault::Committed(1), false),
        (ReapiFault::Committed(0), false),
        (ReapiFault::Committed(-2), false),
        // The blob exists already.
        (ReapiFault::AnswerFirst(-1), true),
        (ReapiFault::AnswerFirst(len), true),
        // Not all bytes were sent.
        (ReapiFault::AnswerFirst(1), false),
        (ReapiFault::AnswerFirst(256 << 10), false),
        (ReapiFault::AnswerFirst(0), false),
    ] {
        let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
        let options = CacheOptions { compression: Compression::Always, ..CacheOptions::default() };
        let cache = connect(&server, options);
        server.script().next(Rpc::Write, fault.clone());
        let put = cache.put(&request(digest, &bytes)).await;
        assert_eq!(put.is_ok(), is_believed, "{fault:?}");
        if let Err(error) = put {
            assert_eq!(error.retry(), &RetryClass::Now, "{fault:?}");
            // An honest response counts the compressed bytes.
            cache.put(&request(digest, &bytes)).await.unwrap();
            assert!(server.counts().bytes_in > 3_000_000, "{fault:?}");
            assert!(cache.missing(&[digest]).await.unwrap().is_empty());
        }
    }
}

/// An early response to an uncompressed upload must name the whole blob.
#[tokio::test]
async fn an_early_response_counts_only_for_the_whole_blob() {
    let (digest, bytes) = noise(3_000_000, 13);
    for (committed, is_believed) in [(3_000_000, true), (256 << 10, false), (-1, false)] {
        let (server, cache) = start(ReapiOptions::default()).await;
        server.script().next(Rpc::Write, ReapiFault::AnswerFirst(committed));
        let put = cache.put(&request(digest, &bytes)).await;
        assert_eq!(put.is_ok(), is_believed, "{committed}");
    }
}

/// A complete upload accepts no more bytes. If its length is wrong, the resumed put fails, and a
/// new attempt must start over.
#[tokio::test]
async fn an_upload_that_is_complete_with_another_length_is_not_the_blob() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(10_000, 14);
    let resumed = PutRequest { resume: true, ..request(digest, &bytes) };
    for (committed, is_whole) in [(10_000, true), (9_999, false), (10_001, false), (0, false)] {
        server.script().clear();
        server.script().always(Rpc::QueryWriteStatus, ReapiFault::Complete);
        server.script().always(Rpc::QueryWriteStatus, ReapiFault::Committed(committed));
        let put = cache.put(&resumed).await;
        assert_eq!(put.is_ok(), is_whole, "{committed}");
        if let Err(error) = put {
            assert_eq!((error.kind(), error.retry()), (ErrorKind::Integrity, &RetryClass::Never));
        }
    }
    assert_eq!(server.counts().calls(Rpc::Write), 0);
}
