//! Many blobs under one small budget, and shards that lag behind.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate::budget::{Budget, BudgetOptions};
use tidegate::{Progress, Target};
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{
    Blob, EtagStyle, Fault, FaultMix, Flavour, Gate, NetworkProfile, RangeMatch, Rule,
    ServerOptions,
};
use tokio::task::JoinSet;

use crate::bed::{Bed, Collect, SHARD_BYTES};
use crate::call::{DownloadOptions, download};
use crate::trial::{KINDS, Kind, Trial, settle, within};

const MIB: u64 = 1 << 20;

/// Downloads `count` copies of the bed's blob at once, all from one budget, into targets of `kind`.
/// Checks each of them.
async fn crowd(bed: &Bed, kind: Kind, count: usize, options: &DownloadOptions) {
    let folder = tempfile::tempdir().unwrap();
    let mut downloads = JoinSet::new();
    for index in 0..count {
        let location = bed.location();
        let path = folder.path().join(index.to_string());
        let collect = Collect::default();
        let target = match kind {
            Kind::File => Target::File(path.clone()),
            Kind::Writer => collect.target(),
            Kind::Discard => Target::Discard,
            Kind::Memory => Target::Memory,
        };
        let options =
            DownloadOptions { progress: Arc::new(Progress::default()), ..options.clone() };
        let expected = bed.bytes.clone();
        downloads.spawn(async move {
            let report = download(&location, target, &options).await.unwrap();
            match kind {
                Kind::File => assert!(std::fs::read(&path).unwrap() == expected),
                Kind::Writer => assert!(collect.bytes() == expected),
                Kind::Memory => assert!(report.memory.unwrap() == expected),
                Kind::Discard => assert_eq!(report.bytes, expected.len() as u64),
            }
        });
    }
    within(async { while downloads.join_next().await.map(Result::unwrap).is_some() {} }).await;
    settle(options).await;
}

fn small(requests: u32, bytes: u64) -> Budget {
    Budget::new(BudgetOptions { requests, bytes })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_blobs_share_a_small_budget() {
    for (flavour, count, requests, bytes) in [
        (Flavour::Http, 64, 4, 2 * MIB),
        (Flavour::S3, 64, 4, 2 * MIB),
        (Flavour::S3, 12, 1, MIB),
        (Flavour::Http, 12, 2, 1),
    ] {
        for kind in KINDS {
            // A blob in memory must fit the budget.
            if kind == Kind::Memory && bytes == 1 {
                continue;
            }
            let bed = Bed::new(ServerOptions::of(flavour), 200_000).await;
            let options = DownloadOptions {
                durability: tidegate::Durability::None,
                budget: small(requests, bytes),
                ..Bed::options()
            };
            crowd(&bed, kind, count, &options).await;
            // The server may see the end of one request after the start of the next.
            let peak = bed.server.peak_concurrent();
            assert!(peak <= 2 * requests as usize, "{flavour:?} {kind:?}: {peak} at once");
        }
    }
}

/// The defaults of a real run, with more files than the budget can give queues to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_files_under_the_default_budget_all_finish() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), 200_000).await;
    let options = DownloadOptions {
        durability: tidegate::Durability::None,
        budget: Budget::default(),
        ..Bed::options()
    };
    crowd(&bed, Kind::File, 100, &options).await;
}

/// Slow heads and broken bodies vary the order in which permits are taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_broken_responses_cause_no_deadlock_between_blobs() {
    for seed in 0..2 {
        for kind in KINDS {
            let profile =
                NetworkProfile { latency_ms: 1, jitter_ms: 10, ..NetworkProfile::LOOPBACK };
            let server = ServerOptions { profile, seed, ..ServerOptions::of(Flavour::S3) };
            let bed = Bed::new(server, 200_000).await;
            bed.server.script().random(seed, FaultMix::recoverable(0.2));
            let options = DownloadOptions {
                durability: tidegate::Durability::None,
                budget: small(3, MIB),
                ..Bed::options()
            };
            crowd(&bed, kind, 12, &options).await;
        }
    }
}

/// A reader of the output that reads nothing until it is released. It measures how far the server
/// runs ahead.
struct Blocked {
    open: Arc<AtomicBool>,
}

impl Write for Blocked {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        while !self.open.load(Ordering::Acquire) {
            std::thread::yield_now();
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A slow reader of the output holds the transfer back. Bytes that have arrived and are not written
/// yet stay within the budget, even if one request delivers the whole blob.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_of_the_output_costs_no_more_than_the_budget() {
    const LEN: usize = 48 << 20;
    for (ranges, window) in [(true, 4), (true, 1), (false, 4)] {
        let server = ServerOptions { ranges, ..ServerOptions::of(Flavour::Http) };
        let bed = Bed::new(server, LEN).await;
        let open = Arc::new(AtomicBool::new(false));
        let writer = Box::new(Blocked { open: Arc::clone(&open) });
        let target = Target::Writer { writer, name: "output".to_owned() };
        let budget = small(8, 4 * MIB);
        let options =
            DownloadOptions { window: Some(window), budget: budget.clone(), ..Bed::options() };
        let location = bed.location();
        let progress = Arc::clone(&options.progress);
        let watch = async {
            // Until nothing more arrives for several polls.
            let (mut last, mut still) = (0, 0);
            while still < 200 {
                let arrived = progress.snapshot().done_bytes;
                still = if arrived == last && arrived > 0 { still + 1 } else { 0 };
                last = arrived;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            open.store(true, Ordering::Release);
            last
        };
        let (result, arrived) =
            within(async { tokio::join!(download(&location, target, &options), watch) }).await;
        result.unwrap();
        assert!(arrived <= budget.limits().bytes, "{ranges} {window}: {arrived} bytes held");
        settle(&options).await;
    }
}

/// The restart of a shard needs a request. The shards that wait behind it must not keep all
/// requests. This includes shards larger than the budget, and blobs with only a hash to compare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_of_a_broken_shard_is_not_starved_by_waiting_shards() {
    const LEN: usize = 6 << 20;
    for flavour in [Flavour::Http, Flavour::Azure] {
        for (shard_bytes, requests, bytes) in
            [(MIB, 1, 2 * MIB), (MIB, 1, 16 * MIB), (2 * MIB, 2, 8 * MIB), (16 * MIB, 1, 8 * MIB)]
        {
            for kind in [Kind::Writer, Kind::Discard] {
                let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                let cut = Rule::new(Fault::CutAfter(300_000)).method("GET").times(4);
                bed.server.script().push(cut);
                let options = DownloadOptions {
                    shard_bytes_min: Some(shard_bytes),
                    shard_bytes_max: Some(shard_bytes),
                    budget: small(requests, bytes),
                    ..Bed::options()
                };
                crowd(&bed, kind, 3, &options).await;
            }
        }
    }
}

/// Every later shard waits for the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordered_target_survives_a_first_shard_that_arrives_last() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), 1_000_000).await;
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 10, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).method("GET"));
    let options = DownloadOptions { budget: small(4, 16 * MIB), ..Bed::options() };
    let collect = Collect::default();
    let location = bed.location();
    let others = async {
        // The window is four: three more shards can be requested while the first is held.
        bed.server.arrived(4).await;
        gate.open();
    };
    let (result, ()) =
        within(async { tokio::join!(download(&location, collect.target(), &options), others) })
            .await;
    result.unwrap();
    assert!(collect.bytes() == bed.bytes);
    settle(&options).await;
}

fn patient(options: DownloadOptions) -> DownloadOptions {
    DownloadOptions {
        retry: RetryPolicy { stall_ms_max: 25_000, header_ms_max: 25_000, ..options.retry },
        ..options
    }
}

/// Without a race this would take the stall limit, which is longer than the test's timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_shard_that_stalls_is_raced() {
    for flavour in [Flavour::Http, Flavour::S3] {
        for bytes in [if flavour == Flavour::Http { 0 } else { 1000 }] {
            let bed = Bed::new(ServerOptions::of(flavour), 300_000).await;
            let last = 4 * SHARD_BYTES;
            bed.server.script().push(
                Rule::new(Fault::Stall(bytes)).method("GET").range(RangeMatch::StartsAt(last)),
            );
            let collect = Collect::default();
            let options = patient(Bed::options());
            let start = Instant::now();
            let report = within(download(&bed.location(), collect.target(), &options)).await;
            let report = report.unwrap();
            within(bed.server.idle()).await;
            assert!(collect.bytes() == bed.bytes);
            assert!(start.elapsed() < Duration::from_secs(20), "it waited for the stall limit");
            let log = bed.server.log();
            let from = |start: u64| format!("bytes={start}-");
            let asked = |start| {
                log.iter()
                    .filter(|l| l.range.as_ref().is_some_and(|r| r.starts_with(&from(start))))
                    .count()
            };
            assert_eq!(asked(last + bytes), 1 + usize::from(bytes == 0), "{flavour:?} {bytes}");
            assert_eq!(report.bytes, 300_000);
            settle(&options).await;
        }
    }
}

/// The first reader continues after the second has delivered part of the same range. Each byte
/// counts once, whichever reader delivers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_readers_of_a_race_may_deliver_the_same_bytes() {
    for kind in [Kind::File, Kind::Writer, Kind::Memory] {
        let bed = Bed::new(ServerOptions::of(Flavour::Gcs), 300_000).await;
        let (first, second) = (Gate::new(), Gate::new());
        let last = 4 * SHARD_BYTES;
        for (start, bytes, gate) in [(last, 1000, &first), (last + 1000, 5000, &second)] {
            let hold = Fault::HoldAfter { bytes, gate: gate.clone() };
            let rule = Rule::new(hold).method("GET").range(RangeMatch::StartsAt(start));
            bed.server.script().push(rule);
        }
        let options = patient(Bed::options());
        let progress = Arc::clone(&options.progress);
        let overtake = async {
            second.reached(1).await;
            while progress.snapshot().done_bytes < last + 6000 {
                tokio::task::yield_now().await;
            }
            first.open();
            while progress.snapshot().done_bytes < 300_000 {
                tokio::task::yield_now().await;
            }
            second.open();
        };
        let (trial, ()) =
            within(async { tokio::join!(Trial::run(&bed, kind, &options), overtake) }).await;
        trial.assert_whole(&bed, 6, &format!("{kind:?}"));
    }
}

/// A race against a version that is gone ends with that error, and does not send many more
/// requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_against_a_missing_version_is_not_repeated() {
    for flavour in [Flavour::Http, Flavour::Gcs] {
        let bed = Bed::new(ServerOptions::of(flavour), 300_000).await;
        let gate = Gate::new();
        let hold = Fault::HoldAfter { bytes: 1000, gate: gate.clone() };
        let last = RangeMatch::StartsAt(4 * SHARD_BYTES);
        bed.server.script().push(Rule::new(hold).method("GET").range(last));
        let options = patient(Bed::options());
        let location = bed.location();
        let progress = Arc::clone(&options.progress);
        let change = async {
            gate.reached(1).await;
            while progress.snapshot().done_bytes < 4 * SHARD_BYTES + 1000 {
                tokio::task::yield_now().await;
            }
            let other = tidegate_testkit::pseudo_random(300_000, 8);
            bed.server.put(bed.path(), Blob::new(other).with_version(2));
            // Wait for the racer, and half a second for the extra requests that an engine without a
            // bound would send.
            bed.server.arrived(6).await;
            let _ = tokio::time::timeout(Duration::from_millis(500), bed.server.arrived(12)).await;
            gate.open();
        };
        let collect = Collect::default();
        let (result, ()) =
            within(async { tokio::join!(download(&location, collect.target(), &options), change) })
                .await;
        match result {
            Ok(_) => assert!(collect.bytes() == bed.bytes),
            Err(error) => assert_eq!(error.kind(), tidegate::ErrorKind::Changed),
        }
        let requests = bed.server.requests();
        assert!(requests < 10, "{flavour:?}: {requests} requests");
    }
}

/// If the server names no version, nothing ties a second request to the first. If it ignores
/// ranges, a second request delivers the whole blob again. In both cases the engine leaves the
/// stream alone, however slow it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_version_or_ranges_is_not_raced() {
    let anonymous =
        ServerOptions { etag: EtagStyle::None, last_modified: false, ..ServerOptions::default() };
    let no_ranges = ServerOptions { ranges: false, ..ServerOptions::default() };
    for server in [anonymous, no_ranges] {
        let bed = Bed::new(server, 6 << 20).await;
        let drip = Fault::SlowDrip { bytes: 64 << 10, interval_ms: 10 };
        bed.server.script().always(drip);
        let collect = Collect::default();
        let options = patient(Bed::options());
        within(download(&bed.location(), collect.target(), &options)).await.unwrap();
        within(bed.server.idle()).await;
        assert!(collect.bytes() == bed.bytes);
        let whole = bed.server.log().iter().filter(|logged| logged.bytes_sent > MIB).count();
        assert_eq!(whole, 1, "{:?}", bed.server.log());
        settle(&options).await;
    }
}

/// One connection is slow and the others are idle: they take the far half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_last_shard_is_split() {
    const SHARD: u64 = 8 << 20;
    for kind in [Kind::Writer, Kind::Memory] {
        let bed =
            Bed::new(ServerOptions::of(Flavour::Gcs), 2 * usize::try_from(SHARD).unwrap()).await;
        // 64 KiB every 20 ms: 2.5 s in all.
        let drip = Fault::SlowDrip { bytes: 64 << 10, interval_ms: 20 };
        bed.server.script().push(Rule::new(drip).method("GET").range(RangeMatch::StartsAt(SHARD)));
        let options = DownloadOptions {
            shard_bytes_min: Some(SHARD),
            shard_bytes_max: Some(SHARD),
            budget: small(8, 128 * MIB),
            ..Bed::options()
        };
        let collect = Collect::default();
        let target = if kind == Kind::Writer { collect.target() } else { Target::Memory };
        let report = within(download(&bed.location(), target, &options)).await.unwrap();
        within(bed.server.idle()).await;
        if kind == Kind::Writer {
            assert!(collect.bytes() == bed.bytes);
        } else {
            assert!(report.memory.unwrap() == bed.bytes);
        }
        assert!(report.verified.checksums().len() == 1);
        let log = bed.server.log();
        assert!(log.len() > 2, "{kind:?}: no other connection took a part");
        let slow = log.iter().find(|l| !l.faults.is_empty()).unwrap();
        assert!(slow.bytes_sent < SHARD, "{kind:?}: the slow connection sent everything");
        settle(&options).await;
    }
}
