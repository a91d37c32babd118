//! What counts as an attempt, how attempts are limited, and which errors end a download at once.

use std::time::Duration;

use tidegate::{ErrorKind, Target};
use tokio::time::Instant;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, Fault};
use crate::call::download_chunks;

/// `count` chunks that fit into one batch.
fn small(count: u64) -> Bed {
    Bed::new(chunks((0..count).map(|seed| (1000, seed))))
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_ends_the_download_at_once() {
    let bed = small(4);
    let (transient, permanent) = (bed.digest(0), bed.digest(1));
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if *digest == transient => Act::fault(Fault::Broken),
        Some(digest) if *digest == permanent => Act::fault(Fault::Refused),
        _ => Act::default(),
    });
    let error = bed.to_file().await.unwrap_err();
    assert_eq!((error.kind(), bed.store.fetches().len()), (ErrorKind::NoAccess, 1));
}

/// An error such as a wrong port is reported sooner than a store that fails during the download.
#[tokio::test(start_paused = true)]
async fn a_store_that_never_responds_is_tried_four_times() {
    let mut bed = small(4);
    bed.options.retry.attempts_max = 20;
    bed.store.script(|_, _, _| Act::fault(Fault::Broken));
    let error = bed.to_file().await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Exhausted, 4), "{error:?}");
    assert_eq!(bed.store.log(), vec![Call::Profile; 4]);
}

/// A list of chunks only saves bytes: the download waits for it no longer than for any other call.
#[tokio::test(start_paused = true)]
async fn a_missing_response_to_the_chunk_list_costs_one_stall_limit() {
    let mut bed = small(4);
    let stall = Duration::from_millis(bed.options.retry.stall_ms_max);
    bed.store.script(|call, _, _| match call {
        Call::Manifest => Act::fault(Fault::Hang),
        _ => Act::default(),
    });
    let start = Instant::now();
    let report = bed.run(Target::Memory).await.unwrap();
    let pause = Duration::from_millis(bed.options.retry.delay_ms_min);
    assert!(start.elapsed() <= stall + pause, "{:?}", start.elapsed());
    assert!(report.notes.iter().any(|note| note.contains("no answer")), "{report:?}");
    assert!(report.memory.unwrap() == bed.content());
    // Without the fallback the list is needed, and is retried like any other call.
    bed.options.whole_fallback = false;
    let error = bed.run(Target::Memory).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
}

/// The number of attempts is not limited if each makes progress: only attempts without progress
/// count.
#[tokio::test(start_paused = true)]
async fn attempts_that_make_progress_do_not_count() {
    let mut bed = small(20);
    bed.options.retry.attempts_max = 3;
    bed.options.retry.progress_bytes_min = 1;
    let digests: Vec<_> = (0..20).map(|index| bed.digest(index)).collect();
    // The chunk at place n arrives with the n-th attempt.
    bed.store.script(move |_, digest, nth| {
        let place = digests.iter().position(|one| Some(one) == digest);
        Act::fault(if place.is_some_and(|place| nth < place) { Fault::Broken } else { Fault::None })
    });
    bed.to_file().await.unwrap();
    assert_eq!(bed.store.fetches().len(), 20);
}

/// The same for a stream that breaks again and again, a little further each time.
#[tokio::test(start_paused = true)]
async fn a_stream_may_break_often_as_long_as_it_goes_on() {
    let mut bed = Bed::new(chunks([(300_000, 1), (300_000, 2)]));
    bed.options.retry.attempts_max = 3;
    bed.options.retry.progress_bytes_min = 1;
    bed.store.script(|call, _, _| match call {
        Call::Get { .. } => Act::fault(Fault::CutAfter(30_000)),
        _ => Act::default(),
    });
    let report = bed.to_file().await.unwrap();
    assert_eq!(report.totals.restarts, 18);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_number_of_results_is_an_error() {
    let bed = small(4);
    bed.store.script(|call, digest, _| match (call, digest) {
        (Call::Batch { .. }, None) => Act::fault(Fault::Fewer),
        _ => Act::default(),
    });
    let error = bed.to_file().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert!(error.chain().contains("expected 4 answers to a batch, got 3"), "{}", error.chain());
}

/// During the pause before a retry, another transfer can use the request permit.
#[tokio::test(start_paused = true)]
async fn no_request_is_held_while_resting() {
    let mut bed = small(4).with_budget(64 << 20, 1);
    bed.options.retry.delay_ms_min = 10_000;
    bed.options.retry.delay_ms_max = 10_000;
    bed.store.script(|call, digest, nth| match (call, digest) {
        (Call::Batch { .. }, Some(_)) if nth == 0 => Act::fault(Fault::Broken),
        _ => Act::default(),
    });
    let mut other = Bed::new(chunks((10..14).map(|seed| (1000, seed))));
    other.options.client = bed.options.client.clone();
    let second = async {
        while bed.store.finished().is_empty() {
            tokio::task::yield_now().await;
        }
        // Into memory: a file's thread does not follow the paused clock.
        let store = other.dyn_store();
        download_chunks(&store, &other.blob, Target::Memory, &other.options).await.unwrap();
        bed.store.fetches().len()
    };
    let store = bed.dyn_store();
    let first = download_chunks(&store, &bed.blob, Target::File(bed.path()), &bed.options);
    let (first, asked) = tokio::join!(first, second);
    assert!(first.is_ok() && bed.holds_blob());
    assert_eq!(asked, 1, "the first still rested when the second had ended");
}

/// Bytes that a store sends beyond the end of a chunk are dropped.
#[tokio::test(start_paused = true)]
async fn bytes_beyond_the_end_are_left_out() {
    // Not a multiple of a frame: the last frame holds bytes of the chunk and bytes beyond it.
    let lens = [305_000, 3_005_000];
    let bed = Bed::new(chunks(lens.into_iter().zip(1..))).with_budget(4 << 20, 4);
    bed.store.script(|call, _, _| match call {
        Call::Get { .. } => Act::fault(Fault::Longer),
        _ => Act::default(),
    });
    assert_eq!(bed.to_file().await.unwrap().totals.restarts, 0);
    let (report, given) = bed.to_writer().await;
    assert!(report.is_ok() && given == bed.content());
}
