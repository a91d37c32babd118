//! The number and order of requests, and the memory held.

use std::sync::Arc;

use tidegate_core::window::WindowOptions;
use tokio::sync::Semaphore;

use super::bed::{File, budget, large, options, run, small, until};
use super::store::{Call, FakeStore, Reply, profile};
use crate::call::{UploadOptions, client_with};

#[tokio::test]
async fn a_thousand_small_chunks_take_few_requests() {
    let store = FakeStore::new(profile(&[small()]));
    let report = run(&store, &File::random(1 << 20, 20).path, &options()).await.unwrap();
    assert!(report.chunks.unwrap().moved.chunks > 500, "{report:?}");
    let requests = report.chunks.unwrap().requests;
    // 17 full batches of 64 KiB, and questions for 16, 32, 64 and so on chunks. If the machine is
    // slow to cut, some batches and questions are sent before they are full.
    assert!(requests.put_batch < 60 && requests.missing < 60, "{requests:?}");
    assert_eq!((requests.put, requests.register, report.totals.restarts), (0, 1, 0));
    let counted = |test: fn(&Call) -> bool| store.count(test) as u64;
    assert_eq!(requests.put_batch, counted(|call| matches!(call, Call::PutBatch(_))));
    assert_eq!(requests.missing, counted(|call| matches!(call, Call::Missing(_))));
    assert_eq!(requests.register, counted(|call| matches!(call, Call::Register { .. })));
}

#[tokio::test]
async fn a_few_small_chunks_take_one_request_of_each_kind() {
    let store = FakeStore::new(profile(&[small()]));
    let report = run(&store, &File::random(12 << 10, 21).path, &options()).await.unwrap();
    let requests = report.chunks.unwrap().requests;
    assert_eq!((requests.missing, requests.put_batch, requests.register), (1, 1, 1), "{report:?}");
}

#[tokio::test]
async fn chunks_are_sent_while_find_missing_calls_are_in_flight() {
    let (put, mut asked) = (Arc::new(Semaphore::new(0)), 0);
    let store = FakeStore::scripted(profile(&[small()]), move |call, _| match call {
        Call::Missing(_) => {
            asked += 1;
            // The store responds to these only after a put.
            if asked > 2 { Reply::Wait(Arc::clone(&put)) } else { Reply::Go }
        }
        Call::PutBatch(_) => {
            put.add_permits(1000);
            Reply::Go
        }
        _ => Reply::Go,
    });
    // Without overlap this would hang.
    let report = run(&store, &File::random(1 << 20, 22).path, &options()).await.unwrap();
    assert!(report.chunks.unwrap().requests.missing > 2, "{report:?}");
}

#[tokio::test]
async fn the_number_of_puts_in_flight_is_the_window() {
    for (chunking, window, packs) in
        [(small(), 3, false), (small(), 3, true), (large(), 3, false), (large(), 1, false)]
    {
        let gate = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&gate);
        let store = FakeStore::scripted(profile(&[chunking]), move |call, _| match call {
            Call::Put { .. } | Call::PutBatch(_) => Reply::Wait(Arc::clone(&waits)),
            _ => Reply::Go,
        });
        store.pack(packs);
        let window = WindowOptions::fixed(window);
        let chosen = UploadOptions { window, ..options() };
        let file = File::random(2 << 20, 23);
        let full = async {
            until(|| store.putting_peak() == window.start as usize).await;
            // Cutting has released its memory: one room of it has 256 KiB and more.
            let cut = || chosen.progress.snapshot().read_bytes == file.bytes.len() as u64;
            until(|| cut() && chosen.client.budget().held_bytes() < 450_000).await;
            // The budget covers all bytes of the batches.
            let copies = if packs { 2 } else { 1 };
            assert!(chosen.client.budget().held_bytes() >= copies * store.bytes());
            gate.add_permits(10_000);
        };
        let (report, ()) = tokio::join!(run(&store, &file.path, &chosen), full);
        assert_eq!(report.unwrap().digest, Some(file.digest()));
        assert_eq!(store.putting_peak(), window.start as usize);
    }
}

#[tokio::test]
async fn held_bytes_are_charged_to_the_budget() {
    for chunking in [small(), large()] {
        let limit = 16 << 20;
        let budget = budget(64, limit);
        let store = FakeStore::new(profile(&[chunking]));
        let chosen = UploadOptions { client: client_with(&budget), ..options() };
        let file = File::random(24 << 20, 24);
        let report = run(&store, &file.path, &chosen).await.unwrap();
        assert_eq!(report.digest.unwrap(), file.digest());
        // Sending holds three sixteenths of the budget and one request more. Cutting holds less
        // than 1 MiB for each core.
        let load = 3 * (128 << 10);
        let cut = (1 << 20) * std::thread::available_parallelism().unwrap().get() as u64;
        assert!(store.bytes_peak() <= limit / 16 * 3 + load, "{}", store.bytes_peak());
        let peak = report.held_bytes_peak;
        assert!(peak > 0 && peak <= limit.min(limit / 16 * 3 + load + cut), "{peak}");
        until(|| budget.held_bytes() == 0).await;
    }
}

#[tokio::test]
async fn progress_adds_up() {
    let store = FakeStore::new(profile(&[small()]));
    let file = File::new([vec![1; 200_000], super::bed::random(200_000, 25)].concat());
    let options = options();
    let report = run(&store, &file.path, &options).await.unwrap();
    let shown = options.progress.snapshot();
    assert_eq!((shown.len_bytes, shown.read_bytes, shown.in_flight), (Some(400_000), 400_000, 0));
    assert_eq!(shown.done_bytes - shown.reused_bytes, report.chunks.unwrap().moved.bytes);
    assert_eq!(shown.done_bytes, 400_000);
}

/// Bytes that a failed request had sent no longer count.
#[tokio::test]
async fn bytes_to_be_sent_again_are_not_shown_as_sent() {
    for chunking in [small(), large()] {
        let mut is_first = true;
        let store = FakeStore::scripted(profile(&[chunking]), move |call, _| match call {
            Call::Put { .. } | Call::PutBatch(_) if std::mem::take(&mut is_first) => {
                Reply::Break(1)
            }
            _ => Reply::Go,
        });
        let (file, options) = (File::random(2 << 20, 26), options());
        let len = file.bytes.len() as u64;
        let never_more = async {
            loop {
                let shown = options.progress.snapshot();
                assert!(shown.going_bytes + shown.done_bytes <= len);
                tokio::task::yield_now().await;
            }
        };
        let report = tokio::select! {
            report = run(&store, &file.path, &options) => report.unwrap(),
            () = never_more => unreachable!("it has no end"),
        };
        assert!(report.totals.restarts > 0, "{report:?}");
        let shown = options.progress.snapshot();
        assert_eq!((shown.done_bytes, shown.reused_bytes, shown.going_bytes), (len, 0, 0));
    }
}
