//! A mirror that fails is dropped, and its shards go on at the first missing byte.

use std::collections::HashSet;

use tidegate::{ErrorKind, Target};
use tidegate_testkit::{Blob, pseudo_random};

use super::*;

/// The first bytes of the ranges that were asked for.
fn starts(bed: &Bed) -> HashSet<u64> {
    let start = |logged: &Logged| {
        logged.range.as_ref()?.strip_prefix("bytes=")?.split_once('-')?.0.parse().ok()
    };
    bed.server.log().iter().filter_map(start).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_dies_is_dropped_and_its_shards_go_on_at_the_next_byte() {
    for kind in KINDS {
        let (one, two) = (bed().await, bed().await);
        let script = two.server.script();
        // It answers with its description, and delivers a part of one shard.
        script.push(Rule::new(Fault::CutAfter(5000)).nth(2));
        script.push(Rule::new(Fault::CloseBeforeFirstByte).nth(3).always());
        let trial = Trial::run(&one, kind, &options(&one, &[&two])).await;
        within(two.server.idle()).await;
        let report = trial.result.as_ref().unwrap_or_else(|error| panic!("{kind:?}: {error:?}"));
        if let Some(content) = &trial.content {
            assert!(*content == one.bytes, "{kind:?}");
        }
        let dropped = of(report, &two);
        assert_eq!(dropped.bytes, 5000, "{kind:?}");
        assert!(dropped.unused.as_ref().unwrap().contains("gave up"), "{kind:?} {dropped:?}");
        assert_eq!(of(report, &one).bytes, LEN as u64 - 5000, "{kind:?}");
        assert!(starts(&one).iter().any(|start| start % SHARD_BYTES == 5000), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_place_that_dies_is_dropped() {
    let (one, two) = (bed().await, bed().await);
    one.server.script().push(Rule::new(Fault::ResetAfter(20_000)));
    one.server.script().push(Rule::new(Fault::status(500)).nth(2).always());
    let report = fetch(&one, Target::Memory, &options(&one, &[&two])).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    assert!(of(&report, &one).unused.is_some());
    assert!(of(&report, &two).bytes >= LEN as u64 - 20_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_place_without_the_blob_is_dropped() {
    let (one, two) = (bed().await, bed().await);
    one.server.remove(one.path());
    let collect = crate::bed::Collect::default();
    let report = fetch(&one, collect.target(), &options(&one, &[&two])).await.unwrap();
    assert!(collect.bytes() == one.bytes);
    assert_eq!(of(&report, &two).bytes, LEN as u64);
    assert!(of(&report, &one).unused.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_delivers_nothing_any_more_is_dropped() {
    let (one, two) = (bed().await, bed().await);
    two.server.script().push(Rule::new(Fault::Stall(1000)).nth(2).always());
    let report = fetch(&one, Target::Memory, &options(&one, &[&two])).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    assert_eq!(of(&report, &one).bytes + of(&report, &two).bytes, LEN as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_whose_blob_changes_is_dropped() {
    let (one, two) = (bed().await, bed().await);
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    two.server.script().push(Rule::new(Fault::ChangedVersion(other)).nth(2));
    let report = fetch(&one, Target::Memory, &options(&one, &[&two])).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    let dropped = of(&report, &two).unused.as_ref().unwrap();
    assert!(dropped.contains("version"), "{dropped}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_names_every_mirror_with_its_reason() {
    let beds = [bed().await, bed().await, bed().await];
    let [one, two, three] = &beds;
    one.server.script().push(Rule::new(Fault::ResetAfter(5000)));
    one.server.script().push(Rule::new(Fault::status(503)).nth(2).always());
    two.server.script().push(Rule::new(Fault::CloseBeforeFirstByte).nth(2).always());
    three.server.remove(three.path());
    let place = crate::resume::Place::new();
    let error = fetch(one, place.target(), &options(one, &[two, three])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error:?}");
    let text = error.to_string();
    for bed in &beds {
        assert!(text.contains(&format!("{}: ", bed.location().display())), "{text}");
    }
    assert!(text.contains("503") && text.contains("no such blob"), "{text}");
    assert_eq!(std::fs::read(&place.target).unwrap(), b"what was there before");
    assert!(place.part.exists(), "what arrived stays for a resume");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_bytes_of_a_mirror_are_never_delivered() {
    for kind in KINDS {
        let (one, two) = (bed().await, bed().await);
        let flip = |bit| Rule::new(Fault::FlipBit(bit)).range(RangeMatch::Covers(bit)).always();
        for shard in 0..LEN as u64 / SHARD_BYTES {
            two.server.script().push(flip(shard * SHARD_BYTES + 100));
        }
        let trial = Trial::run(&one, kind, &options(&one, &[&two])).await;
        within(two.server.idle()).await;
        trial.assert_fails(&one, kind, ErrorKind::Integrity, &format!("{kind:?}"));
        let error = trial.result.unwrap_err();
        for bed in [&one, &two] {
            assert!(error.to_string().contains(bed.location().display()), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_mirror_gets_fewer_shards() {
    let (one, two) = (bed().await, bed().await);
    let slow = Fault::SlowDrip { bytes: 4096, interval_ms: 20 };
    two.server.script().push(Rule::new(slow).nth(2).always());
    let options = DownloadOptions {
        retry: RetryPolicy { stall_ms_max: 30_000, ..Bed::options().retry },
        ..options(&one, &[&two])
    };
    let report = fetch(&one, Target::Memory, &options).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    let (fast, slow) = (of(&report, &one).bytes, of(&report, &two).bytes);
    assert!(fast > slow, "{fast} {slow}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_ends_the_requests_to_all_mirrors() {
    let (one, two) = (bed().await, bed().await);
    one.server.script().push(Rule::new(Fault::Stall(100)).always());
    // Its description arrives.
    let later = RangeMatch::StartsFrom(1);
    two.server.script().push(Rule::new(Fault::Stall(100)).range(later).always());
    let mut options = options(&one, &[&two]);
    options.retry.stall_ms_max = 30_000;
    let cancel = options.cancel.clone();
    let stop = async {
        one.server.arrived(1).await;
        two.server.arrived(2).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(fetch(&one, Target::Discard, &options), stop);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled);
    within(one.server.idle()).await;
    within(two.server.idle()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_place_that_does_not_answer_does_not_hold_up_the_others() {
    let (one, two) = (bed().await, bed().await);
    // Its head never comes, and its own timeout is longer than the test may take.
    one.server.script().push(Rule::new(Fault::Latency(600_000)).always());
    let mut options = options(&one, &[&two]);
    options.retry.header_ms_max = 600_000;
    let report = fetch(&one, Target::Memory, &options).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    assert_eq!(of(&report, &two).bytes, LEN as u64);
}
