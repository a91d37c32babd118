//! Stores that deliver bytes too slowly.

use std::time::Duration;

use tidegate::{ErrorKind, Setting, Target};
use tokio::time::Instant;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, FakeStore, Fault};

/// Four chunks, each in a request of its own. Without `can_split` the blob comes in one stream.
fn bed(can_split: bool, chunk_bytes: usize, bytes_per_s: usize) -> Bed {
    let store = FakeStore::new().with_profile(|profile| {
        profile.can_split = can_split;
        profile.batch = None;
    });
    let bed = Bed::on(store, chunks((0..4).map(|seed| (chunk_bytes, seed))));
    bed.store.script(move |call, _, _| match call {
        Call::Get { .. } => Act::fault(Fault::Drip(bytes_per_s)),
        _ => Act::default(),
    });
    bed
}

/// The store never stalls, and the download would take weeks.
#[tokio::test(start_paused = true)]
async fn one_byte_per_second_is_retried_once_and_then_fails() {
    for can_split in [true, false] {
        let bed = bed(can_split, 2_000_000, 1);
        let start = Instant::now();
        let an_hour = Duration::from_hours(1);
        let outcome = tokio::time::timeout(an_hour, bed.to_file()).await;
        let error = outcome.expect("it goes on for ever").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{}", error.chain());
        assert!(error.chain().contains("less than 1024 bytes/s"), "{}", error.chain());
        assert!(error.setting() == Some(Setting::SpeedMin), "{error:?}");
        // Two periods of 60 s of waiting, and the pause between two requests.
        let seconds = start.elapsed().as_secs();
        assert!((118..130).contains(&seconds), "{seconds} s");
        let streams = if can_split { 4 } else { 1 };
        assert_eq!(bed.store.fetches().len(), 2 * streams, "each is asked for once more");
        assert!(!bed.path().exists());
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_at_the_minimum_speed_succeeds() {
    for can_split in [true, false] {
        // The speed of the whole download counts, not that of each stream.
        let bytes_per_s = if can_split { 300 } else { 1200 };
        let bed = bed(can_split, 100_000, bytes_per_s);
        let report = bed.to_file().await.unwrap();
        assert_eq!(report.totals.restarts, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_minimum_speed_of_zero_sets_no_limit() {
    let mut bed = bed(true, 400, 1);
    bed.options.retry.bytes_per_s_min = 0;
    bed.to_file().await.unwrap();
}

/// Time in which no request is in flight, because other transfers use the budget, does not count.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_budget_is_not_slow() {
    let bed = bed(true, 300_000, 10_000).with_budget(64 << 20, 1);
    let budget = bed.options.client.budget().clone();
    let others = async {
        for _ in 0..20 {
            let permit = budget.request().await;
            tokio::time::sleep(Duration::from_mins(2)).await;
            drop(permit);
        }
    };
    let (outcome, ()) = tokio::join!(bed.run(Target::Discard), others);
    assert_eq!(outcome.unwrap().totals.restarts, 0);
}
