//! The second request that races a late response.

use std::sync::Arc;

use tidegate::budget::{Budget, BudgetOptions};
use tidegate_testkit::{Fault, Flavour, NetworkProfile, ServerOptions};
use tokio::io::AsyncReadExt as _;

use super::{FACES, options, read};
use crate::bed::Bed;
use crate::call::ReadOptions;
use crate::trial::within;

const LEN: usize = 300_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hedge_overtakes_a_late_response() {
    for face in FACES {
        let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
        // Far longer than the test waits: only the second request can deliver the bytes.
        bed.server.script().next(Fault::Latency(60_000));
        let mut options = ReadOptions { hedge_ms: Some(20), ..options() };
        options.retry.header_ms_max = 60_000;
        let (budget, stats) = (options.budget.clone(), Arc::clone(&options.stats));
        let outcome = read(bed.location(), options, face).await;
        outcome.result.unwrap();
        assert!(outcome.content == bed.bytes && outcome.verified.is_verified());
        let totals = stats.totals();
        assert_eq!((totals.requests, totals.hedges, totals.restarts), (2, 1, 0), "{face:?}");
        assert_eq!(bed.server.requests(), 2);
        // The loser of the race has released its permit.
        for _ in 0..budget.limits().requests {
            std::mem::forget(within(budget.request()).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_in_time_is_not_hedged() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let options = ReadOptions { hedge_ms: Some(30_000), ..options() };
    let mut channel = crate::call::read(bed.location(), options);
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!((bed.server.requests(), channel.totals().hedges), (1, 0));
}

/// A read that holds the only permit must not wait for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_spare_permit_there_is_no_hedge() {
    let profile = NetworkProfile { latency_ms: 50, ..NetworkProfile::LOOPBACK };
    let bed = Bed::new(ServerOptions { profile, ..ServerOptions::of(Flavour::Gcs) }, LEN).await;
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
    let options = ReadOptions { hedge_ms: Some(5), budget, ..options() };
    let mut channel = crate::call::read(bed.location(), options);
    let mut content = Vec::new();
    within(channel.read_to_end(&mut content)).await.unwrap();
    assert!(content == bed.bytes);
    assert_eq!((bed.server.requests(), channel.totals().hedges), (1, 0));
}

/// The first request fails while the second is in flight. The second one's response counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_one_request_fails_the_other_ones_response_counts() {
    let profile = NetworkProfile { latency_ms: 50, ..NetworkProfile::LOOPBACK };
    let bed = Bed::new(ServerOptions { profile, ..ServerOptions::of(Flavour::Gcs) }, LEN).await;
    bed.server.script().next(Fault::status(503));
    let options = ReadOptions { hedge_ms: Some(20), ..options() };
    let mut channel = crate::call::read(bed.location(), options);
    let mut content = Vec::new();
    within(channel.read_to_end(&mut content)).await.unwrap();
    assert!(content == bed.bytes);
    assert_eq!((bed.server.requests(), channel.totals().restarts), (2, 0));
}
