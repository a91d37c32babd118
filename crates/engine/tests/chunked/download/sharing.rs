//! Several downloads at once: a follower shares the chunks that its leader fetches. A failure is
//! not shared.

use std::sync::Arc;
use std::time::Duration;

use tidegate::buffer::{ShardBuffer, ShardBufferOptions};
use tidegate::{BudgetOptions, ErrorKind, Target};
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, FakeStore, Fault};
use crate::call::{ChunkedDownloadOptions, download_chunks};

fn slow(bed: &Bed) {
    bed.store.script(|call, _, _| match call {
        Call::Get { .. } | Call::Batch { .. } => Act::after_ms(20),
        _ => Act::default(),
    });
}

fn mixed() -> Bed {
    Bed::new(chunks((0..60).map(|seed| (if seed % 3 == 0 { 300_000 } else { 900 }, seed))))
}

fn target(bed: &Bed, index: usize) -> Target {
    match index % 3 {
        0 => Target::Memory,
        1 => Target::Discard,
        _ => Target::File(bed.folder.path().join(format!("target-{index}"))),
    }
}

#[tokio::test(start_paused = true)]
async fn downloads_of_one_blob_at_once_fetch_each_chunk_once() {
    let mut bed = mixed();
    slow(&bed);
    // A fixed window: otherwise a leader's window would grow faster than a follower's, and the
    // leader would run ahead.
    bed.options.window = WindowOptions::fixed(16);
    let store = bed.dyn_store();
    // All targets of one kind, so that all ask in the same order. No files: a file's wait takes no
    // paused time, so its download could be late.
    for kind in 0..2 {
        bed.store.forget();
        let targets = [0, 3, 6, 9, 12, 15].map(|index| target(&bed, index + kind));
        let runs = targets.map(|target| download_chunks(&store, &bed.blob, target, &bed.options));
        let reports = futures_util::future::join_all(runs).await;
        let reports: Vec<_> = reports.into_iter().map(Result::unwrap).collect();
        for (digest, count) in bed.store.asked_for() {
            assert_eq!(count, 1, "{digest}");
        }
        let fetched: u64 = reports.iter().map(|report| report.chunks.unwrap().moved.chunks).sum();
        let shared: u64 = reports.iter().map(|report| report.chunks.unwrap().shared.chunks).sum();
        assert_eq!((fetched, shared), (60, 300));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn downloads_into_all_kinds_of_targets_share_what_is_in_flight() {
    let bed = mixed();
    let store = bed.dyn_store();
    let runs =
        (0..9).map(|index| download_chunks(&store, &bed.blob, target(&bed, index), &bed.options));
    for report in futures_util::future::join_all(runs).await {
        let report = report.unwrap();
        assert_eq!(report.chunks.unwrap().moved.chunks + report.chunks.unwrap().shared.chunks, 60);
    }
    assert!(std::fs::read(bed.folder.path().join("target-2")).unwrap() == bed.content());
}

/// A short blob is one chunk, whether or not the store keeps chunks.
#[tokio::test(start_paused = true)]
async fn short_blobs_are_shared_as_chunks_are() {
    let store = FakeStore::new().with_profile(|profile| profile.can_split = false);
    let bed = Bed::on(store, chunks([(100_000, 1)]));
    slow(&bed);
    let store = bed.dyn_store();
    let runs = (0..5).map(|_| download_chunks(&store, &bed.blob, Target::Memory, &bed.options));
    for report in futures_util::future::join_all(runs).await {
        assert!(report.unwrap().memory.unwrap() == bed.content());
    }
    assert_eq!(bed.store.fetches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn stores_do_not_share() {
    let (one, other) = (mixed(), mixed());
    slow(&one);
    slow(&other);
    let (first, second) = tokio::join!(one.run(Target::Memory), other.run(Target::Memory));
    assert_eq!(
        (first.unwrap().chunks.unwrap().moved.chunks, second.unwrap().chunks.unwrap().moved.chunks),
        (60, 60)
    );
}

/// The first download leads every fetch, and is cancelled during them.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cancelled_hands_its_work_over() {
    let bed = mixed();
    slow(&bed);
    let store = bed.dyn_store();
    let leading =
        ChunkedDownloadOptions { cancel: CancellationToken::new(), ..bed.options.clone() };
    let leader = download_chunks(&store, &bed.blob, Target::Memory, &leading);
    let follower = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        download_chunks(&store, &bed.blob, Target::Memory, &bed.options).await
    };
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        leading.cancel.cancel();
    };
    let (leader, follower, ()) = tokio::join!(leader, follower, cancel);
    assert_eq!(leader.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(follower.unwrap().memory.unwrap() == bed.content());
}

/// The leader of a chunk is refused; its follower then asks for the chunk itself.
#[tokio::test(start_paused = true)]
async fn a_failure_of_the_leader_does_not_fail_its_followers() {
    let bed = Bed::new(chunks((0..4).map(|seed| (300_000, seed))));
    let first = bed.digest(0);
    bed.store.script(move |call, digest, nth| match (call, nth) {
        (Call::Get { .. }, 0) if digest == Some(&first) => Act::after_ms(10).but(Fault::Refused),
        (Call::Get { .. }, _) => Act::after_ms(10),
        _ => Act::default(),
    });
    let store = bed.dyn_store();
    let run = || download_chunks(&store, &bed.blob, Target::Memory, &bed.options);
    let (one, other) = tokio::join!(run(), run());
    let (failed, done) = if one.is_err() { (one, other) } else { (other, one) };
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::NoAccess);
    assert!(done.unwrap().memory.unwrap() == bed.content());
}

/// Two blobs that share chunks in opposite orders, with one request at a time: the downloads do not
/// deadlock.
#[tokio::test(start_paused = true)]
async fn downloads_that_need_each_others_chunks_do_not_wait_for_each_other() {
    let seeds: Vec<u64> = (0..30).collect();
    let len = |seed: u64| if seed.is_multiple_of(2) { 300_000 } else { 900 };
    let bed =
        Bed::new(chunks(seeds.iter().map(|seed| (len(*seed), *seed)))).with_budget(4 << 20, 1);
    slow(&bed);
    let reversed = chunks(seeds.iter().rev().map(|seed| (len(*seed), *seed)));
    let digest = tidegate_core::digest::Digest::of(bed.blob.function, &reversed.concat());
    bed.store.hold(&digest, &reversed, None);
    let store = bed.dyn_store();
    let mut options = bed.options.clone();
    options.progress = Arc::default();
    for second in [Target::Discard, Target::File(bed.folder.path().join("second"))] {
        let (one, other) = tokio::join!(
            download_chunks(&store, &bed.blob, Target::Discard, &bed.options),
            download_chunks(&store, &digest, second, &options)
        );
        assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    }
}

/// A leader may be in a runtime that is no longer driven: its followers do not wait for ever.
#[test]
fn followers_of_a_stalled_leader_do_not_wait_for_ever() {
    let kinds = [
        (300_000, BudgetOptions::default()),
        (3_000_000, BudgetOptions { requests: 64, bytes: 16 << 20 }),
    ];
    for (len, limits) in kinds {
        let bed = Bed::new(chunks([(len, 1), (900, 2)])).with_budget(limits.bytes, limits.requests);
        bed.store.script(|call, _, nth| match call {
            Call::Get { .. } if nth == 0 => Act::fault(Fault::Hang),
            _ => Act::default(),
        });
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(true).build().unwrap()
        };
        let run = async || {
            let buffer = Arc::new(ShardBuffer::new(ShardBufferOptions::default()).unwrap());
            download_chunks(&bed.dyn_store(), &bed.blob, Target::Buffer(buffer), &bed.options).await
        };
        let stopped = runtime();
        stopped.block_on(async {
            tokio::select! {
                biased;
                ended = run() => panic!("it hangs: {ended:?}"),
                () = async {
                    while !bed.store.asked_for().contains_key(&bed.digest(0)) {
                        tokio::task::yield_now().await;
                    }
                } => {}
            }
        });
        let report = runtime()
            .block_on(async { tokio::time::timeout(Duration::from_secs(1_000_000), run()).await });
        let report = report.expect("it waits for ever").unwrap();
        assert!(report.memory.unwrap() == bed.content());
        assert_eq!(bed.store.asked_for()[&bed.digest(0)], 2);
        drop(stopped);
    }
}
