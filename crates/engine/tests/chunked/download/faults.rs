//! Faults of the store, and their effect on the download and its target.

use std::sync::Arc;

use tidegate::chunked::Manifest;
use tidegate::{ErrorKind, Form, Target};
use tidegate_core::digest::{Digest, DigestFunction};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, FakeStore, Fault};

/// Chunks that are each fetched by a request of its own.
fn large(count: u64) -> Bed {
    Bed::new(chunks((0..count).map(|seed| (300_000, seed))))
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_goes_on_where_it_broke() {
    let bed = large(3);
    bed.store.script(|_, _, nth| match nth {
        0 => Act::fault(Fault::CutAfter(100_000)),
        1 => Act::fault(Fault::EndAfter(100_000)),
        _ => Act::default(),
    });
    let report = bed.to_file().await.unwrap();
    for index in 0..3 {
        let digest = bed.digest(index);
        let asked = bed.store.fetches();
        for offset in [0, 100_000, 200_000] {
            let call = Call::Get { digest, offset };
            assert_eq!(asked.iter().filter(|one| **one == call).count(), 1, "{call:?}");
        }
    }
    assert_eq!(report.totals.restarts, 6);
    assert_eq!(report.chunks.unwrap().moved.bytes, 900_000);
}

/// A chunk that the store loses while it is read is missing, whatever came of it before.
#[tokio::test(start_paused = true)]
async fn a_chunk_lost_midway_counts_as_missing() {
    let mut bed = large(3);
    bed.store.script(|call, _, _| match call {
        Call::Get { offset: 0, digest } if digest.len < 900_000 => {
            Act::fault(Fault::CutAfter(100_000))
        }
        Call::Get { digest, .. } if digest.len < 900_000 => Act::fault(Fault::Missing),
        _ => Act::default(),
    });
    assert!(bed.to_file().await.unwrap().form == Form::Whole);
    std::fs::remove_file(bed.path()).unwrap();
    bed.options.whole_fallback = false;
    let error = bed.to_file().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried() {
    let lens = [100, 200, 300_000, 5];
    let bed = Bed::new(chunks(lens.into_iter().zip(1..)));
    bed.store.script(|call, digest, nth| match (call, digest) {
        (Call::Batch { .. }, Some(_)) if nth == 0 => Act::fault(Fault::Broken),
        (Call::Get { .. }, _) if nth < 2 => Act::fault(Fault::Broken),
        _ => Act::default(),
    });
    bed.to_file().await.unwrap();
    let (report, given) = bed.to_writer().await;
    assert!(report.is_ok() && given == bed.content());
}

#[tokio::test(start_paused = true)]
async fn only_failed_chunks_of_a_batch_are_requested_again() {
    let bed = Bed::new(chunks((0..8).map(|seed| (1000, seed))));
    let bad = bed.digest(3);
    bed.store.script(move |_, digest, nth| match digest {
        Some(digest) if *digest == bad && nth == 0 => Act::fault(Fault::Broken),
        _ => Act::default(),
    });
    bed.to_file().await.unwrap();
    let again = Call::Batch { digests: vec![bad] };
    assert_eq!(bed.store.fetches().len(), 2);
    assert_eq!(bed.store.fetches()[1], again);
}

#[tokio::test(start_paused = true)]
async fn wrong_bytes_are_fetched_again_and_never_written() {
    for len in [1000, 300_000] {
        let bed = Bed::new(chunks((0..4).map(|seed| (len, seed))));
        let bad = bed.digest(2);
        bed.store.script(move |_, digest, nth| match digest {
            Some(digest) if *digest == bad && nth == 0 => Act::fault(Fault::Flipped),
            _ => Act::default(),
        });
        bed.to_file().await.unwrap();
        assert_eq!(bed.store.asked_for()[&bad], 2);
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_bytes_are_not_delivered_to_memory() {
    for len in [1000, 300_000] {
        for kind in 0..3 {
            let bed = Bed::new(chunks((0..4).map(|seed| (len, seed))));
            bed.store.script(move |_, digest, nth| match digest {
                Some(_) if nth == 0 => Act::fault(Fault::Flipped),
                _ => Act::default(),
            });
            let memory = match kind {
                0 => bed.run(Target::Memory).await.unwrap().memory.unwrap(),
                1 => bed.to_buffer().await.0.unwrap().memory.unwrap(),
                _ => bed.to_writer().await.1.into(),
            };
            assert!(memory == bed.content());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_stay_wrong_fail_the_download_and_leave_the_old_file() {
    for len in [1000, 300_000] {
        let bed = Bed::new(chunks((0..4).map(|seed| (len, seed))));
        std::fs::write(bed.path(), "old").unwrap();
        let bad = bed.digest(2);
        bed.store.script(move |_, digest, _| match digest {
            Some(digest) if *digest == bad => Act::fault(Fault::Flipped),
            _ => Act::default(),
        });
        let error = bed.to_file().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity);
        assert!(error.chain().contains(&bad.to_string()), "{}", error.chain());
        assert_eq!(bed.store.asked_for()[&bad], 2, "once more, in case it was damaged on the way");
        assert_eq!(std::fs::read(bed.path()).unwrap(), b"old");
        let (report, _) = bed.to_buffer().await;
        assert_eq!(report.unwrap_err().kind(), ErrorKind::Integrity);
        let (report, given) = bed.to_writer().await;
        assert_eq!(report.unwrap_err().kind(), ErrorKind::Integrity);
        assert!(bed.content().starts_with(&given), "a stream gets right bytes only");
    }
}

/// Wrong bytes of a chunk that is streamed into the file are overwritten by right ones.
#[tokio::test(start_paused = true)]
async fn wrong_bytes_of_a_long_chunk_are_overwritten() {
    let lens = [3_000_000, 500, 2_000_000];
    let bed = Bed::new(chunks(lens.into_iter().zip(1..))).with_budget(4 << 20, 4);
    let bad = bed.digest(0);
    bed.store.script(move |_, digest, nth| match digest {
        Some(digest) if *digest == bad && nth == 0 => Act::fault(Fault::Flipped),
        _ => Act::default(),
    });
    bed.to_file().await.unwrap();
    assert_eq!(bed.store.asked_for()[&bad], 2);
}

#[tokio::test(start_paused = true)]
async fn chunks_that_are_not_the_blob_fail_it_as_a_whole() {
    let lens = [1000, 300_000];
    let bed = Bed::new(chunks(lens.into_iter().zip(1..)));
    let other = chunks(lens.into_iter().zip(7..));
    let digests = other.iter().map(|one| Digest::of(DigestFunction::Sha256, one));
    for (digest, bytes) in digests.clone().zip(&other) {
        bed.store.hold_bytes(digest, bytes.clone());
    }
    let wrong = Manifest::new(bed.blob, digests.collect(), None).unwrap();
    bed.store.answer_manifest(&bed.blob, Ok(wrong));
    let error = bed.to_file().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert_eq!(
        std::fs::read_dir(bed.folder.path()).unwrap().count(),
        0,
        "nothing is worth keeping"
    );
    assert_eq!(bed.to_buffer().await.0.unwrap_err().kind(), ErrorKind::Integrity);
    assert_eq!(bed.run(Target::Memory).await.unwrap_err().kind(), ErrorKind::Integrity);
    assert_eq!(bed.to_writer().await.0.unwrap_err().kind(), ErrorKind::Integrity);
    assert_eq!(bed.run(Target::Discard).await.unwrap_err().kind(), ErrorKind::Integrity);
}

#[tokio::test(start_paused = true)]
async fn a_whole_blob_with_wrong_bytes_is_refused() {
    for len in [300_000, 5_000_000] {
        let store = FakeStore::new().with_profile(|profile| profile.can_split = false);
        let bed = Bed::on(store, chunks([(len, 1)]));
        bed.store.script(|_, _, _| Act::fault(Fault::Flipped));
        is_refused(&bed).await;
    }
}

async fn is_refused(bed: &Bed) {
    assert_eq!(bed.to_file().await.unwrap_err().kind(), ErrorKind::Integrity);
    assert_eq!(std::fs::read_dir(bed.folder.path()).unwrap().count(), 0);
    assert_eq!(bed.to_buffer().await.0.unwrap_err().kind(), ErrorKind::Integrity);
    assert_eq!(bed.to_writer().await.0.unwrap_err().kind(), ErrorKind::Integrity);
}

#[tokio::test(start_paused = true)]
async fn a_whole_blob_goes_on_where_it_broke() {
    let store = FakeStore::new().with_profile(|profile| profile.can_split = false);
    let bed = Bed::on(store, chunks([(3_000_000, 1)]));
    bed.store.script(|_, _, nth| match nth {
        0 => Act::fault(Fault::CutAfter(1_000_000)),
        _ => Act::default(),
    });
    bed.to_file().await.unwrap();
    let offsets = bed.store.fetches().into_iter().map(|call| match call {
        Call::Get { offset, .. } => offset,
        _ => panic!("no batch"),
    });
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 1_000_000]);
}

/// A client that finds a chunk missing late must not append the whole blob to the chunks that the
/// stream already has.
#[tokio::test(start_paused = true)]
async fn after_a_missing_chunk_the_blob_is_fetched_whole_and_no_byte_is_written_twice() {
    for len in [1000, 300_000] {
        let bed = Bed::new(chunks((0..40).map(|seed| (len, seed))));
        bed.store.evict(&bed.digest(30));
        let report = bed.to_file().await.unwrap();
        assert!(report.form == Form::Whole && report.notes.len() == 1, "{report:?}");
        let whole = |offset| Call::Get { digest: bed.blob, offset };
        assert!(bed.store.fetches().contains(&whole(0)), "a file begins anew");
        let done_bytes = bed.options.progress.snapshot().done_bytes;
        assert_eq!(done_bytes, bed.blob.len, "what was begun anew counts once");

        let (report, given) = bed.to_writer().await;
        assert!(report.unwrap().form == Form::Whole && given == bed.content());
        let (report, _buffer) = bed.to_buffer().await;
        assert!(report.unwrap().memory.unwrap() == bed.content());
        assert!(bed.run(Target::Memory).await.unwrap().memory.unwrap() == bed.content());
    }
}

/// The buffer already has most of its chunks, but not the first: only the gaps are filled.
#[tokio::test(start_paused = true)]
async fn a_whole_blob_fills_only_the_gaps_of_a_buffer() {
    let bed = large(40);
    let head = bed.digest(0);
    bed.store.evict(&bed.digest(39));
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if *digest == head => Act::after_ms(5000),
        _ => Act::default(),
    });
    let (report, _buffer) = bed.to_buffer().await;
    let report = report.unwrap();
    assert!(report.form == Form::Whole && report.memory.unwrap() == bed.content());
    assert_eq!(bed.options.progress.snapshot().done_bytes, bed.blob.len);
}

/// A stream already has its first chunks: the whole blob is requested from the offset after them.
#[tokio::test(start_paused = true)]
async fn a_stream_with_a_prefix_gets_the_rest_of_the_whole_blob() {
    let bed = large(40);
    let last = bed.digest(39);
    let gate = CancellationToken::new();
    let opened = gate.clone();
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if *digest == last => Act::behind(&gate).but(Fault::Missing),
        _ => Act::default(),
    });
    // Opens only after all earlier chunks have been delivered.
    let progress = Arc::clone(&bed.options.progress);
    let open = async {
        while progress.snapshot().done_bytes < 39 * 300_000 {
            tokio::task::yield_now().await;
        }
        opened.cancel();
    };
    let ((report, given), ()) = tokio::join!(bed.to_writer(), open);
    assert!(report.unwrap().form == Form::Whole && given == bed.content());
    let offset = 39 * 300_000;
    assert!(bed.store.fetches().contains(&Call::Get { digest: bed.blob, offset }));
}

#[tokio::test(start_paused = true)]
async fn a_missing_chunk_is_an_error_without_whole_fallback() {
    let mut bed = large(10);
    bed.options.whole_fallback = false;
    bed.store.evict(&bed.digest(5));
    let error = bed.to_file().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(bed.store.fetches().iter().all(|call| !call.digests().contains(&bed.blob)));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_manifest_makes_the_download_fetch_the_blob_whole_or_fail() {
    let mut bed = large(4);
    bed.store.answer_manifest(&bed.blob, Err(ErrorKind::Integrity));
    let report = bed.to_file().await.unwrap();
    assert!(report.form == Form::Whole && report.notes.len() == 1);
    assert_eq!(bed.store.fetches().len(), 1, "no chunk was asked for");
    bed.options.whole_fallback = false;
    assert_eq!(bed.to_file().await.unwrap_err().kind(), ErrorKind::Integrity);
}

#[tokio::test(start_paused = true)]
async fn the_first_error_ends_the_rest_and_is_the_one_reported() {
    let bed = large(40);
    let bad = bed.digest(7);
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if *digest == bad => Act::after_ms(5).but(Fault::Refused),
        Some(_) => Act::fault(Fault::Hang),
        None => Act::default(),
    });
    for target in [Target::File(bed.path()), Target::Memory, Target::Discard] {
        bed.store.forget();
        assert_eq!(bed.run(target).await.unwrap_err().kind(), ErrorKind::NoAccess);
        let again = bed.store.asked_for().into_values().any(|count| count > 1);
        assert!(!again, "nothing is waited for until it is given up");
    }
    assert!(!bed.path().exists());
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded() {
    let mut bed = large(4);
    bed.options.retry.attempts_max = 3;
    let bad = bed.digest(1);
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if *digest == bad => Act::fault(Fault::Broken),
        _ => Act::default(),
    });
    let error = bed.to_file().await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Exhausted, 3));
    assert_eq!(bed.store.asked_for()[&bad], 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_given_up_in_time() {
    let mut bed = large(4);
    bed.options.retry.attempts_max = 2;
    bed.store.script(|call, _, _| match call {
        Call::Get { .. } => Act::fault(Fault::Hang),
        _ => Act::default(),
    });
    let error = bed.to_file().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    bed.options.retry.deadline_ms = Some(1000);
    let error = bed.to_file().await.unwrap_err();
    assert!(error.chain().contains("deadline"), "{}", error.chain());
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_the_output_may_go_away() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for can_split in [true, false] {
        let store = FakeStore::new().with_profile(|profile| profile.can_split = can_split);
        let bed = Bed::on(store, chunks((0..40).map(|seed| (300_000, seed))));
        bed.store.script(|call, _, _| match call {
            Call::Get { .. } => Act::after_ms(10),
            _ => Act::default(),
        });
        let target = Target::Writer { writer: Box::new(Closed), name: "pipe".to_owned() };
        assert_eq!(bed.run(target).await.unwrap_err().kind(), ErrorKind::Storage);
    }
}

/// Frames without bytes are no progress.
#[tokio::test(start_paused = true)]
async fn frames_without_bytes_are_no_progress() {
    for can_split in [true, false] {
        let store = FakeStore::new().with_profile(|profile| profile.can_split = can_split);
        let mut bed = Bed::on(store, chunks((0..4).map(|seed| (2_000_000, seed))));
        bed.options.retry.attempts_max = 2;
        bed.store.script(|call, _, _| match call {
            Call::Get { .. } => Act::fault(Fault::Empty),
            _ => Act::default(),
        });
        let a_day = std::time::Duration::from_hours(24);
        let outcome = tokio::time::timeout(a_day, bed.run(Target::Discard)).await;
        let error = outcome.expect("it waits for ever").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
    }
}

/// Some stores report the whole batch as not found if one chunk is missing.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_not_found_is_a_missing_chunk() {
    let bed = Bed::new(chunks((0..40).map(|seed| (1000, seed))));
    bed.store.script(|call, _, _| match call {
        Call::Batch { .. } => Act::fault(Fault::Missing),
        _ => Act::default(),
    });
    assert!(bed.to_file().await.unwrap().form == Form::Whole);
}
