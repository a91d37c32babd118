//! Only missing chunks are sent, and each chunk once.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate::{ErrorKind, Form};
use tidegate_core::digest::Digest;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::bed::{File, budget, large, options, random, run, small, until};
use super::store::{Call, FakeStore, Reply, profile};
use crate::call::{UploadOptions, client_with};

fn assert_once(puts: &[Digest]) {
    let distinct: HashSet<&Digest> = puts.iter().collect();
    assert_eq!(puts.len(), distinct.len(), "a chunk was put twice");
}

#[tokio::test]
async fn identical_chunks_are_sent_once() {
    let part = random(200_000, 10);
    let file = File::new([&part[..], &vec![0; 400_000], &part[..]].concat());
    let store = FakeStore::new(profile(&[small()]));
    let report = run(&store, &file.path, &options()).await.unwrap();
    assert_once(&store.puts());
    assert_eq!(report.chunks.unwrap().moved.chunks, store.puts().len() as u64);
    assert_eq!(
        (report.chunks.unwrap().moved, report.chunks.unwrap().all.bytes),
        (report.chunks.unwrap().distinct, 800_000)
    );
    assert!(report.chunks.unwrap().moved.bytes < 220_000, "{report:?}");
    assert!(
        report.chunks.unwrap().all.chunks > report.chunks.unwrap().distinct.chunks + 200,
        "{report:?}"
    );
}

#[tokio::test]
async fn an_edited_file_costs_what_was_edited() {
    let store = FakeStore::new(profile(&[small()]));
    let mut file = File::random(1 << 20, 11);
    run(&store, &file.path, &options()).await.unwrap();
    let before = store.puts().len();
    file.bytes.splice(500_000..500_010, *b"something else");
    std::fs::write(&file.path, &file.bytes).unwrap();
    let report = run(&store, &file.path, &options()).await.unwrap();
    assert_eq!(report.form, Form::Chunks);
    assert!(
        report.chunks.unwrap().moved.chunks <= 3 && report.chunks.unwrap().moved.bytes < 12_000,
        "{report:?}"
    );
    assert_eq!(
        report.chunks.unwrap().reused.chunks + report.chunks.unwrap().moved.chunks,
        report.chunks.unwrap().distinct.chunks
    );
    assert_eq!(
        store.puts().len() - before,
        usize::try_from(report.chunks.unwrap().moved.chunks).unwrap()
    );
    assert!(store.blobs()[&file.digest()] == file.bytes);
}

#[tokio::test]
async fn a_blob_that_is_there_is_not_made_again() {
    for chunking in [small(), large()] {
        let store = FakeStore::new(profile(&[chunking]));
        let file = File::random(1 << 20, 12);
        run(&store, &file.path, &options()).await.unwrap();
        let (puts, registers) = (store.puts().len(), store.registers());
        for digest in [None, Some(file.digest())] {
            let chosen = UploadOptions { digest, ..options() };
            let report = run(&store, &file.path, &chosen).await.unwrap();
            assert_eq!((report.form, report.digest.unwrap()), (Form::Present, file.digest()));
        }
        assert_eq!((store.puts().len(), store.registers()), (puts, registers));
    }
}

#[tokio::test]
async fn finding_the_blob_ends_the_sending_of_its_chunks() {
    // No put succeeds: the upload ends only if the blob is found.
    let store = FakeStore::scripted(profile(&[small()]), |call, _| match call {
        Call::Put { .. } | Call::PutBatch(_) => Reply::Wait(Arc::new(Semaphore::new(0))),
        _ => Reply::Go,
    });
    let file = File::random(3 << 20, 13);
    store.blobs().insert(file.digest(), file.bytes.clone().into());
    let report = run(&store, &file.path, &options()).await.unwrap();
    assert_eq!((report.form, report.chunks.unwrap().moved.chunks), (Form::Present, 0));
    assert_eq!((store.registers(), store.in_flight()), (0, 0));
}

#[tokio::test]
async fn a_digest_that_is_known_is_asked_for_first() {
    let store = FakeStore::new(profile(&[small()]));
    let file = File::random(1 << 20, 14);
    let chosen = UploadOptions { digest: Some(file.digest()), ..options() };
    let report = run(&store, &file.path, &chosen).await.unwrap();
    assert_eq!(report.form, Form::Chunks);
    assert_eq!(store.log()[0], Call::Missing(vec![file.digest()]));
    assert!(store.blobs()[&file.digest()] == file.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_at_once_of_one_file_send_each_chunk_once() {
    for chunkings in [vec![small()], vec![large()], vec![]] {
        let store = FakeStore::new(profile(&chunkings));
        let file = File::random(2 << 20, 15);
        let options = options();
        let one = || run(&store, &file.path, &options);
        let (a, b, c) = tokio::join!(one(), one(), one());
        let reports = [a.unwrap(), b.unwrap(), c.unwrap()];
        assert_once(&store.puts());
        assert!(store.blobs()[&file.digest()] == file.bytes);
        let sent: u64 = reports.iter().map(|report| report.chunks.unwrap().moved.chunks).sum();
        assert_eq!(sent, store.puts().len() as u64);
    }
}

#[tokio::test]
async fn the_follower_of_a_cancelled_upload_becomes_the_leader() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let store = FakeStore::scripted(profile(&[small()]), move |call, _| match call {
        Call::PutBatch(_) => Reply::Wait(Arc::clone(&waits)),
        _ => Reply::Go,
    });
    let file = File::random(1 << 20, 16);
    let cancel = CancellationToken::new();
    let first = UploadOptions { cancel: cancel.clone(), ..options() };
    let second = options();
    let lead = run(&store, &file.path, &first);
    let follow = async {
        until(|| !store.puts().is_empty()).await;
        let meanwhile = async {
            // The second upload has cut the whole file, and waits for the first one or at the gate.
            until(|| second.progress.snapshot().read_bytes == 1 << 20).await;
            cancel.cancel();
            gate.add_permits(10_000);
        };
        tokio::join!(run(&store, &file.path, &second), meanwhile).0
    };
    let (lead, follow) = tokio::join!(lead, follow);
    assert_eq!(lead.unwrap_err().kind(), ErrorKind::Cancelled);
    let follow = follow.unwrap();
    assert_eq!(follow.digest, Some(file.digest()));
    assert_eq!(follow.chunks.unwrap().rounds, 0);
    assert!(store.blobs()[&file.digest()] == file.bytes);
    assert_eq!(store.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_uploads_that_share_chunks_end_in_the_smallest_budget() {
    let store = FakeStore::new(profile(&[small()]));
    let parts: Vec<Vec<u8>> = (0..4).map(|seed| random(150_000, 100 + seed)).collect();
    let files: Vec<File> = (0..12)
        .map(|n| File::new([&parts[n % 4][..], &parts[(n + 1 + n / 4) % 4], &[7; 9000]].concat()))
        .collect();
    for (requests, bytes) in [(1, 1), (2, 64 << 10), (64, 1 << 20)] {
        store.blobs().clear();
        let budget = budget(requests, bytes);
        let client = client_with(&budget);
        let all = files.iter().map(|file| {
            let options = UploadOptions { client: client.clone(), ..options() };
            let store = &store;
            async move { run(store, &file.path, &options).await.unwrap() }
        });
        futures_util::future::join_all(all).await;
        for file in &files {
            assert!(store.blobs()[&file.digest()] == file.bytes);
        }
        until(|| budget.held_bytes() == 0).await;
    }
}
