//! After an upload the store has the file's bytes under the file's digest.

use std::sync::Arc;

use futures_util::stream;
use tidegate::chunked::StoreProfile;
use tidegate::{ErrorKind, Form, Operation, UploadSource};
use tidegate_core::chunking::{Chunking, FastCdc2020Params};
use tidegate_core::digest::{Digest, DigestFunction};

use super::bed::{File, SMALL_MAX, budget, large, options, random, run, run_source, small};
use super::store::{Call, FakeStore, profile};
use crate::call::{UploadOptions, client_with};

async fn holds(store: &Arc<FakeStore>, file: &File, options: &UploadOptions) -> Form {
    let report = run(store, &file.path, options).await.unwrap();
    let function = report.digest.unwrap().function;
    assert_eq!(report.digest.unwrap(), Digest::of(function, &file.bytes));
    assert!(store.blobs().get(&report.digest.unwrap()).unwrap() == &file.bytes);
    report.form
}

#[tokio::test]
async fn the_registered_blob_is_the_file_for_every_chunking_and_digest() {
    let text = b"the same line again and again\n".repeat(9000);
    for bytes in [random(1 << 20, 1), vec![0; 300_000], text] {
        let file = File::new(bytes);
        for chunking in [small(), large()] {
            for function in [DigestFunction::Sha256, DigestFunction::Blake3] {
                let store = FakeStore::new(profile(&[small(), large()]));
                let chosen = UploadOptions {
                    chunking: Some(chunking),
                    digest_function: Some(function),
                    ..options()
                };
                assert_eq!(holds(&store, &file, &chosen).await, Form::Chunks);
                let log = store.log();
                let Some(Call::Register { chunking: said, .. }) = log.last() else { panic!() };
                assert_eq!(*said, Some(chunking));
            }
        }
    }
}

#[tokio::test]
async fn a_blob_is_cut_only_if_it_is_longer_than_any_chunk() {
    let max = usize::try_from(SMALL_MAX).unwrap();
    for (len, outcome) in
        [(1, Form::Whole), (max - 1, Form::Whole), (max, Form::Whole), (max + 1, Form::Chunks)]
    {
        let store = FakeStore::new(profile(&[small()]));
        assert_eq!(holds(&store, &File::random(len, 2), &options()).await, outcome, "{len}");
        assert_eq!(store.registers(), usize::from(outcome == Form::Chunks));
    }
}

#[tokio::test]
async fn the_empty_file_is_there_already() {
    let store = FakeStore::new(profile(&[small()]));
    let report = run(&store, &File::new(Vec::new()).path, &options()).await.unwrap();
    assert_eq!(report.digest.unwrap(), Digest::of(DigestFunction::Sha256, b""));
    assert_eq!((report.form, store.log().len()), (Form::Present, 0));
}

#[tokio::test]
async fn a_store_that_cannot_make_blobs_of_chunks_gets_them_whole() {
    let file = File::random(1 << 20, 3);
    let mut no_splice = profile(&[small()]);
    no_splice.can_splice = false;
    let other = Chunking::FastCdc2020(FastCdc2020Params::new(2048, 0).unwrap());
    let whole_only = StoreProfile::new(DigestFunction::Sha256);
    for profile in [no_splice, profile(&[other]), whole_only] {
        let store = FakeStore::new(profile);
        let chosen = UploadOptions { chunking: Some(small()), ..options() };
        assert_eq!(holds(&store, &file, &chosen).await, Form::Whole);
        assert_eq!((store.puts(), store.registers()), (vec![file.digest()], 0));
    }
}

/// The store takes manifests and names no chunking: the file is cut if the caller gives a chunking.
#[tokio::test]
async fn a_store_without_a_chunking_gets_chunks_only_with_the_callers_chunking() {
    let file = File::random(1 << 20, 3);
    let store = FakeStore::new(profile(&[]));
    let chosen = UploadOptions { chunking: Some(small()), ..options() };
    assert_eq!(holds(&store, &file, &options()).await, Form::Whole);
    let store = FakeStore::new(profile(&[]));
    assert_eq!(holds(&store, &file, &chosen).await, Form::Chunks);
    assert_eq!(store.registers(), 1);
}

#[tokio::test]
async fn a_whole_blob_is_sent_as_one_put_or_as_a_batch_of_one() {
    for (len, is_batch) in [(60_000, true), (70_000, false)] {
        let store = FakeStore::new(profile(&[]));
        let file = File::random(len, 4);
        assert_eq!(holds(&store, &file, &options()).await, Form::Whole);
        assert_eq!(store.count(|call| matches!(call, Call::PutBatch(_))), usize::from(is_batch));
        assert_eq!(store.count(|call| matches!(call, Call::Put { .. })), usize::from(!is_batch));
    }
}

#[tokio::test]
async fn a_blob_that_is_too_long_for_the_store_is_refused_before_it_is_read() {
    let mut profile = profile(&[]);
    profile.blob_bytes_max = Some(1000);
    let store = FakeStore::new(profile);
    let error = run(&store, &File::random(1001, 5).path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("1001") && error.to_string().contains("1000"), "{error}");
    assert_eq!(store.log(), []);
}

#[tokio::test]
async fn a_file_that_is_not_what_the_caller_says_is_refused() {
    let (file, other) = (File::random(100_000, 6), File::random(100_000, 7));
    let short = Digest { len: 5, ..file.digest() };
    for (chunkings, named) in
        [(vec![small()], other.digest()), (vec![], other.digest()), (vec![], short)]
    {
        let store = FakeStore::new(profile(&chunkings));
        let chosen = UploadOptions { digest: Some(named), ..options() };
        let error = run(&store, &file.path, &chosen).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
        assert!(error.to_string().contains(&named.to_string()), "{error}");
        assert!(!store.blobs().contains_key(&named));
    }
}

/// A store that does not verify takes any name that the caller gives.
#[tokio::test]
async fn a_store_that_does_not_verify_gets_no_wrong_digest() {
    let (large, small_one) = (File::random(100_000, 6), File::random(1000, 6));
    for (file, chunkings, batches) in [
        (&large, vec![small()], true),
        (&large, vec![small()], false),
        (&large, vec![], true),
        (&small_one, vec![], true),
        (&small_one, vec![], false),
    ] {
        let mut profile = profile(&chunkings);
        profile.batch = profile.batch.filter(|_| batches);
        let store = FakeStore::new(profile);
        store.believe();
        let other = File::random(file.bytes.len(), 7);
        let chosen = UploadOptions { digest: Some(other.digest()), ..options() };
        let error = run(&store, &file.path, &chosen).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
        assert!(error.to_string().contains(&other.digest().to_string()), "{error}");
        assert_eq!(store.registers(), 0);
        assert!(!store.blobs().contains_key(&other.digest()));
        // With its right digest the same file is taken.
        let chosen = UploadOptions { digest: Some(file.digest()), ..options() };
        run(&store, &file.path, &chosen).await.unwrap();
        assert!(store.blobs()[&file.digest()] == file.bytes);
    }
}

#[tokio::test]
async fn a_digest_function_that_the_store_lacks_is_refused() {
    let store = FakeStore::new(StoreProfile::new(DigestFunction::Sha256));
    let file = File::random(10, 8);
    let blake3 = Some(DigestFunction::Blake3);
    let chosen = UploadOptions { digest_function: blake3, ..options() };
    let error = run(&store, &file.path, &chosen).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let digest = Some(file.digest());
    let chosen = UploadOptions { digest_function: blake3, digest, ..options() };
    let error = run(&store, &file.path, &chosen).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(store.log(), []);
}

/// The store sets the chunk size, and does not know how many chunks a file will have.
#[tokio::test]
async fn a_blob_of_more_chunks_than_memory_is_put_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    // Some 80,000 chunks of 1 KiB on average, all zeros.
    std::fs::File::create(&path).unwrap().set_len(80 << 20).unwrap();
    for (budget_bytes, whole_fallback, expected) in [
        (256 << 20, true, Ok(Form::Chunks)),
        (1 << 20, true, Ok(Form::Whole)),
        (1 << 20, false, Err(ErrorKind::Unsupported)),
    ] {
        let store = FakeStore::new(profile(&[small()]));
        let budget = budget(64, budget_bytes);
        let chosen = UploadOptions { client: client_with(&budget), whole_fallback, ..options() };
        let outcome = run(&store, &path, &chosen).await;
        let outcome = outcome.map(|report| report.form).map_err(|error| error.kind());
        assert_eq!(outcome, expected);
    }
}

#[tokio::test]
async fn a_source_that_is_not_a_file_is_refused() {
    let store = FakeStore::new(profile(&[small()]));
    let folder = tempfile::tempdir().unwrap();
    let error = run(&store, folder.path(), &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = run(&store, &folder.path().join("none"), &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(store.log(), []);
}

/// Waiting for a writer has no timeout of its own, and can be cancelled.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_is_read_to_its_end_and_a_wait_for_its_writer_can_be_cancelled() {
    use rustix::fs::{CWD, Mode, mkfifoat};
    let store = FakeStore::new(profile(&[small()]));
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let options = options();
    let cancelled = async { options.cancel.cancel() };
    let (outcome, ()) = tokio::join!(run(&store, &pipe, &options), cancelled);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(store.log(), []);

    let file = File::random(300_000, 1);
    let (theirs, bytes) = (pipe.clone(), file.bytes.clone());
    let writing = std::thread::spawn(move || std::fs::write(theirs, bytes));
    let report = run(&store, &pipe, &self::options()).await.unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!((report.digest.unwrap(), report.notes.len()), (file.digest(), 1));
    assert!(store.blobs().get(&file.digest()).unwrap() == &file.bytes);
}

#[tokio::test]
async fn bytes_a_stream_and_a_reader_are_stored_as_a_file_is() {
    let file = File::random(300_000, 3);
    let bytes = bytes::Bytes::from(file.bytes.clone());
    let frames: Vec<_> = bytes.chunks(7_000).map(|frame| Ok(bytes.slice_ref(frame))).collect();
    let sources: [(&str, UploadSource); 3] = [
        ("bytes", UploadSource::bytes(bytes.clone())),
        ("a stream", UploadSource::stream(Box::pin(stream::iter(frames)))),
        ("a reader", UploadSource::reader(std::io::Cursor::new(bytes.clone()))),
    ];
    for (name, source) in sources {
        let store = FakeStore::new(profile(&[small()]));
        let report = run_source(&store, source, &options()).await.unwrap();
        assert_eq!((report.form, report.digest), (Form::Chunks, Some(file.digest())), "{name}");
        assert!(store.blobs().get(&file.digest()).unwrap() == &file.bytes, "{name}");
    }
}

#[tokio::test]
async fn a_stream_that_fails_or_is_too_long_stores_nothing() {
    let failure = || tidegate::Error::new(ErrorKind::Transport, Operation::Read, "it", "it broke");
    let broken = stream::iter([Ok(bytes::Bytes::from_static(b"some")), Err(failure())]);
    let store = FakeStore::new(profile(&[small()]));
    let source = UploadSource::stream(Box::pin(broken));
    let error = run_source(&store, source, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transport);
    assert_eq!(store.blobs().len(), 0);

    let file = File::random(1_000, 3);
    let named = UploadOptions { digest: Some(file.digest()), ..options() };
    let source = UploadSource::bytes([file.bytes.clone(), vec![1]].concat());
    let error = run_source(&store, source, &named).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert_eq!(store.blobs().len(), 0);
}
