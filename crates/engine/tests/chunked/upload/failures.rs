//! Calls that fail, hang, or are cancelled.

use std::sync::Arc;
use std::time::Duration;

use tidegate::chunked::ChunkStore;
use tidegate::{ErrorKind, Form};
use tidegate_core::retry::{RetryClass, RetryPolicy};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::bed::{File, Random, budget, large, options, run, small, until};
use super::store::{Call, FakeStore, Reply, profile};
use crate::call::{UploadOptions, client_with, upload};

#[tokio::test]
async fn random_transient_failures_are_retried() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut lossy = random.next() % 3;
        let chunking = if random.one_in(2) { small() } else { large() };
        let store = FakeStore::scripted(profile(&[chunking]), move |call, blobs| match call {
            _ if random.one_in(8) => Reply::Fail(ErrorKind::Transport, RetryClass::Now),
            Call::PutBatch(chunks) if random.one_in(4) => Reply::Break(chunks.len().div_ceil(2)),
            Call::Put { .. } if random.one_in(4) => Reply::Break(1),
            Call::Register { .. } if lossy > 0 => {
                lossy -= 1;
                let victim = blobs.keys().next().copied();
                victim.and_then(|victim| blobs.remove(&victim));
                Reply::Go
            }
            _ => Reply::Go,
        });
        let file = File::random(700_000, seed);
        let report = run(&store, &file.path, &options()).await;
        let report = report.unwrap_or_else(|error| panic!("seed {seed}: {}", error.chain()));
        assert_eq!(report.digest.unwrap(), file.digest(), "seed {seed}");
        assert!(store.blobs()[&file.digest()] == file.bytes, "seed {seed}");
        assert_eq!(store.in_flight(), 0, "seed {seed}");
    }
}

#[tokio::test]
async fn only_failed_chunks_of_a_batch_are_sent_again() {
    let mut is_first = true;
    let store = FakeStore::scripted(profile(&[small()]), move |call, _| match call {
        Call::PutBatch(_) if std::mem::take(&mut is_first) => Reply::Break(2),
        _ => Reply::Go,
    });
    let report = run(&store, &File::random(12_000, 50).path, &options()).await.unwrap();
    let batches: Vec<_> = (store.log().into_iter())
        .filter_map(|call| if let Call::PutBatch(chunks) = call { Some(chunks) } else { None })
        .collect();
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[1], batches[0][..2]);
    assert_eq!(
        (report.totals.restarts, report.chunks.unwrap().moved),
        (1, report.chunks.unwrap().distinct)
    );
}

#[tokio::test]
async fn a_broken_put_resumes_under_its_own_name() {
    let mut breaks = 3;
    let store = FakeStore::scripted(profile(&[]), move |call, _| match call {
        Call::Put { .. } if breaks > 0 => {
            breaks -= 1;
            Reply::Break(3)
        }
        _ => Reply::Go,
    });
    let file = File::random(3 << 20, 51);
    run(&store, &file.path, &options()).await.unwrap();
    assert!(store.blobs()[&file.digest()] == file.bytes);
    let puts: Vec<(String, bool)> = (store.log().into_iter())
        .filter_map(|call| match call {
            Call::Put { upload_id, resume, .. } => Some((upload_id, resume)),
            _ => None,
        })
        .collect();
    assert_eq!(puts.iter().map(|put| put.1).collect::<Vec<_>>(), [false, true, true, true]);
    let id = &puts[0].0;
    assert!(puts.iter().all(|put| put.0 == *id));
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
}

/// A store that has lost the bytes it kept of a put, or has kept more than it says, refuses to
/// continue.
#[tokio::test]
async fn a_put_that_cannot_resume_restarts_once() {
    for (kind, expected) in [
        (ErrorKind::Invalid, true),
        (ErrorKind::OutOfRange, true),
        (ErrorKind::NotFound, true),
        (ErrorKind::NoAccess, false),
    ] {
        let mut puts = 0;
        let store = FakeStore::scripted(profile(&[]), move |call, _| match call {
            Call::Put { resume, .. } => {
                puts += 1;
                match (puts, resume) {
                    (1, _) => Reply::Break(3),
                    (_, true) => Reply::Fail(kind, RetryClass::Never),
                    _ => Reply::Go,
                }
            }
            _ => Reply::Go,
        });
        let file = File::random(3 << 20, 60);
        let outcome = run(&store, &file.path, &options()).await;
        assert_eq!(outcome.is_ok(), expected, "{kind:?}");
        assert_eq!(store.blobs().contains_key(&file.digest()), expected, "{kind:?}");
        let ids: Vec<String> = (store.log().into_iter())
            .filter_map(|call| match call {
                Call::Put { upload_id, .. } => Some(upload_id),
                _ => None,
            })
            .collect();
        assert_eq!(ids.len(), if expected { 3 } else { 2 });
        assert!(ids[0] == ids[1] && ids.get(2) != Some(&ids[0]), "{ids:?}");
    }
}

#[tokio::test]
async fn a_restarted_put_that_is_refused_again_is_an_error() {
    let mut puts = 0;
    let store = FakeStore::scripted(profile(&[]), move |call, _| match call {
        Call::Put { .. } => {
            puts += 1;
            match puts {
                1 => Reply::Break(3),
                _ => Reply::Fail(ErrorKind::Invalid, RetryClass::Never),
            }
        }
        _ => Reply::Go,
    });
    let error = run(&store, &File::random(3 << 20, 61).path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(store.count(|call| matches!(call, Call::Put { .. })), 3);
}

/// The store is asked for the blob, and all chunks are sent before it responds.
#[tokio::test]
async fn nothing_else_is_in_flight_while_the_blob_is_made() {
    let file = File::random(1 << 20, 62);
    let (blob, unanswered) = (file.digest(), Arc::new(Semaphore::new(0)));
    let (made, making) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (made_gate, making_gate) = (Arc::clone(&made), Arc::clone(&making));
    let store = FakeStore::scripted(profile(&[small()]), move |call, _| match call {
        Call::Missing(digests) if digests.contains(&blob) => Reply::Wait(Arc::clone(&unanswered)),
        Call::Register { .. } => {
            making_gate.add_permits(1);
            Reply::Wait(Arc::clone(&made_gate))
        }
        _ => Reply::Go,
    });
    let chosen = UploadOptions { digest: Some(blob), ..options() };
    let observe = async {
        making.acquire().await.unwrap().forget();
        assert_eq!(store.in_flight(), 1);
        made.add_permits(1);
    };
    let (report, ()) = tokio::join!(run(&store, &file.path, &chosen), observe);
    assert_eq!(report.unwrap().digest, Some(blob));
}

/// The store may refuse a manifest, because it can be longer than a message.
#[tokio::test]
async fn a_blob_that_cannot_be_made_of_chunks_is_put_whole() {
    for named in [false, true] {
        let store = FakeStore::scripted(profile(&[small()]), |call, _| match call {
            Call::Register { .. } => Reply::Fail(ErrorKind::Unsupported, RetryClass::Never),
            _ => Reply::Go,
        });
        let file = File::random(1 << 20, 63);
        let chosen = UploadOptions { digest: named.then(|| file.digest()), ..options() };
        let report = run(&store, &file.path, &chosen).await.unwrap();
        assert_eq!((report.form, report.digest.unwrap()), (Form::Whole, file.digest()));
        assert!(store.blobs()[&file.digest()] == file.bytes);
        assert_eq!((store.registers(), report.chunks.unwrap().requests.put), (1, 1));
    }
    // Not if the caller does not want that.
    let store = FakeStore::scripted(profile(&[small()]), |call, _| match call {
        Call::Register { .. } => Reply::Fail(ErrorKind::Unsupported, RetryClass::Never),
        _ => Reply::Go,
    });
    let chosen = UploadOptions { whole_fallback: false, ..options() };
    let error = run(&store, &File::random(1 << 20, 65).path, &chosen).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    // Nor if the blob is too long to be put whole.
    let mut bounded = profile(&[small()]);
    bounded.blob_bytes_max = Some(100_000);
    let store = FakeStore::scripted(bounded, |call, _| match call {
        Call::Register { .. } => Reply::Fail(ErrorKind::Unsupported, RetryClass::Never),
        _ => Reply::Go,
    });
    let error = run(&store, &File::random(1 << 20, 64).path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn a_permanent_failure_ends_the_upload_and_is_reported() {
    for which in 0..4 {
        let mut puts = 0;
        let store = FakeStore::scripted(profile(&[small()]), move |call, _| match (which, call) {
            (0, Call::Missing(_)) | (1, Call::Register { .. }) => {
                Reply::Fail(ErrorKind::NoAccess, RetryClass::Never)
            }
            (2, Call::PutBatch(_)) => {
                puts += 1;
                if puts == 3 {
                    return Reply::Fail(ErrorKind::NoAccess, RetryClass::Never);
                }
                Reply::Wait(Arc::new(Semaphore::new(0)))
            }
            (3, Call::PutBatch(_)) => Reply::Short,
            _ => Reply::Go,
        });
        let budget = budget(64, 1 << 20);
        let chosen = UploadOptions { client: client_with(&budget), ..options() };
        let error = run(&store, &File::random(1 << 20, 52).path, &chosen).await.unwrap_err();
        let expected = if which == 3 { ErrorKind::Integrity } else { ErrorKind::NoAccess };
        assert_eq!((error.kind(), store.in_flight()), (expected, 0), "{which}: {error}");
        until(|| budget.held_bytes() == 0).await;
    }
}

#[tokio::test]
async fn a_refused_chunk_is_not_retried_with_others() {
    let store = FakeStore::scripted(profile(&[small()]), |call, _| match call {
        Call::PutBatch(_) => Reply::Refuse,
        _ => Reply::Go,
    });
    let error = run(&store, &File::random(10_000, 58).path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoAccess, "{error}");
    assert_eq!(store.count(|call| matches!(call, Call::PutBatch(_))), 1);
}

#[tokio::test]
async fn a_wait_for_memory_can_be_cancelled() {
    for chunkings in [vec![small()], vec![]] {
        let store = FakeStore::new(profile(&chunkings));
        let (budget, cancel) = (budget(64, 1 << 20), CancellationToken::new());
        let all = budget.bytes(1 << 20).await;
        let chosen =
            UploadOptions { client: client_with(&budget), cancel: cancel.clone(), ..options() };
        let file = File::random(100_000, 59);
        let stop = async {
            until(|| chosen.progress.snapshot().len_bytes.is_some()).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(run(&store, &file.path, &chosen), stop);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
        drop(all);
        until(|| budget.held_bytes() == 0).await;
    }
}

#[tokio::test]
async fn exhausted_attempts_are_an_error() {
    let store = FakeStore::scripted(profile(&[small()]), |call, _| match call {
        Call::PutBatch(_) => Reply::Fail(ErrorKind::Throttled, RetryClass::Now),
        _ => Reply::Go,
    });
    let retry = RetryPolicy { attempts_max: 3, ..options().retry };
    let chosen = UploadOptions { retry, ..options() };
    let error = run(&store, &File::random(10_000, 53).path, &chosen).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Exhausted, 3), "{error}");
    assert!(error.chain().contains("the script says so"), "{}", error.chain());
}

#[tokio::test]
async fn cancelling_leaves_nothing_in_flight() {
    for chunkings in [vec![small()], vec![large()], vec![]] {
        let store = FakeStore::scripted(profile(&chunkings), |call, _| match call {
            Call::Put { .. } | Call::PutBatch(_) => Reply::Wait(Arc::new(Semaphore::new(0))),
            _ => Reply::Go,
        });
        let (budget, cancel) = (budget(64, 1 << 20), CancellationToken::new());
        let chosen =
            UploadOptions { client: client_with(&budget), cancel: cancel.clone(), ..options() };
        let file = File::random(1 << 20, 54);
        let stop = async {
            until(|| !store.puts().is_empty()).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(run(&store, &file.path, &chosen), stop);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!((store.in_flight(), store.registers()), (0, 0));
        assert_eq!(chosen.progress.snapshot().in_flight, 0);
        until(|| budget.held_bytes() == 0).await;
    }
}

#[tokio::test]
async fn dropping_an_upload_cancels_it() {
    let store = FakeStore::scripted(profile(&[small()]), |call, _| match call {
        Call::Register { .. } => Reply::Wait(Arc::new(Semaphore::new(0))),
        _ => Reply::Go,
    });
    let options = options();
    let file = File::random(1 << 20, 55);
    let dynamic: Arc<dyn ChunkStore> = Arc::clone(&store) as _;
    let stop = until(|| store.registers() > 0);
    tokio::select! {
        _ = upload(&dynamic, &file.path, &options) => panic!("it cannot end"),
        () = stop => {}
    }
    assert_eq!(store.in_flight(), 0);
    until(|| options.client.budget().held_bytes() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_bounds_the_whole() {
    let store = FakeStore::scripted(profile(&[]), |call, _| match call {
        Call::PutBatch(_) => Reply::Wait(Arc::new(Semaphore::new(0))),
        _ => Reply::Go,
    });
    let retry = RetryPolicy { deadline_ms: Some(5000), ..options().retry };
    let chosen = UploadOptions { retry, ..options() };
    let error = run(&store, &File::random(10_000, 56).path, &chosen).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.to_string().contains("deadline of 5 s"), "{error}");
    assert_eq!(store.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_is_retried() {
    // The first length goes as a batch, the second in a request of its own.
    for (len, bound_s) in [(10_000, 3), (8 << 20, 60)] {
        let mut is_first = true;
        let store = FakeStore::scripted(profile(&[]), move |call, _| match call {
            Call::Put { .. } | Call::PutBatch(_) if std::mem::take(&mut is_first) => {
                Reply::Wait(Arc::new(Semaphore::new(0)))
            }
            _ => Reply::Go,
        });
        let file = File::random(len, 57);
        let patient = UploadOptions {
            retry: RetryPolicy { stall_ms_max: 1000, header_ms_max: 1000, ..options().retry },
            ..options()
        };
        let start = tokio::time::Instant::now();
        let dynamic: Arc<dyn ChunkStore> = Arc::clone(&store) as _;
        let report = upload(&dynamic, &file.path, &patient).await.unwrap();
        assert_eq!((report.digest.unwrap(), report.totals.restarts), (file.digest(), 1));
        // The test's clock stands still while any task has work.
        let elapsed = start.elapsed();
        assert!(elapsed > Duration::from_secs(1), "{elapsed:?}");
        assert!(elapsed < Duration::from_secs(bound_s), "{elapsed:?}");
    }
}
