//! Blobs as chunks. The client checks the manifests of a server, and finds registered manifests.

use tidegate::chunked::{Manifest, Registered};
use tidegate::{Budget, ErrorKind};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_testkit::reapi::{
    ChunkFunction, Code, GrpcStatus, HashFunction, ReapiFault, ReapiOptions, Rpc, SplicedAgain,
    SplitLie,
};

use super::bed::{digest, noise, request, start};

fn fast() -> Chunking {
    Chunking::FastCdc2020(FastCdc2020Params::new(512 << 10, 0).unwrap())
}

fn rep_max() -> Chunking {
    Chunking::RepMaxCdc(RepMaxCdcParams::new(256 << 10, 8 * (256 << 10)).unwrap())
}

#[tokio::test]
async fn the_chunks_of_a_blob_are_those_that_the_server_has() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (_, bytes) = noise(5_000_000, 1);
    for (chunk, chunking) in
        [(ChunkFunction::FAST_CDC_2020, fast()), (ChunkFunction::REP_MAX_CDC, rep_max())]
    {
        let (blob, chunks) = server.put_chunked(HashFunction::Blake3, chunk, bytes.clone());
        let manifest = cache
            .manifest(&digest(&blob), Some(&chunking), &Budget::default())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(manifest.chunks(), chunks.iter().map(digest).collect::<Vec<_>>());
        assert_eq!(manifest.chunking(), Some(&chunking));
    }
}

#[tokio::test]
async fn a_blob_that_is_gone_or_cannot_be_split_has_no_manifest() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (blob, bytes) = noise(3_000_000, 2);
    assert_eq!(cache.manifest(&blob, None, &Budget::default()).await.unwrap(), None);
    server.put(bytes);
    let status = GrpcStatus::new(Code::Unimplemented, "not for this one");
    server.script().next(Rpc::Split, ReapiFault::Fail(status));
    assert_eq!(cache.manifest(&blob, None, &Budget::default()).await.unwrap(), None);
    assert!(cache.manifest(&blob, None, &Budget::default()).await.unwrap().is_some());
    let (server, cache) = start(ReapiOptions { split: false, ..ReapiOptions::default() }).await;
    assert_eq!(cache.manifest(&blob, None, &Budget::default()).await.unwrap(), None);
    assert_eq!(server.counts().calls(Rpc::Split), 0);
}

#[tokio::test]
async fn no_lie_about_chunks_is_believed() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (_, bytes) = noise(5_000_000, 3);
    let (blob, _) = server.put_chunked(HashFunction::Sha256, ChunkFunction::FAST_CDC_2020, bytes);
    let blob = digest(&blob);
    for lie in [
        SplitLie::Empty,
        SplitLie::ZeroLength,
        SplitLie::NegativeLength,
        SplitLie::Oversized,
        SplitLie::SumShort,
        SplitLie::SumLong,
        SplitLie::Overflow,
        SplitLie::Repeated(1_000_000),
        SplitLie::ShortHash,
        SplitLie::UpperCaseHash,
        SplitLie::PathHash,
    ] {
        server.script().next(Rpc::Split, ReapiFault::Split(lie.clone()));
        let error = cache.manifest(&blob, Some(&fast()), &Budget::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{lie:?}: {error:?}");
        assert!(error.to_string().len() < 400, "{lie:?}: {error}");
    }
    server.idle().await;
}

#[tokio::test]
async fn a_manifest_is_checked_against_the_chunking_that_the_server_names() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (blob, bytes) = noise(5_000_000, 4);
    server.put(bytes);
    server.script().next(Rpc::Split, ReapiFault::Split(SplitLie::OtherFunction));
    let manifest = cache.manifest(&blob, Some(&fast()), &Budget::default()).await.unwrap().unwrap();
    assert_eq!(manifest.chunking(), Some(&rep_max()));
    // An unknown chunking function sets no limits except the blob's size.
    server.script().next(Rpc::Split, ReapiFault::Split(SplitLie::NamesFunction(77)));
    let manifest = cache.manifest(&blob, Some(&fast()), &Budget::default()).await.unwrap().unwrap();
    assert_eq!(manifest.chunking(), None);
}

#[tokio::test]
async fn a_blob_is_made_of_chunks_that_are_there() {
    for spliced_again in [SplicedAgain::AlreadyExists, SplicedAgain::Extended] {
        let (server, cache) =
            start(ReapiOptions { spliced_again, ..ReapiOptions::default() }).await;
        let (blob, bytes) = noise(2_000_000, 5);
        let mut chunks = Vec::new();
        for piece in bytes.chunks(600_000) {
            let piece = bytes::Bytes::copy_from_slice(piece);
            chunks.push((super::bed::sha256(&piece), piece));
        }
        let names = chunks.iter().map(|(digest, _)| *digest).collect();
        let manifest = Manifest::new(blob, names, None).unwrap();
        for (digest, piece) in &chunks {
            assert_eq!(cache.register(&manifest).await.unwrap(), Registered::ChunkMissing);
            cache.put(&request(*digest, piece)).await.unwrap();
        }
        for _ in 0..2 {
            assert_eq!(cache.register(&manifest).await.unwrap(), Registered::Done);
        }
        assert!(cache.missing(&[blob]).await.unwrap().is_empty());
        let stored = server.blobs().into_iter().find(|name| name.len_bytes == blob.len).unwrap();
        assert!(server.blob(&stored).unwrap() == bytes);
    }
}

#[tokio::test]
async fn chunks_that_make_another_blob_are_refused() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let (blob, _) = noise(2000, 6);
    let chunk = digest(&server.put(vec![0; 1000]));
    let manifest = Manifest::new(blob, vec![chunk, chunk], None).unwrap();
    assert_eq!(cache.register(&manifest).await.unwrap_err().kind(), ErrorKind::Remote);
}

#[tokio::test]
async fn a_manifest_too_long_for_the_servers_messages_is_unsupported() {
    // The server accepts 4 MiB.
    let (_server, cache) = start(ReapiOptions::default()).await;
    let chunk = super::bed::sha256(b"x");
    let blob = tidegate_core::digest::Digest { len: 70_000, ..super::bed::sha256(b"blob") };
    let manifest = Manifest::new(blob, vec![chunk; 70_000], None).unwrap();
    let error = cache.register(&manifest).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
}
