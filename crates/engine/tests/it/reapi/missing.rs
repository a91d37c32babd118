//! Asking a cache which blobs it lacks.

use tidegate::ErrorKind;
use tidegate_core::digest::Digest;
use tidegate_testkit::reapi::{FindMissingLie, ReapiFault, ReapiOptions, Rpc};

use super::bed::{sha256, start};

fn many(count: u64) -> Vec<Digest> {
    (0..count).map(|n| Digest { len: n + 1, ..sha256(&n.to_le_bytes()) }).collect()
}

#[tokio::test]
async fn a_long_list_of_digests_is_split_into_several_messages() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let there = server.put(&b"there"[..]);
    let mut digests = many(45_000);
    digests.insert(30_000, super::bed::digest(&there));
    let mut missing = cache.missing(&digests).await.unwrap();
    assert_eq!(server.counts().calls(Rpc::FindMissing), 3);
    digests.remove(30_000);
    digests.sort_unstable();
    missing.sort_unstable();
    assert!(missing == digests);
}

#[tokio::test]
async fn a_digest_asked_for_twice_or_listed_twice_is_returned_once() {
    let (server, cache) = start(ReapiOptions::default()).await;
    server.script().next(Rpc::FindMissing, ReapiFault::FindMissing(FindMissingLie::Twice));
    let one = sha256(b"one");
    assert_eq!(cache.missing(&[one, one, sha256(b"")]).await.unwrap(), [one]);
}

#[tokio::test]
async fn a_response_that_lists_every_digest_twice_is_accepted() {
    let (server, cache) = start(ReapiOptions::default()).await;
    server.script().next(Rpc::FindMissing, ReapiFault::FindMissing(FindMissingLie::Twice));
    assert_eq!(cache.missing(&many(2_000)).await.unwrap().len(), 2_000);
}

#[tokio::test]
async fn no_request_is_sent_for_no_digests_or_the_empty_blob() {
    let (server, cache) = start(ReapiOptions::default()).await;
    assert!(cache.missing(&[]).await.unwrap().is_empty());
    assert!(cache.missing(&[sha256(b"")]).await.unwrap().is_empty());
    assert_eq!(server.counts().total.arrived, 0);
}

#[tokio::test]
async fn a_response_that_lists_another_blob_is_refused() {
    let (server, cache) = start(ReapiOptions::default()).await;
    server.script().next(Rpc::FindMissing, ReapiFault::FindMissing(FindMissingLie::Foreign));
    let error = cache.missing(&many(3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
}
