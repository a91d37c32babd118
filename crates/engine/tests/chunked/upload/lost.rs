//! Chunks that the store loses, or says that it has although it cannot use them.

use std::sync::{Arc, Mutex};

use tidegate::ErrorKind;
use tidegate_core::digest::Digest;

use super::bed::{File, options, run, small};
use super::store::{Blobs, Call, FakeStore, Reply, profile};

#[tokio::test]
async fn chunks_that_are_evicted_before_they_are_registered_are_sent_again() {
    for losses in 1..=3_u32 {
        let mut left = losses;
        let store = FakeStore::scripted(profile(&[small()]), move |call, blobs| {
            if matches!(call, Call::Register { .. }) && left > 0 {
                left -= 1;
                evict(blobs, 5);
            }
            Reply::Go
        });
        let file = File::random(100_000, 40);
        let options = options();
        let report = run(&store, &file.path, &options).await.unwrap();
        let shown = options.progress.snapshot();
        assert_eq!(shown.done_bytes, 100_000);
        assert_eq!(
            (report.chunks.unwrap().rounds, report.chunks.unwrap().requests.register),
            (losses, u64::from(losses) + 1)
        );
        assert!(store.blobs()[&file.digest()] == file.bytes);
        let again = store.puts().len() as u64 - report.chunks.unwrap().distinct.chunks;
        assert_eq!(again, u64::from(losses) * 5);
        assert_eq!(report.chunks.unwrap().moved, report.chunks.unwrap().distinct);
    }
}

fn evict(blobs: &mut Blobs, count: usize) {
    let victims: Vec<Digest> = blobs.keys().take(count).copied().collect();
    for victim in victims {
        blobs.remove(&victim);
    }
}

#[tokio::test]
async fn a_store_that_keeps_losing_chunks_is_given_up() {
    let store = FakeStore::scripted(profile(&[small()]), |call, blobs| {
        if matches!(call, Call::Register { .. }) {
            evict(blobs, 1);
        }
        Reply::Go
    });
    let error = run(&store, &File::random(100_000, 41).path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.to_string().contains("lost chunks"), "{error}");
    assert_eq!((store.registers(), store.in_flight()), (4, 0));
}

/// buildbuddy#12168: a chunk that exists only as a manifest is reported as present, and no blob can
/// be made of it.
#[tokio::test]
async fn a_chunk_wrongly_reported_as_present_is_sent() {
    let file = File::random(100_000, 42);
    let ghost: Arc<Mutex<Option<Digest>>> = Arc::default();
    let script = {
        let ghost = Arc::clone(&ghost);
        move |call: &Call, blobs: &mut Blobs| match call {
            Call::Missing(asked) => {
                let mut ghost = ghost.lock().unwrap();
                let ghost = *ghost.get_or_insert(asked[0]);
                let lacks = |digest: &&Digest| !blobs.contains_key(*digest) && **digest != ghost;
                Reply::Lacks(asked.iter().filter(lacks).copied().collect())
            }
            _ => Reply::Go,
        }
    };
    let store = FakeStore::scripted(profile(&[small()]), script);
    let report = run(&store, &file.path, &options()).await.unwrap();
    assert!(store.blobs()[&file.digest()] == file.bytes);
    let ghost = ghost.lock().unwrap().unwrap();
    assert_eq!(store.puts().iter().filter(|put| **put == ghost).count(), 1);
    assert_eq!(store.puts().len() as u64, report.chunks.unwrap().distinct.chunks);
    assert_eq!((report.chunks.unwrap().rounds, report.chunks.unwrap().requests.register), (1, 2));
}

#[tokio::test]
async fn a_store_that_contradicts_itself_for_ever_is_given_up() {
    let store = FakeStore::scripted(profile(&[small()]), |call, _| match call {
        Call::Register { .. } => Reply::ChunkMissing,
        _ => Reply::Go,
    });
    let error = run(&store, &File::random(100_000, 43).path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(error.to_string().contains("says that it has all"), "{error}");
    assert_eq!(store.registers(), 4);
}
