//! How many requests are in flight, how many bytes they hold, and that no request waits without
//! need.

use std::time::Duration;

use tidegate::Target;
use tidegate_core::digest::Digest;
use tidegate_core::window::WindowOptions;
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, Collect, chunks};
use super::fake::{Act, Call, FakeStore, Fault};
use crate::call::download_chunks;

fn delay_all(bed: &Bed, ms: u64) {
    bed.store.script(move |call, _, _| match call {
        Call::Get { .. } | Call::Batch { .. } => Act::after_ms(ms),
        _ => Act::default(),
    });
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_window_are_in_flight_and_no_fewer() {
    let mut bed = Bed::new(chunks((0..100).map(|seed| (300_000, seed))));
    delay_all(&bed, 10);
    bed.options.window = WindowOptions::fixed(7);
    bed.to_file().await.unwrap();
    assert_eq!(bed.store.in_flight_peak(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_window_grows_where_that_is_faster() {
    let bed = Bed::new(chunks((0..400).map(|seed| (300_000, seed))));
    delay_all(&bed, 10);
    let report = bed.run(Target::Memory).await.unwrap();
    assert!(report.chunks.unwrap().window > 16, "{}", report.chunks.unwrap().window);
    assert!(bed.store.in_flight_peak() > 16);
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_than_the_budget_has_are_in_flight() {
    let bed = Bed::new(chunks((0..50).map(|seed| (300_000, seed)))).with_budget(64 << 20, 3);
    delay_all(&bed, 10);
    bed.to_file().await.unwrap();
    assert_eq!(bed.store.in_flight_peak(), 3);
}

/// Bazel's window stalls behind its slowest chunk. Here all other chunks arrive before the slowest
/// one.
#[tokio::test(start_paused = true)]
async fn a_slow_first_chunk_delays_no_other_chunk() {
    let bed = Bed::new(chunks((0..200).map(|seed| (300_000, seed))));
    let head = bed.digest(0);
    for is_file in [true, false] {
        // The head arrives after all other chunks. If one of them waited for the head, none would
        // arrive.
        let gate = CancellationToken::new();
        let opened = gate.clone();
        bed.store.forget();
        bed.store.open_after(199, &gate);
        bed.store.script(move |_, digest, _| match digest {
            Some(digest) if *digest == head => Act::behind(&gate),
            _ => Act::default(),
        });
        // File writes take real time: this task is always ready, so that the paused clock does not
        // run ahead.
        let guard = std::time::Instant::now();
        let busy = async {
            while !opened.is_cancelled() {
                assert!(guard.elapsed() < Duration::from_mins(1), "it stalls behind its head");
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
        };
        if is_file {
            tokio::join!(bed.to_file(), busy).0.unwrap();
        } else {
            tokio::join!(bed.to_buffer(), busy).0.0.unwrap();
        }
        let last = bed.store.finished().pop();
        assert_eq!(last, Some(Call::Get { digest: head, offset: 0 }));
        assert_eq!(bed.store.fetches().len(), 200);
    }
}

/// A stream must wait for its first chunk. The bytes that wait behind it stay within the stream's
/// share.
#[tokio::test(start_paused = true)]
async fn behind_a_slow_first_chunk_a_stream_holds_no_more_than_its_share() {
    let bed = Bed::new(chunks((0..200).map(|seed| (300_000, seed)))).with_budget(16 << 20, 64);
    let head = bed.digest(0);
    bed.store.script(move |call, digest, _| match (call, digest) {
        (Call::Get { .. }, Some(digest)) if *digest == head => Act::after_ms(20_000),
        (Call::Get { .. }, _) => Act::after_ms(10),
        _ => Act::default(),
    });
    let (report, given) = bed.to_writer().await;
    assert!(given == bed.content());
    let peak = report.unwrap().held_bytes_peak;
    assert!(peak <= 4 << 20, "{peak}");
    let before_head =
        bed.store.finished().iter().position(|call| call.digests() == [head]).unwrap();
    assert_eq!(before_head, (4 << 20) / 303_104 - 1, "as many as its share holds came first");
}

#[tokio::test(start_paused = true)]
async fn a_file_holds_what_is_in_flight_and_no_more() {
    let mut bed = Bed::new(chunks((0..200).map(|seed| (1 << 20, seed))));
    delay_all(&bed, 10);
    bed.options.window = WindowOptions::fixed(16);
    let report = bed.to_file().await.unwrap();
    // Chunks of 1 MiB: 16 in the window and 1 that is about to start; 8 in the writer's queue and 1
    // that is being written; 4 MiB lent to the hash and 1 that is being hashed.
    let bound = 16 + 1 + 8 + 1 + 4 + 1;
    assert!(report.held_bytes_peak >= 16 << 20, "{}", report.held_bytes_peak);
    assert!(report.held_bytes_peak <= bound << 20, "{}", report.held_bytes_peak);
}

#[tokio::test(start_paused = true)]
async fn a_blob_takes_no_more_than_its_share_however_far_the_window_grows() {
    let mut bed = Bed::new(chunks((0..200).map(|seed| (1 << 20, seed))));
    delay_all(&bed, 1000);
    bed.options.window = WindowOptions::fixed(200);
    let report = bed.to_file().await.unwrap();
    assert_eq!(report.held_bytes_peak, 56 << 20);
    assert_eq!(bed.store.in_flight_peak(), 56);
}

/// With any budget and any number of blobs, all downloads complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn many_blobs_share_a_tiny_budget_without_waiting_for_each_other() {
    for (bytes, requests) in [(4096, 1), (64 << 10, 1), (1 << 20, 2), (3 << 20, 5)] {
        let lens = [900, 300_000, 70_000, 2_000_000, 900, 1, 300_000];
        // Some chunks recur, and would be kept.
        let kinds = (0..40).map(|n| n * 5 % 16).map(|n| (lens[n % 7], n as u64));
        let bed = Bed::new(chunks(kinds)).with_budget(bytes, requests);
        let store = bed.dyn_store();
        let runs = (0..8).map(|index| {
            let target = match index % 2 {
                0 => Target::File(bed.folder.path().join(format!("{bytes}-{index}"))),
                _ => Target::Discard,
            };
            download_chunks(&store, &bed.blob, target, &bed.options)
        });
        let all = futures_util::future::join_all(runs);
        // The timeout turns a deadlock into a failure.
        let reports = tokio::time::timeout(Duration::from_mins(2), all).await;
        for report in reports.expect("a deadlock") {
            report.unwrap();
        }
        assert!(bed.options.client.budget().held_bytes_peak() <= bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_blob_that_does_not_fit_the_budget_goes_into_no_memory() {
    let bed = Bed::new(chunks((0..20).map(|seed| (300_000, seed)))).with_budget(1 << 20, 4);
    let error = bed.run(Target::Memory).await.unwrap_err();
    assert_eq!(error.kind(), tidegate::ErrorKind::Invalid);
}

/// 200,000 places of one chunk are one request.
#[tokio::test(start_paused = true)]
async fn a_chunk_that_recurs_everywhere_is_fetched_once() {
    let one = chunks([(16, 1)]).remove(0);
    let bed = Bed::new(vec![one; 200_000]);
    bed.to_file().await.unwrap();
    let (report, given) = bed.to_writer().await;
    assert!(report.is_ok() && given == bed.content());
    assert_eq!(bed.store.fetches().len(), 2, "one for each download");
}

#[tokio::test(start_paused = true)]
async fn a_failed_download_releases_its_places_in_the_window() {
    let bed = Bed::new(chunks((0..20).map(|seed| (300_000, seed)))).with_budget(4 << 20, 2);
    bed.store.script(|call, _, _| match call {
        Call::Get { .. } => Act::after_ms(3).but(Fault::Refused),
        _ => Act::default(),
    });
    bed.to_file().await.unwrap_err();
    delay_all(&bed, 1);
    bed.to_file().await.unwrap();
}

/// The reader of one stream may wait for the other download, which needs the only request.
#[tokio::test(start_paused = true)]
async fn a_paused_reader_holds_no_request() {
    for can_split in [true, false] {
        let store = FakeStore::new().with_profile(|profile| profile.can_split = can_split);
        let lens = [(20_000_000, 1), (900, 2)];
        let bed = Bed::on(store, chunks(lens)).with_budget(16 << 20, 1);
        let small = chunks([(900, 2)]).remove(0);
        let other = Digest::of(bed.blob.function, &small);
        let (reads, paused) = std::sync::mpsc::channel();
        let collect = Collect::default();
        let writer = Box::new(Paused { reads: paused, collect: collect.clone() });
        let stream = Target::Writer { writer, name: "test".to_owned() };
        let store = bed.dyn_store();
        let second = async {
            while bed.store.fetches().is_empty() {
                tokio::task::yield_now().await;
            }
            let done = download_chunks(&store, &other, Target::Memory, &bed.options);
            let done = tokio::time::timeout(Duration::from_hours(1), done).await;
            drop(reads);
            done.expect("the stream keeps the only request").unwrap()
        };
        let first = download_chunks(&store, &bed.blob, stream, &bed.options);
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_ok(), "{first:?}");
        assert!(second.memory.unwrap() == small && *collect.0.lock().unwrap() == bed.content());
    }
}

/// A writer that takes nothing until the sender is dropped.
struct Paused {
    reads: std::sync::mpsc::Receiver<()>,
    collect: Collect,
}

impl std::io::Write for Paused {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.reads.recv();
        self.collect.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
