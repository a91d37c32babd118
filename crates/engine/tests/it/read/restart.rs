//! Interruptions: where a read continues, and when it must not.

use std::io::SeekFrom;
use std::sync::Arc;

use tidegate::ErrorKind;
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{
    Blob, EtagStyle, Fault, Flavour, Framing, Gate, NetworkProfile, Rule, ServerOptions,
    pseudo_random,
};
use tokio::io::AsyncReadExt as _;

use super::matrix::{LEN, ranges};
use super::{FACES, options, read};
use crate::bed::Bed;
use crate::call::ReadOptions;
use crate::faults::FLAVOURS;
use crate::trial::within;

fn asked(bed: &Bed) -> Vec<Option<String>> {
    bed.server.log().into_iter().map(|logged| logged.range).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_bytes_restart_where_they_broke() {
    for face in FACES {
        let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
        bed.server.script().next(Fault::CutAfter(1000));
        let range = ByteRange::Last(100_000);
        let outcome = read(bed.location(), ReadOptions { range, ..options() }, face).await;
        outcome.result.unwrap();
        assert!(outcome.content == bed.bytes[LEN - 100_000..], "{face:?}");
        let wanted = ["bytes=-100000", "bytes=201000-299999"].map(|range| Some(range.to_owned()));
        assert_eq!(asked(&bed), wanted, "{face:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_response_to_a_range_request_is_cut() {
    for flavour in FLAVOURS {
        for (range, bytes) in ranges() {
            for face in FACES {
                let label = format!("{flavour:?} {range} {face:?}");
                let (range, bytes) = (range.clone(), bytes.clone());
                let no_ranges = ServerOptions { ranges: false, ..ServerOptions::of(flavour) };
                let bed = Bed::new(no_ranges, LEN).await;
                let cut = Fault::CutAfter(100_000);
                bed.server.script().push(Rule::new(cut).method("GET"));
                let options = ReadOptions { range, ..options() };
                let stats = Arc::clone(&options.stats);
                let outcome = read(bed.location(), options, face).await;
                outcome.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                assert!(outcome.content == bed.bytes[bytes], "{label}");
                // The client drops such a response, including the one that was to be cut.
                assert!(stats.totals().bytes_wasted >= 50_000, "{label}: {:?}", stats.totals());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_at_the_end_is_empty_and_one_beyond_an_error() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        let len = LEN as u64;
        let ranges = [ByteRange::From(len), ByteRange::Bounded(len..len + 9)];
        for range in ranges {
            let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
            for _ in 0..3 {
                assert!(within(channel.next()).await.unwrap().is_none(), "{flavour:?}");
            }
            assert_eq!(channel.len_bytes(), Some(len), "{flavour:?}");
        }
        for range in [ByteRange::From(len + 1), ByteRange::Bounded(len + 1..len + 9)] {
            let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
            let error = within(channel.next()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfRange, "{flavour:?}: {error:?}");
        }
        // An end beyond the blob's end is no error.
        let range = ByteRange::Bounded(len - 5..u64::MAX);
        let outcome = read(bed.location(), ReadOptions { range, ..options() }, FACES[0]).await;
        assert_eq!(outcome.content, bed.bytes[LEN - 5..], "{flavour:?}: {:?}", outcome.result);
        let range = ByteRange::Bounded(std::ops::Range { start: 9, end: 3 });
        let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
        assert_eq!(channel.next().await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_is_gone_after_the_first_byte_is_reported_as_changed() {
    for flavour in FLAVOURS {
        for code in [404, 412] {
            for (range, bytes) in ranges() {
                let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                let script = bed.server.script();
                script.push(Rule::new(Fault::CutAfter(10_000)).method("GET"));
                script.push(Rule::new(Fault::status(code)).method("GET").nth(2).always());
                let label = format!("{flavour:?} {range} {code}");
                let outcome =
                    read(bed.location(), ReadOptions { range, ..options() }, FACES[0]).await;
                let error = outcome.result.expect_err(&label);
                assert_eq!(error.kind(), ErrorKind::Changed, "{label}: {error:?}");
                assert!(outcome.content == bed.bytes[bytes][..10_000], "{label}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_version_is_never_mixed_in() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    let shorter = Blob::new(pseudo_random(LEN - 70_000, 9)).with_version(3);
    for flavour in FLAVOURS {
        for (range, bytes) in ranges() {
            for face in FACES {
                for new in [&other, &shorter] {
                    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                    let script = bed.server.script();
                    script.push(Rule::new(Fault::CutAfter(100_000)).method("GET"));
                    let change = Fault::ChangedVersion(new.clone());
                    script.push(Rule::new(change).method("GET").nth(2));
                    let label = format!("{flavour:?} {range} {face:?}");
                    let options = ReadOptions { range: range.clone(), ..options() };
                    let outcome = read(bed.location(), options, face).await;
                    let error = outcome.result.expect_err(&label);
                    assert_eq!(error.kind(), ErrorKind::Changed, "{label}: {error:?}");
                    assert!(bed.bytes[bytes.clone()].starts_with(&outcome.content), "{label}");
                }
            }
        }
    }
}

fn nameless(framing: Framing) -> ServerOptions {
    ServerOptions {
        etag: EtagStyle::Weak,
        last_modified: false,
        framing,
        ..ServerOptions::of(Flavour::Http)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_version_a_broken_read_is_not_resumed() {
    for face in FACES {
        let bed = Bed::new(nameless(Framing::ContentLength), LEN).await;
        bed.server.script().next(Fault::CutAfter(10_000));
        let outcome = read(bed.location(), options(), face).await;
        let error = outcome.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transport, "{error:?}");
        assert!(error.hint().unwrap().contains("no version"), "{error:?}");
        assert!(outcome.content == bed.bytes[..10_000]);
        assert_eq!(bed.server.requests(), 1);
        // Before the first byte there is nothing to mix.
        bed.server.script().next(Fault::CutAfter(0));
        let outcome = read(bed.location(), options(), face).await;
        outcome.result.unwrap();
        assert!(outcome.content == bed.bytes);
    }
    // A seek is refused too: its bytes would come from another response.
    let bed = Bed::new(nameless(Framing::ContentLength), LEN).await;
    let mut channel =
        crate::call::read(bed.location(), ReadOptions { drain_bytes_max: Some(0), ..options() });
    let mut buf = [0; 10];
    channel.read_exact(&mut buf).await.unwrap();
    channel.next().await.unwrap();
    channel.seek(SeekFrom::Start(LEN as u64 - 10)).await.unwrap();
    let error = channel.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert_eq!(channel.capture().unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A blob of unknown length ends where its body ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_a_length_is_read_to_its_end() {
    for framing in [Framing::Chunked, Framing::UntilClose] {
        for face in FACES {
            let bed = Bed::new(nameless(framing), LEN).await;
            let outcome = read(bed.location(), options(), face).await;
            outcome.result.unwrap();
            assert!(outcome.content == bed.bytes);
        }
        let bed = Bed::new(nameless(framing), LEN).await;
        let mut channel = crate::call::read(bed.location(), options());
        channel.read_exact(&mut [0; 10]).await.unwrap();
        // Only reading finds the end of this blob. A failed seek from the end does not end the
        // read.
        let error = channel.seek(SeekFrom::End(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{framing:?}: {error:?}");
        channel.read_exact(&mut [0; 10]).await.unwrap();
        channel.seek(SeekFrom::Start(LEN as u64 + 1000)).await.unwrap();
        assert!(channel.next().await.unwrap().is_none());
        assert_eq!(channel.len_bytes(), Some(LEN as u64), "{framing:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_error_the_channel_goes_on() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let script = bed.server.script();
    script.push(Rule::new(Fault::CutAfter(10_000)));
    script.push(Rule::new(Fault::status(503)).nth(2).times(4));
    let mut channel = crate::call::read(bed.location(), options());
    let mut content = Vec::new();
    let error = channel.read_to_end(&mut content).await.unwrap_err();
    assert_eq!(super::engine_error(error).kind(), ErrorKind::Exhausted);
    assert_eq!(channel.position(), Some(10_000));
    channel.read_to_end(&mut content).await.unwrap();
    assert!(content == bed.bytes);
    assert!(channel.verified().is_verified());
}

/// Time in which the caller asks for no bytes is no stall, however long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_the_caller_is_no_stall() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let gate = Gate::new();
    bed.server.script().next(Fault::HoldAfter { bytes: 10_000, gate: gate.clone() });
    let mut options = options();
    options.retry.stall_ms_max = 250;
    let mut channel = crate::call::read(bed.location(), options);
    let mut content = vec![0; 10_000];
    channel.read_exact(&mut content).await.unwrap();
    // One poll finds nothing and arms the timer. Then the bytes arrive, and the caller does not
    // poll.
    assert!(futures_util::poll!(Box::pin(channel.next())).is_pending());
    gate.open();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    channel.read_to_end(&mut content).await.unwrap();
    assert!(content == bed.bytes);
    assert_eq!(bed.server.requests(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_bounds_all_requests() {
    let profile = NetworkProfile { latency_ms: 30, ..NetworkProfile::LOOPBACK };
    let bed = Bed::new(ServerOptions { profile, ..ServerOptions::of(Flavour::Gcs) }, LEN).await;
    let retry = RetryPolicy { deadline_ms: Some(200), ..options().retry };
    let options = ReadOptions { retry, drain_bytes_max: Some(0), ..options() };
    let mut channel = crate::call::read(bed.location(), options);
    // Each seek sends a new request. The deadline still counts from the first read.
    let outcome = within(async {
        loop {
            for position in [100, 200_000] {
                channel.seek(SeekFrom::Start(position)).await.unwrap();
                if let Err(error) = channel.next().await {
                    return error;
                }
            }
        }
    });
    let error = outcome.await;
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error:?}");
    assert!(bed.server.requests() <= 10);
}
