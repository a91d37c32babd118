//! Blobs that are sent as zstd.

use std::sync::Arc;

use tidegate::chunked::{ChunkStore, SendProgress};
use tidegate::remote::reapi::{Compression, ReapiOptions as CacheOptions};
use tidegate::{Budget, ErrorKind};
use tidegate_testkit::reapi::{
    ContentLie, HostileCall, Lie, PackedLie, ReapiFault, ReapiOptions, ReapiServer, Rpc, Turns,
};

use super::bed::{connect, noise, request, text, whole};

async fn start(
    options: ReapiOptions,
    compression: Compression,
) -> (ReapiServer, Arc<dyn ChunkStore>) {
    let server = ReapiServer::start(options).await.unwrap();
    let cache = connect(&server, CacheOptions { compression, ..CacheOptions::default() });
    (server, cache)
}

#[tokio::test]
async fn bytes_are_compressed_both_ways_if_the_cache_offers_it() {
    let (server, cache) = start(ReapiOptions::default(), Compression::Always).await;
    let (digest, bytes) = text(3_000_000);
    cache.put(&request(digest, &bytes)).await.unwrap();
    assert!(server.counts().bytes_in < 100_000, "{}", server.counts().bytes_in);
    let body = cache.get(&digest, 0, &Budget::default()).await.unwrap();
    assert!(whole(body).await.unwrap() == bytes);
    let body = cache.get(&digest, 2_999_000, &Budget::default()).await.unwrap();
    assert!(whole(body).await.unwrap() == bytes[2_999_000..]);
    assert!(server.counts().bytes_out < 100_000, "{}", server.counts().bytes_out);
}

#[tokio::test]
async fn batches_are_compressed_too() {
    let (server, cache) = start(ReapiOptions::default(), Compression::Auto).await;
    cache.profile().await.unwrap();
    assert_eq!(cache.put_batch_buffer_bytes(100), 100);
    let chunks = vec![text(50_000), noise(50_000, 1)];
    for answer in cache.put_batch(&chunks, &SendProgress::default()).await.unwrap() {
        answer.unwrap();
    }
    assert!((50_000..55_000).contains(&server.counts().bytes_in), "{}", server.counts().bytes_in);
    let digests = [chunks[0].0, chunks[1].0];
    let answers = cache.get_batch(&digests, &Budget::default()).await.unwrap();
    for (answer, (_, bytes)) in answers.into_iter().zip(&chunks) {
        assert_eq!(answer.unwrap().as_ref(), Some(bytes));
    }
}

#[tokio::test]
async fn incompressible_bytes_are_sent_plain_unless_compression_is_always() {
    let (digest, bytes) = noise(1_000_000, 2);
    for (compression, packed) in
        [(Compression::Auto, false), (Compression::Always, true), (Compression::Never, false)]
    {
        let (server, cache) = start(ReapiOptions::default(), compression).await;
        cache.put(&request(digest, &bytes)).await.unwrap();
        assert_eq!(server.counts().bytes_in != 1_000_000, packed, "{compression:?}");
    }
}

#[tokio::test]
async fn a_cache_without_zstd_transfers_plain_bytes() {
    let options = ReapiOptions { zstd: false, ..ReapiOptions::default() };
    let (server, cache) = start(options, Compression::Always).await;
    let (digest, bytes) = text(1_000_000);
    cache.put(&request(digest, &bytes)).await.unwrap();
    let body = cache.get(&digest, 0, &Budget::default()).await.unwrap();
    assert!(whole(body).await.unwrap() == bytes);
    let counts = server.counts();
    assert_eq!((counts.bytes_in, counts.bytes_out), (1_000_000, 1_000_000));
}

#[tokio::test]
async fn a_compressed_upload_of_an_existing_blob_succeeds() {
    let (server, cache) = start(ReapiOptions::default(), Compression::Always).await;
    let (digest, bytes) = noise(1_000_000, 3);
    server.put(bytes.clone());
    cache.put(&request(digest, &bytes)).await.unwrap();
}

#[tokio::test]
async fn compressed_bytes_that_decompress_to_too_many_are_refused() {
    let (server, cache) = start(ReapiOptions::default(), Compression::Always).await;
    let (digest, bytes) = text(1000);
    server.put(bytes);
    server.script().next(Rpc::Read, ReapiFault::Longer(100_000_000));
    let body = cache.get(&digest, 0, &Budget::default()).await;
    let error = match body {
        Ok(body) => whole(body).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Integrity);
}

/// Some servers compress with windows of 32 MiB. If the client cannot decompress a blob, the next
/// request asks for plain bytes.
#[tokio::test]
async fn after_a_window_that_is_too_large_plain_bytes_are_requested() {
    let (server, cache) = start(ReapiOptions::default(), Compression::Always).await;
    let (digest, bytes) = text(1000);
    server.put(bytes.clone());
    let lies = vec![Lie::Content(0, ContentLie::Packed(PackedLie::Window(25)))];
    server.tell(&HostileCall { rpc: Rpc::Read, turns: Turns::First, lies });
    let error = match cache.get(&digest, 0, &Budget::default()).await {
        Ok(body) => whole(body).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");
    let before = server.counts().bytes_out;
    let body = cache.get(&digest, 0, &Budget::default()).await.unwrap();
    assert!(whole(body).await.unwrap() == bytes);
    assert_eq!(server.counts().bytes_out - before, 1000, "it came plain");
}
