//! Many small blobs in one request.

use bytes::Bytes;
use tidegate::chunked::SendProgress;
use tidegate::{Budget, ErrorKind};
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_testkit::reapi::{
    BatchLie, Code, GrpcStatus, ReapiFault, ReapiOptions, ReapiServer, Rpc,
};

use super::bed::{noise, start};

fn chunks(server: Option<&ReapiServer>) -> Vec<(Digest, Bytes)> {
    let chunks: Vec<_> = (0..8).map(|n| noise(1000 + n, n as u64)).collect();
    if let Some(server) = server {
        for (_, bytes) in &chunks {
            server.put(bytes.clone());
        }
    }
    chunks
}

fn digests(chunks: &[(Digest, Bytes)]) -> Vec<Digest> {
    chunks.iter().map(|(digest, _)| *digest).collect()
}

#[tokio::test]
async fn chunks_come_in_the_order_of_the_request_and_an_evicted_one_is_none() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let chunks = chunks(Some(&server));
    server.evict(&chunks[3].0.checksum().hex());
    for fault in [None, Some(BatchLie::Reversed), Some(BatchLie::Twice)] {
        if let Some(lie) = fault {
            server.script().next(Rpc::BatchRead, ReapiFault::Batch(lie));
        }
        let answers = cache.get_batch(&digests(&chunks), &Budget::default()).await.unwrap();
        for (index, (answer, (_, bytes))) in answers.into_iter().zip(&chunks).enumerate() {
            assert_eq!(answer.unwrap().as_ref(), (index != 3).then_some(bytes), "{index}");
        }
    }
}

#[tokio::test]
async fn each_chunk_fails_alone() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let chunks = chunks(Some(&server));
    let status = GrpcStatus::new(Code::ResourceExhausted, "busy").retry_after_ms(250);
    for (lie, kind) in [
        (BatchLie::FailFirst(status), ErrorKind::Throttled),
        (BatchLie::ShortByOne, ErrorKind::Integrity),
        (BatchLie::Foreign, ErrorKind::Remote),
    ] {
        server.script().next(Rpc::BatchRead, ReapiFault::Batch(lie.clone()));
        let answers = cache.get_batch(&digests(&chunks), &Budget::default()).await.unwrap();
        let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert_eq!(failed.len(), 1, "{lie:?}");
        assert_eq!(failed[0].kind(), kind, "{lie:?}");
        if kind == ErrorKind::Throttled {
            let after = std::time::Duration::from_millis(250);
            assert_eq!(failed[0].retry(), &RetryClass::After(after));
        }
    }
}

#[tokio::test]
async fn a_failure_with_a_long_message_is_received() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let status = GrpcStatus::new(Code::ResourceExhausted, "no space left; ".repeat(4_000));
    let lie = ReapiFault::Batch(BatchLie::FailFirst(status));
    server.script().always(Rpc::BatchUpdate, lie.clone());
    server.script().always(Rpc::BatchRead, lie);
    let chunks = chunks(Some(&server));
    let answers = cache.put_batch(&chunks, &SendProgress::default()).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Throttled);
    let answers = cache.get_batch(&digests(&chunks), &Budget::default()).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Throttled);
}

/// Two responses name one chunk, and the one with the failure counts.
#[tokio::test]
async fn if_two_results_name_one_chunk_the_failure_counts() {
    for is_last in [true, false] {
        let (server, cache) = start(ReapiOptions::default()).await;
        let status = GrpcStatus::new(Code::ResourceExhausted, "no space left");
        let lie = ReapiFault::Batch(BatchLie::Disputed { status, is_last });
        server.script().always(Rpc::BatchUpdate, lie.clone());
        server.script().always(Rpc::BatchRead, lie);
        let chunks = chunks(None);
        let answers = cache.put_batch(&chunks, &SendProgress::default()).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Throttled, "{is_last}");
        assert!(answers.len() == 8 && answers[1..].iter().all(Result::is_ok), "{is_last}");
        let answers = cache.get_batch(&digests(&chunks), &Budget::default()).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Throttled, "{is_last}");
        assert!(answers.len() == 8 && answers[1..].iter().all(Result::is_ok), "{is_last}");
    }
}

#[tokio::test]
async fn putting_a_chunk_that_exists_is_no_failure() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let chunks = chunks(None);
    for _ in 0..2 {
        let answers = cache.put_batch(&chunks, &SendProgress::default()).await.unwrap();
        assert!(answers.len() == 8 && answers.iter().all(Result::is_ok));
    }
    assert!(cache.missing(&digests(&chunks)).await.unwrap().is_empty());
    let status = GrpcStatus::new(Code::AlreadyExists, "there");
    let lie = BatchLie::FailFirst(status);
    server.script().next(Rpc::BatchUpdate, ReapiFault::Batch(lie));
    assert!(
        cache.put_batch(&chunks, &SendProgress::default()).await.unwrap().iter().all(Result::is_ok)
    );
}

#[tokio::test]
async fn a_chunk_without_an_entry_in_the_response_has_failed() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let mut chunks = chunks(None);
    server.script().next(Rpc::BatchUpdate, ReapiFault::Batch(BatchLie::Omitted));
    let answers = cache.put_batch(&chunks, &SendProgress::default()).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1);
    // The server also rejects bytes that do not match their digest.
    chunks[0].1 = Bytes::from_static(b"other");
    let answers = cache.put_batch(&chunks, &SendProgress::default()).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Remote);
    assert!(answers[1..].iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_response_longer_than_the_requested_blobs_is_an_error() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (digest, bytes) = noise(300_000, 1);
    server.put(bytes);
    server.script().next(Rpc::BatchRead, ReapiFault::Batch(BatchLie::Twice));
    let error = cache.get_batch(&[digest], &Budget::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(cache.get_batch(&[digest], &Budget::default()).await.unwrap()[0].is_ok());
}

#[tokio::test]
async fn the_largest_batch_that_the_profile_allows_passes() {
    // The server enforces its limits to the byte: on the blobs of a batch together, and on a
    // message.
    for batch_bytes_max in [0, 100_000, 4 << 20] {
        let options =
            ReapiOptions { batch_bytes_max, instance: "i".repeat(1000), ..ReapiOptions::default() };
        let (_server, cache) = start(options).await;
        let limits = cache.profile().await.unwrap().batch.unwrap();
        let mut left = limits.bytes_max;
        let mut chunks = Vec::new();
        while left > limits.overhead_bytes && chunks.len() < limits.count_max {
            // 200 of the smallest, then a few of the largest.
            let most = usize::try_from(left - limits.overhead_bytes).unwrap();
            let len = if chunks.len() < 200 { 8 } else { most.min(300_000) };
            let chunk = noise(len, chunks.len() as u64);
            left -= chunk.0.len + limits.overhead_bytes;
            chunks.push(chunk);
        }
        assert!(
            cache
                .put_batch(&chunks, &SendProgress::default())
                .await
                .unwrap()
                .iter()
                .all(Result::is_ok)
        );
        let answers = cache.get_batch(&digests(&chunks), &Budget::default()).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Some(_)))));
    }
}
