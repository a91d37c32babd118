//! Many blobs at once under one budget, each with its own window, against a modelled server in
//! simulated time. They end as soon as the budget allows, and small blobs do not wait for large
//! ones.

use std::time::Duration;

use tidegate::{Budget, BudgetOptions};
use tidegate_core::window::{Outcome, Window, WindowOptions};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const CHUNK_BYTES: u64 = 1 << 20;

/// 25 ± 10 ms, derived from the blob and the request, so that all runs are alike.
fn latency(blob: u64, request: u64) -> Duration {
    let mixed = (blob << 32 | request).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Duration::from_micros(
        15_000 + (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % 20_000,
    )
}

/// Fetches a blob of `chunks` chunks as transfers do: it reserves bytes, then a request, in one
/// task a chunk. Returns the time that this took.
async fn fetch(budget: Budget, blob: u64, chunks: u64, options: WindowOptions) -> Duration {
    let begun = Instant::now();
    let mut window = Window::new(options);
    let mut tasks = JoinSet::new();
    let (mut next, mut waiting) = (0, 0);
    // Grants and sent requests come first, then responses.
    let (sent, mut events) = tokio::sync::mpsc::unbounded_channel();
    let mut tickets = std::collections::HashMap::new();
    while next < chunks || !tasks.is_empty() {
        while next < chunks && window.in_flight() + waiting < window.limit() {
            let (budget, sent, request) = (budget.clone(), sent.clone(), next);
            tasks.spawn(async move {
                let bytes = budget.bytes(CHUNK_BYTES).await;
                let permit = budget.request().await;
                sent.send(request).unwrap();
                sleep(latency(blob, request)).await;
                drop((permit, bytes));
                request
            });
            next += 1;
            waiting += 1;
        }
        tokio::select! {
            biased;
            Some(request) = events.recv() => {
                waiting -= 1;
                tickets.insert(request, window.on_start(begun.elapsed()));
            }
            Some(ended) = tasks.join_next() => {
                let ticket = tickets.remove(&ended.unwrap()).unwrap();
                window.on_done(ticket, begun.elapsed(), CHUNK_BYTES, Outcome::Ok);
            }
        }
    }
    begun.elapsed()
}

/// The total time of a blob's requests, one after the other.
fn serial(blob: u64, chunks: u64) -> Duration {
    (0..chunks).map(|request| latency(blob, request)).sum()
}

#[tokio::test(start_paused = true)]
async fn blobs_of_mixed_sizes_end_as_soon_as_the_budget_allows() {
    let options = BudgetOptions { requests: 64, bytes: 256 << 20 };
    for windows in [WindowOptions::default(), WindowOptions { start: 64, ..Default::default() }] {
        let budget = Budget::new(options);
        // From one chunk to 2,048, with equally many blobs of each size.
        let sizes: Vec<u64> = (0..64).map(|blob| 1_u64 << (blob % 12)).collect();
        let work: Duration = (0..).zip(&sizes).map(|(blob, chunks)| serial(blob, *chunks)).sum();
        let ideal = work / options.requests;
        let mut tasks = JoinSet::new();
        for (blob, chunks) in (0..).zip(sizes) {
            let budget = budget.share();
            tasks.spawn(async move { (blob, chunks, fetch(budget, blob, chunks, windows).await) });
        }
        let mut last = Duration::ZERO;
        while let Some(ended) = tasks.join_next().await {
            let (blob, chunks, took) = ended.unwrap();
            last = last.max(took);
            // There are as many blobs as requests. After the first of the earlier requests has
            // ended, each blob always has at least one request in flight. So it ends at the latest
            // when its requests would end one after the other. The timer's tick is a millisecond.
            let ticks = Duration::from_millis(chunks + 1);
            let alone = serial(blob, chunks) + Duration::from_millis(35) + ticks;
            assert!(took <= alone, "{chunks} chunks took {took:?}, one by one {alone:?}");
        }
        assert!(last <= ideal.mul_f64(1.2), "{last:?}, ideally {ideal:?}");
        assert_eq!(budget.held_bytes(), 0);
    }
}

/// Large blobs hold the whole budget, and have hundreds of requests left, when small blobs start.
#[tokio::test(start_paused = true)]
async fn no_small_blob_waits_for_a_large_one() {
    let budget = Budget::new(BudgetOptions { requests: 64, bytes: 64 << 20 });
    let mut large = JoinSet::new();
    for blob in 0..4 {
        large.spawn(fetch(budget.share(), blob, 4_000, WindowOptions::fixed(256)));
    }
    sleep(Duration::from_secs(1)).await;
    let mut small = JoinSet::new();
    for blob in 100..116 {
        small.spawn(fetch(budget.share(), blob, 3, WindowOptions::default()));
    }
    while let Some(took) = small.join_next().await {
        // One latency until a request of the large blobs ends, and one for the blob's own request.
        // There is room for three of each. Each blob waits once for bytes and once for a request.
        let took = took.unwrap();
        assert!(took <= Duration::from_millis(2 * 35), "{took:?}");
    }
    assert_eq!(large.len(), 4, "the large ones are under way still");
}
