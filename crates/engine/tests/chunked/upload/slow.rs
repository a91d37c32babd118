//! Stores that take bytes too slowly.

use std::time::Duration;

use tidegate::chunked::ChunkStore;
use tidegate::{ErrorKind, Setting};
use tidegate_core::retry::RetryPolicy;
use tokio::time::Instant;

use super::bed::{File, large, options};
use super::store::{Call, FakeStore, Reply, profile};

/// Uploads to a store that takes `bytes_per_s` of each request. Returns the seconds until the
/// upload fails, the error, and the number of requests.
async fn failure(bytes_per_s: u64, retry: RetryPolicy) -> (u64, tidegate::Error, usize) {
    let store = FakeStore::scripted(profile(&[large()]), move |call, _| match call {
        Call::Put { .. } => Reply::Drip(bytes_per_s),
        _ => Reply::Go,
    });
    // One chunk of 90 KiB, which fits into no batch of 64 KiB.
    let file = File::random(90 << 10, 30);
    let chosen = crate::call::UploadOptions { retry, ..options() };
    let start = Instant::now();
    let shared: std::sync::Arc<dyn ChunkStore> = std::sync::Arc::clone(&store) as _;
    let upload = crate::call::upload(&shared, &file.path, &chosen);
    let error = tokio::time::timeout(Duration::from_hours(9), upload).await.unwrap().unwrap_err();
    let puts = store.count(|call| matches!(call, Call::Put { .. }));
    (start.elapsed().as_secs(), error, puts)
}

/// The store never stalls, and each attempt could take a long time.
#[tokio::test(start_paused = true)]
async fn an_upload_at_one_byte_per_second_is_retried_once_and_then_fails() {
    let retry = RetryPolicy { slow_ms_max: 10_000, ..options().retry };
    let (seconds, error, puts) = failure(1, retry).await;
    assert_eq!((error.kind(), puts), (ErrorKind::Exhausted, 2), "{}", error.chain());
    assert!(error.chain().contains("less than 1024 bytes/s were sent"), "{}", error.chain());
    assert!(error.setting() == Some(Setting::SpeedMin), "{error:?}");
    // Two periods of 10 s, and the pause between two attempts.
    assert!((20..25).contains(&seconds), "{seconds} s");
}

/// Then the time limit of an attempt ends it.
#[tokio::test(start_paused = true)]
async fn a_minimum_speed_of_zero_sets_no_limit() {
    let retry = RetryPolicy { bytes_per_s_min: 0, attempts_max: 2, ..options().retry };
    let (seconds, error, _) = failure(1, retry).await;
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{}", error.chain());
    assert!(!error.chain().contains("bytes/s"), "{}", error.chain());
    assert!(seconds > 60, "{seconds} s");
}
