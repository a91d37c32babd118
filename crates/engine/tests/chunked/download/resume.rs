//! Bytes of an earlier attempt are not fetched again, and wrong ones are never reused.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{ErrorKind, Form, Result, Target};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, FakeStore, Fault};
use crate::call::download_chunks;

/// A first attempt with twenty chunks. Those from the tenth on are refused, after the others have
/// been delivered.
async fn first_attempt(bed: &Bed, expected_bytes: u64) {
    let gate = CancellationToken::new();
    let opened = gate.clone();
    let missing: Vec<_> = (10..20).map(|index| bed.digest(index)).collect();
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if missing.contains(digest) => Act::behind(&gate).but(Fault::Refused),
        _ => Act::default(),
    });
    let (outcome, ()) = tokio::join!(bed.to_file(), async {
        handed_on(bed, expected_bytes).await;
        opened.cancel();
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoAccess);
    assert!(bed.part().exists() && !bed.path().exists());
    mend(bed);
}

/// Waits until this number of bytes has been delivered to the sink. The paused clock does not
/// advance.
async fn handed_on(bed: &Bed, bytes: u64) {
    while bed.options.progress.snapshot().done_bytes < bytes {
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
}

fn mend(bed: &Bed) {
    bed.store.script(|_, _, _| Act::default());
    bed.store.forget();
}

/// A first attempt that fails, and a store without faults after it.
async fn broken_off() -> Bed {
    let bed = Bed::new(chunks((0..20).map(|seed| (300_000, seed))));
    first_attempt(&bed, 3_000_000).await;
    bed
}

#[tokio::test(start_paused = true)]
async fn only_the_rest_is_fetched() {
    let bed = broken_off().await;
    let report = bed.to_file().await.unwrap();
    assert_eq!(report.resumed_bytes, 3_000_000);
    assert_eq!(report.chunks.unwrap().moved.chunks, 10);
    for index in 0..10 {
        assert!(!bed.store.asked_for().contains_key(&bed.digest(index)), "{index}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_changed_since_are_fetched_again() {
    let bed = broken_off().await;
    let part = std::fs::OpenOptions::new().write(true).open(bed.part()).unwrap();
    part.write_all_at(b"damaged", 2 * 300_000 + 5).unwrap();
    let report = bed.to_file().await.unwrap();
    assert_eq!(report.chunks.unwrap().moved.chunks, 11);
    assert_eq!(bed.store.asked_for()[&bed.digest(2)], 1);
}

#[tokio::test(start_paused = true)]
async fn a_part_file_without_its_journal_is_looked_at_chunk_by_chunk() {
    let bed = broken_off().await;
    let part = std::fs::OpenOptions::new().write(true).open(bed.part()).unwrap();
    part.set_len(bed.blob.len).unwrap();
    let report = bed.to_file().await.unwrap();
    assert_eq!((report.resumed_bytes, report.chunks.unwrap().moved.chunks), (3_000_000, 10));
}

#[tokio::test(start_paused = true)]
async fn without_resume_all_is_fetched() {
    let mut bed = broken_off().await;
    bed.options.resume = Some(false);
    assert_eq!(bed.to_file().await.unwrap().chunks.unwrap().moved.chunks, 20);
}

/// The part file of another blob with the same beginning: its chunks are in their places.
#[tokio::test(start_paused = true)]
async fn equal_chunks_in_another_blobs_part_file_are_reused() {
    let first = broken_off().await;
    let mut lens_and_seeds: Vec<(usize, u64)> = (0..20).map(|seed| (300_000, seed)).collect();
    lens_and_seeds[4] = (200_000, 99);
    lens_and_seeds.push((77, 5));
    let mut second = Bed::new(chunks(lens_and_seeds));
    second.folder = first.folder;
    let report = second.to_file().await.unwrap();
    assert_eq!(report.resumed_bytes, 4 * 300_000);
}

/// A chunk that is left at one of its places is copied to the others.
#[tokio::test(start_paused = true)]
async fn a_chunk_that_recurs_is_copied_from_where_it_stands() {
    let seeds = (0..20).chain([3, 4]);
    let bed = Bed::new(chunks(seeds.map(|seed| (300_000, seed))));
    first_attempt(&bed, 3_600_000).await;
    // The copies at the end are lost.
    let part = std::fs::OpenOptions::new().write(true).open(bed.part()).unwrap();
    part.write_all_at(&vec![0; 600_000], 20 * 300_000).unwrap();
    let report = bed.to_file().await.unwrap();
    assert_eq!(
        (report.chunks.unwrap().reused.chunks, report.chunks.unwrap().moved.chunks),
        (2, 10)
    );
}

#[tokio::test(start_paused = true)]
async fn a_whole_blob_can_be_resumed() {
    let store = FakeStore::new().with_profile(|profile| profile.can_split = false);
    let bed = Bed::on(store, chunks([(5_000_000, 1)]));
    bed.store.script(|call, _, nth| match (call, nth) {
        (Call::Get { .. }, 0) => Act::fault(Fault::CutAfter(3_000_000)),
        (Call::Get { .. }, _) => Act::fault(Fault::Refused),
        _ => Act::default(),
    });
    bed.to_file().await.unwrap_err();
    mend(&bed);
    let report = bed.to_file().await.unwrap();
    assert!(report.resumed_bytes >= 2_500_000, "{}", report.resumed_bytes);
    let offset = report.resumed_bytes;
    assert_eq!(bed.store.fetches(), [Call::Get { digest: bed.blob, offset }]);
}

/// A store may report late that the blob has changed: bytes fetched before that may be of another
/// blob.
#[tokio::test(start_paused = true)]
async fn bytes_of_a_changed_blob_are_not_kept() {
    let store = FakeStore::new().with_profile(|profile| profile.can_split = false);
    let bed = Bed::on(store, chunks([(5_000_000, 1)]));
    for (last, is_kept) in [(Fault::Changed, false), (Fault::Refused, true)] {
        bed.store.script(move |call, _, _| match call {
            Call::Get { offset: 0, .. } => Act::fault(Fault::CutAfter(3_000_000)),
            Call::Get { .. } => Act::fault(last.clone()),
            _ => Act::default(),
        });
        bed.to_file().await.unwrap_err();
        assert_eq!(bed.part().exists(), is_kept);
    }
}

/// If the download is cancelled while the part file is examined, the part file stays as it is.
#[tokio::test(start_paused = true)]
async fn a_cancellation_during_the_examination_keeps_the_part_file() {
    let mut bed = broken_off().await;
    // Chunk by chunk, and as a whole.
    for (can_split, asked) in [(true, Call::Manifest), (false, Call::Profile)] {
        let store = FakeStore::new().with_profile(|profile| profile.can_split = can_split);
        store.hold(&bed.blob, &bed.chunks, None);
        bed.store = Arc::new(store);
        bed.options.cancel = CancellationToken::new();
        let cancel = bed.options.cancel.clone();
        // After this response the download examines the part file.
        bed.store.script(move |call, _, _| {
            if *call == asked {
                cancel.cancel();
            }
            Act::default()
        });
        assert_eq!(bed.to_file().await.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(bed.store.fetches().is_empty());
        mend(&bed);
    }
    bed.options.cancel = CancellationToken::new();
    let report = bed.to_file().await.unwrap();
    assert_eq!((report.form == Form::Whole, report.resumed_bytes), (true, 3_000_000));
}

/// A cancelled download, by the token or by dropping the future, leaves nothing in flight, and its
/// part file for the next attempt.
#[tokio::test(start_paused = true)]
async fn a_cancelled_download_can_be_resumed() {
    let mut bed = Bed::new(chunks((0..20).map(|seed| (300_000, seed))));
    let hanging: Vec<_> = (10..20).map(|index| bed.digest(index)).collect();
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if hanging.contains(digest) => Act::fault(Fault::Hang),
        _ => Act::default(),
    });
    bed.options.cancel = CancellationToken::new();
    let cancel = bed.options.cancel.clone();
    let stop = async {
        handed_on(&bed, 3_000_000).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bed.to_file(), stop);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    mend(&bed);
    bed.options.cancel = CancellationToken::new();
    assert_eq!(bed.to_file().await.unwrap().resumed_bytes, 3_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_download_leaves_nothing_in_flight() {
    let bed = Bed::new(chunks((0..20).map(|seed| (300_000, seed))));
    bed.store.script(|_, digest, _| match digest {
        Some(_) => Act::fault(Fault::Hang),
        None => Act::default(),
    });
    let store = bed.dyn_store();
    let run: std::pin::Pin<Box<dyn Future<Output = Result<_>>>> =
        Box::pin(download_chunks(&store, &bed.blob, Target::File(bed.path()), &bed.options));
    let outcome = tokio::time::timeout(Duration::from_secs(1), run).await;
    assert!(outcome.is_err() && bed.store.in_flight_peak() == 16);
    // The runtime drops aborted tasks at their next turn.
    while bed.store.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(bed.options.client.budget().held_bytes(), 0);
}

/// A second download right after a drop waits for the writes of the first one.
#[tokio::test]
async fn a_dropped_download_can_be_restarted_at_once() {
    let bed = Bed::new(chunks((0..20).map(|seed| (300_000, seed))));
    let hanging: Vec<_> = (10..20).map(|index| bed.digest(index)).collect();
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if hanging.contains(digest) => Act::fault(Fault::Hang),
        _ => Act::default(),
    });
    for round in 1..=20 {
        let store = bed.dyn_store();
        let mut options = bed.options.clone();
        options.progress = Arc::default();
        let run = download_chunks(&store, &bed.blob, Target::File(bed.path()), &options);
        let handed_on = async {
            while options.progress.snapshot().done_bytes < 3_000_000 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            ended = run => panic!("round {round}: {ended:?}"),
            () = handed_on => {}
        }
    }
    bed.store.script(|_, _, _| Act::default());
    assert_eq!(bed.to_file().await.unwrap().resumed_bytes, 3_000_000);
}

#[tokio::test]
async fn a_running_download_locks_its_target() {
    let bed = Bed::new(chunks((0..4).map(|seed| (300_000, seed))));
    let gate = CancellationToken::new();
    let held = gate.clone();
    bed.store.script(move |_, digest, _| match digest {
        Some(_) => Act::behind(&held),
        None => Act::default(),
    });
    let store = bed.dyn_store();
    let target = || Target::File(bed.path());
    let second = async {
        while bed.store.fetches().is_empty() {
            tokio::task::yield_now().await;
        }
        let second = download_chunks(&store, &bed.blob, target(), &bed.options).await;
        gate.cancel();
        second
    };
    let (first, second) =
        tokio::join!(download_chunks(&store, &bed.blob, target(), &bed.options), second);
    assert!(second.unwrap_err().chain().contains("another run"));
    assert!(first.is_ok() && bed.holds_blob());
}

/// A failure before the part file has been examined leaves its bytes.
#[tokio::test(start_paused = true)]
async fn a_failure_before_the_first_chunk_leaves_what_there_was() {
    let mut bed = broken_off().await;
    // As after a crash between the last byte and the rename.
    let part = std::fs::OpenOptions::new().write(true).open(bed.part()).unwrap();
    part.set_len(bed.blob.len).unwrap();
    for call in [Call::Profile, Call::Manifest] {
        bed.store.script(
            move |one, _, _| {
                if *one == call { Act::fault(Fault::Refused) } else { Act::default() }
            },
        );
        assert_eq!(bed.to_file().await.unwrap_err().kind(), ErrorKind::NoAccess);
    }
    mend(&bed);
    bed.options.cancel.cancel();
    assert_eq!(bed.to_file().await.unwrap_err().kind(), ErrorKind::Cancelled);
    bed.options.cancel = CancellationToken::new();
    assert_eq!(bed.to_file().await.unwrap().resumed_bytes, 3_000_000);
}
