//! A file that changes during an upload.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::ErrorKind;
use tidegate_core::chunking::Chunking;

use super::bed::{File, large, options, run, small, until};
use super::store::{Call, FakeStore, Reply, profile};

#[derive(Clone, Copy, Debug)]
enum Change {
    Truncated,
    Grown,
    Rewritten,
    /// Also resets the modification time, as a write through a memory map may leave it.
    RewrittenUnseen,
}

const CHANGES: [Change; 4] =
    [Change::Truncated, Change::Grown, Change::Rewritten, Change::RewrittenUnseen];

fn change(path: &PathBuf, change: Change) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let metadata = file.metadata().unwrap();
    match change {
        Change::Truncated => file.set_len(10).unwrap(),
        Change::Grown => file.set_len(metadata.len() + 1).unwrap(),
        Change::Rewritten | Change::RewrittenUnseen => {
            let other = vec![9; usize::try_from(metadata.len()).unwrap()];
            file.write_all_at(&other, 0).unwrap();
        }
    }
    if matches!(change, Change::RewrittenUnseen) {
        file.set_modified(metadata.modified().unwrap()).unwrap();
    }
}

/// A store that changes the file when the first call of the given kind arrives.
fn changing(
    chunkings: &[Chunking],
    path: PathBuf,
    how: Change,
    when: fn(&Call) -> bool,
) -> Arc<FakeStore> {
    let mut is_due = true;
    FakeStore::scripted(profile(chunkings), move |call, _| {
        if when(call) && std::mem::take(&mut is_due) {
            change(&path, how);
        }
        Reply::Go
    })
}

#[tokio::test]
async fn a_change_before_chunks_are_read_again_is_found() {
    for how in CHANGES {
        let ways = [vec![small()], vec![large()], vec![]];
        for (chunkings, believes) in ways.iter().flat_map(|way| [(way, false), (way, true)]) {
            let file = File::random(1 << 20, 30);
            let is_ask: fn(&Call) -> bool = |call| matches!(call, Call::Missing(_));
            let store = changing(chunkings, file.path.clone(), how, is_ask);
            if believes {
                store.believe();
            }
            let error = run(&store, &file.path, &options()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Changed, "{how:?} {chunkings:?} {error}");
            assert_eq!(error.target(), file.path.display().to_string());
            assert!(error.hint().unwrap().contains("upload it again"), "{:?}", error.hint());
            assert_eq!(store.registers(), 0);
            assert!(!store.blobs().contains_key(&file.digest()));
        }
    }
}

#[tokio::test]
async fn a_change_after_the_last_chunk_was_put_is_found_before_it_is_registered() {
    for how in [Change::Truncated, Change::Grown, Change::Rewritten] {
        let file = File::random(20_000, 31);
        let is_put: fn(&Call) -> bool = |call| matches!(call, Call::PutBatch(_));
        let store = changing(&[small()], file.path.clone(), how, is_put);
        let error = run(&store, &file.path, &options()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{how:?} {error}");
        let says_lengths = error.to_string().contains("20000 bytes");
        assert_eq!(says_lengths, !matches!(how, Change::Rewritten), "{how:?} {error}");
        assert_eq!(store.registers(), 0);
    }
}

/// A write through a memory map to a page that is already dirty moves no file time. Only the store
/// detects it, and the error still gives the cause.
#[tokio::test]
async fn a_change_that_only_the_store_detects_is_reported_as_a_change() {
    let file = File::random(1 << 20, 33);
    let handle = OpenOptions::new().read(true).write(true).open(&file.path).unwrap();
    #[expect(unsafe_code, reason = "a memory map is what is tested")]
    // SAFETY: the file is this test's own, and nothing else maps it.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&handle) }.unwrap();
    map.fill(1);
    map.copy_from_slice(&file.bytes);
    let written = handle.metadata().unwrap().modified().unwrap();
    until(|| written.elapsed().is_ok_and(|age| age > Duration::from_millis(50))).await;
    let mut map = Some(map);
    let store = FakeStore::scripted(profile(&[small()]), move |call, _| {
        if let (Call::Missing(_), Some(mut map)) = (call, map.take()) {
            map.fill(2);
        }
        Reply::Go
    });
    let error = run(&store, &file.path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    assert_eq!(store.registers(), 0);
}

#[tokio::test]
async fn a_change_while_all_chunks_are_there_is_found() {
    let file = File::random(1 << 20, 32);
    let store = changing(&[small()], file.path.clone(), Change::Rewritten, |call| {
        matches!(call, Call::Register { .. })
    });
    // The change comes with the first registration, after the last check, so this upload succeeds.
    run(&store, &file.path, &options()).await.unwrap();
    std::fs::write(&file.path, &file.bytes).unwrap();
    store.blobs().remove(&file.digest());
    let chunks = store.blobs().clone();
    let is_ask: fn(&Call) -> bool = |call| matches!(call, Call::Missing(_));
    let store = changing(&[small()], file.path.clone(), Change::Rewritten, is_ask);
    *store.blobs() = chunks;
    let error = run(&store, &file.path, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    assert_eq!(store.registers(), 0);
}
