//! Every target gets the blob. Each chunk is fetched once, and small chunks share requests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::{ErrorKind, Form, Target};
use tidegate_core::chunking::{Chunking, FastCdc2020Params};
use tidegate_core::digest::{Digest, DigestFunction};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, FakeStore};
use crate::call::download_chunks;

/// Small chunks, large chunks, and some that recur near and far.
fn mixed() -> Bed {
    let lens = [100, 300_000, 5, 100, 70_000, 1_000_000, 100, 300_000, 1, 1, 20_000, 100];
    let seeds = [1, 2, 3, 1, 4, 5, 1, 2, 6, 6, 7, 1];
    Bed::new(chunks(lens.into_iter().zip(seeds)))
}

fn each_asked_for_once(bed: &Bed) {
    for (digest, count) in bed.store.asked_for() {
        assert_eq!(count, 1, "{digest}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_gets_its_bytes_with_each_distinct_chunk_fetched_once() {
    let bed = mixed();
    let report = bed.to_file().await.unwrap();
    each_asked_for_once(&bed);
    assert_eq!((report.chunks.unwrap().all.chunks, report.chunks.unwrap().moved.chunks), (12, 7));
    assert!(report.form != Form::Whole && report.chunks.unwrap().shared.chunks == 0);
    // The profile, the manifest, two batches of the five small chunks, and two large chunks.
    assert_eq!(bed.store.log().len(), 6);
    assert_eq!(report.totals.requests, 6);
}

#[tokio::test(start_paused = true)]
async fn a_buffer_gets_its_bytes_and_its_end() {
    let bed = mixed();
    let (report, buffer) = bed.to_buffer().await;
    assert_eq!(report.unwrap().memory.unwrap(), bed.content());
    assert_eq!(buffer.total(), Some(bed.blob.len));
    each_asked_for_once(&bed);
}

#[tokio::test(start_paused = true)]
async fn memory_gets_the_blob_within_the_budget() {
    let bed = mixed();
    let report = bed.run(Target::Memory).await.unwrap();
    assert_eq!(report.memory.unwrap(), bed.content());
    each_asked_for_once(&bed);
}

#[tokio::test(start_paused = true)]
async fn a_stream_gets_the_bytes_in_order_with_chunks_that_recur_fetched_once() {
    let bed = mixed();
    let (report, given) = bed.to_writer().await;
    report.unwrap();
    assert!(given == bed.content());
    each_asked_for_once(&bed);
}

#[tokio::test(start_paused = true)]
async fn a_discarded_blob_is_verified() {
    let bed = mixed();
    bed.run(Target::Discard).await.unwrap();
    each_asked_for_once(&bed);
}

#[tokio::test(start_paused = true)]
async fn few_small_chunks_cost_one_request() {
    let bed = Bed::new(chunks((0..32).map(|seed| (1024, seed))));
    bed.to_file().await.unwrap();
    assert_eq!(bed.store.fetches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_batches_gives_chunks_one_by_one() {
    let store = FakeStore::new().with_profile(|profile| profile.batch = None);
    let bed = Bed::on(store, chunks((0..32).map(|seed| (1024, seed))));
    bed.to_file().await.unwrap();
    assert_eq!(bed.store.fetches().len(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_blob_no_longer_than_one_chunk_is_fetched_without_a_manifest() {
    let params = FastCdc2020Params::new(1024, 0).unwrap();
    let store = FakeStore::new()
        .with_profile(|profile| profile.chunkings = vec![Chunking::FastCdc2020(params)]);
    let bed = Bed::on(store, chunks([(2048, 1), (2048, 2)]));
    let report = bed.to_file().await.unwrap();
    assert_eq!(bed.store.log(), [Call::Profile, Call::Get { digest: bed.blob, offset: 0 }]);
    assert!(report.form == Form::Whole);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_gives_no_manifests_gives_whole_blobs() {
    let store = FakeStore::new().with_profile(|profile| profile.can_split = false);
    let bed = Bed::on(store, chunks([(200_000, 1), (2_000_000, 2)]));
    bed.to_file().await.unwrap();
    assert!(bed.to_buffer().await.0.unwrap().memory.unwrap() == bed.content());
    let (report, given) = bed.to_writer().await;
    assert!(report.unwrap().form == Form::Whole && given == bed.content());
    assert_eq!(bed.run(Target::Memory).await.unwrap().memory.unwrap(), bed.content());
    assert!(!bed.store.log().contains(&Call::Manifest));
}

#[tokio::test(start_paused = true)]
async fn the_empty_blob_is_always_there() {
    let bed = Bed::new(Vec::new());
    bed.to_file().await.unwrap();
    let (report, given) = bed.to_writer().await;
    assert!(report.is_ok() && given.is_empty());
    assert_eq!(bed.run(Target::Memory).await.unwrap().memory.unwrap(), "");
    assert!(bed.store.fetches().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_blob_is_not_found_and_leaves_no_file() {
    let mut bed = Bed::new(chunks([(1000, 1)]));
    bed.blob = Digest::of(DigestFunction::Sha256, b"another");
    assert_eq!(bed.to_file().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(std::fs::read_dir(bed.folder.path()).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hash_that_the_store_does_not_know_is_refused_before_anything_is_fetched() {
    let store = FakeStore::new()
        .with_profile(|profile| profile.digest_functions = vec![DigestFunction::Blake3]);
    let bed = Bed::on(store, chunks([(1000, 1)]));
    assert_eq!(bed.to_file().await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(bed.store.log(), [Call::Profile]);
    assert_eq!(std::fs::read_dir(bed.folder.path()).unwrap().count(), 0, "nothing is left");
}

/// A chunk too long to be held is streamed into the sink.
#[tokio::test(start_paused = true)]
async fn a_chunk_too_long_to_be_held_is_streamed_to_all_its_places() {
    let lens = [3_000_000, 500, 3_000_000, 1_000_000];
    let bed = Bed::new(chunks(lens.into_iter().zip([1, 2, 1, 3]))).with_budget(4 << 20, 4);
    bed.to_file().await.unwrap();
    each_asked_for_once(&bed);
    assert!(bed.options.client.budget().held_bytes_peak() <= 4 << 20);
    let (report, buffer) = bed.to_buffer().await;
    assert!(report.unwrap().memory.unwrap() == bed.content());
    drop(buffer);
    let (report, given) = bed.to_writer().await;
    assert!(report.is_ok() && given == bed.content());
}

/// Under any umask: the part file may be as secret as the file that it replaces.
#[tokio::test]
async fn a_part_file_is_not_readable_by_other_users() {
    let bed = Bed::new(chunks((0..4).map(|seed| (300_000, seed))));
    std::fs::write(bed.path(), "old").unwrap();
    let secret = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(bed.path(), secret.clone()).unwrap();
    let (modes, part) = (Arc::new(Mutex::new(Vec::new())), bed.part());
    let seen = Arc::clone(&modes);
    bed.store.script(move |_, digest, _| {
        if digest.is_some() {
            let found = std::fs::metadata(&part).unwrap();
            seen.lock().unwrap().push(found.permissions().mode() & 0o777);
        }
        Act::default()
    });
    bed.to_file().await.unwrap();
    let modes = modes.lock().unwrap();
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    assert_eq!(std::fs::metadata(bed.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

/// File names are bytes: two names that differ only in invalid text are different targets.
#[tokio::test]
async fn target_names_with_invalid_text_stay_distinct() {
    let bed = Bed::new(chunks((0..4).map(|seed| (300_000, seed))));
    let gate = CancellationToken::new();
    let (held, is_first) = (gate.clone(), AtomicBool::new(true));
    bed.store.script(move |_, _, _| {
        if is_first.swap(false, Ordering::Relaxed) { Act::behind(&held) } else { Act::default() }
    });
    let paths = [b"t\xfe", b"t\xff"].map(|name| bed.folder.path().join(OsStr::from_bytes(name)));
    let [one, other] = paths.clone().map(Target::File);
    let store = bed.dyn_store();
    let meanwhile = async {
        while bed.store.log().is_empty() {
            tokio::task::yield_now().await;
        }
        let other = download_chunks(&store, &bed.blob, other, &bed.options).await;
        gate.cancel();
        other
    };
    let (one, other) =
        tokio::join!(download_chunks(&store, &bed.blob, one, &bed.options), meanwhile);
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    for path in paths {
        assert!(std::fs::read(path).unwrap() == bed.content());
    }
}
