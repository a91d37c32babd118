//! An upload error names the file, the chunk, its range in the file, the reason, and what to do.

use std::os::unix::fs::FileExt;

use tidegate::ErrorKind;
use tidegate_core::chunking::{Chunking, cuts};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryClass;

use super::bed::{File, large, options, run, small};
use super::store::{Call, FakeStore, Reply, profile};

/// The chunks of a file and their places.
fn places(file: &File, chunking: &Chunking) -> Vec<(Digest, std::ops::Range<u64>)> {
    let mut end = 0;
    let mut place = |len: usize| {
        let start = end;
        end += len;
        let digest = Digest::of(DigestFunction::Sha256, &file.bytes[start..end]);
        (digest, start as u64..end as u64)
    };
    cuts(chunking, &file.bytes).map(&mut place).collect()
}

/// A chunk in a request of its own: the store refuses it, for now or for good, until the upload
/// gives up.
#[tokio::test]
async fn an_error_names_the_file_the_chunk_and_its_range() {
    for (class, kind) in
        [(RetryClass::Never, ErrorKind::NoAccess), (RetryClass::Now, ErrorKind::Exhausted)]
    {
        let file = File::random(1 << 20, 70);
        let (bad, place) = places(&file, &large()).swap_remove(2);
        let store = FakeStore::scripted(profile(&[large()]), move |call, _| match call {
            Call::Put { digest, .. } if *digest == bad => Reply::Fail(ErrorKind::NoAccess, class),
            _ => Reply::Go,
        });
        let error = run(&store, &file.path, &options()).await.unwrap_err();
        let chain = error.chain();
        assert_eq!((error.kind(), error.range()), (kind, Some(place)), "{chain}");
        assert_eq!(error.target(), file.path.display().to_string(), "{chain}");
        assert!(chain.contains(&format!("chunk {bad}")), "{chain}");
        assert!(chain.contains("the script says so") && error.hint().is_some(), "{chain}");
    }
}

/// A refused chunk of a batch is reported with its own range. A batch that fails as a whole is
/// reported with the range of all its chunks.
#[tokio::test]
async fn an_error_of_a_batch_has_the_range_of_its_chunks() {
    for alone in [true, false] {
        let file = File::random(12_000, 71);
        let places = places(&file, &small());
        let store = FakeStore::scripted(profile(&[small()]), move |call, _| match call {
            Call::PutBatch(_) if alone => Reply::Refuse,
            Call::PutBatch(_) => Reply::Fail(ErrorKind::NoAccess, RetryClass::Never),
            _ => Reply::Go,
        });
        let error = run(&store, &file.path, &options()).await.unwrap_err();
        let chain = error.chain();
        let (last, all) = (places.last().unwrap(), 0..file.bytes.len() as u64);
        let (range, name) = if alone {
            (last.1.clone(), format!("chunk {}", last.0))
        } else {
            (all, format!("a batch of {} chunks, the first {}", places.len(), places[0].0))
        };
        assert_eq!((error.kind(), error.range()), (ErrorKind::NoAccess, Some(range)), "{chain}");
        assert_eq!(error.target(), file.path.display().to_string(), "{chain}");
        assert!(chain.contains(&name), "{chain}");
    }
}

/// If bytes have changed, the error names the chunk that they are in.
#[tokio::test]
async fn a_change_found_in_a_chunk_is_reported_with_its_range() {
    for chunking in [small(), large()] {
        let file = File::random(1 << 20, 72);
        let (changed, place) = places(&file, &chunking).swap_remove(3);
        let (path, at) = (file.path.clone(), place.start + 5);
        let mut is_due = true;
        let store = FakeStore::scripted(profile(&[chunking]), move |call, _| {
            if matches!(call, Call::Missing(_)) && std::mem::take(&mut is_due) {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                let modified = file.metadata().unwrap().modified().unwrap();
                file.write_all_at(b"other", at).unwrap();
                file.set_modified(modified).unwrap();
            }
            Reply::Go
        });
        let error = run(&store, &file.path, &options()).await.unwrap_err();
        let chain = error.chain();
        assert_eq!((error.kind(), error.range()), (ErrorKind::Changed, Some(place)), "{chain}");
        assert!(error.hint().unwrap().contains("upload it again"), "{chain}");
        assert!(!store.blobs().contains_key(&changed));
    }
}
