//! The deadline bounds a download as a whole.

use tidegate::ErrorKind;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{Fault, Flavour, NetworkProfile, Rule, ServerOptions};

use crate::bed::Bed;
use crate::faults::{FLAVOURS, LEN, WINDOWS, at_once, options};
use crate::trial::{Kind, Trial};

/// Whatever is slow, the deadline ends the download with one error, in the same state as any other
/// failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_bounds_everything() {
    let faults = [
        Fault::Stall(0),
        Fault::Stall(5000),
        Fault::Latency(500),
        Fault::status_retry_after(503, "60"),
        Fault::SlowDrip { bytes: 1, interval_ms: 5 },
        Fault::CutAfter(0),
    ];
    for flavour in FLAVOURS {
        for window in WINDOWS {
            at_once(faults.clone(), |fault| is_late(flavour, window, fault)).await;
        }
    }
}

async fn is_late(flavour: Flavour, window: u32, fault: Fault) {
    let label = format!("{flavour:?} {window} {fault:?}");
    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
    bed.server.script().push(Rule::new(fault).method("GET").always());
    // S3's checksum request is as slow.
    bed.server.script().push(Rule::new(Fault::Latency(500)).method("HEAD").always());
    let mut options = options(window);
    options.retry = RetryPolicy {
        attempts_max: 1000,
        stall_ms_max: 60_000,
        header_ms_max: 60_000,
        deadline_ms: Some(100),
        ..options.retry
    };
    let trial = Trial::run(&bed, Kind::File, &options).await;
    trial.assert_fails(&bed, Kind::File, ErrorKind::Exhausted, &label);
}

/// The deadline can pass although each shard is within it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_is_for_the_download_and_not_for_each_shard() {
    let profile = NetworkProfile { latency_ms: 60, ..NetworkProfile::LOOPBACK };
    let bed = Bed::new(ServerOptions { profile, ..ServerOptions::default() }, 1_000_000).await;
    let mut options = options(2);
    options.retry.deadline_ms = Some(250);
    let trial = Trial::run(&bed, Kind::File, &options).await;
    trial.assert_fails(&bed, Kind::File, ErrorKind::Exhausted, "sixteen shards of 60 ms");
}
