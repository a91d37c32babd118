//! The limit holds while far more than it is written.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tidegate_server::store::{Content, Key, Op, RealDisk, Space, Store, StoreError, StoreOptions};

const LIMIT: u64 = 64 << 20;

/// The bytes that a folder takes.
fn taken(folder: &Path) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The maintainer removes files meanwhile.
        let Ok(metadata) = path.metadata() else { continue };
        bytes += if metadata.is_dir() { taken(&path) } else { metadata.blocks() * 512 };
    }
    bytes
}

fn put(store: &Store, number: u64) -> Result<(), StoreError> {
    let mut random = Rng::with_seed(number);
    let is_file = random.u8(..) < 10;
    let len = if is_file { random.usize(70_000..900_000) } else { random.usize(1..9000) };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    let content = if is_file {
        let mut staged = store.core().stage(None)?;
        for piece in bytes.chunks(100_000) {
            store.write_staged(&mut staged, piece)?;
        }
        Content::File(staged)
    } else {
        Content::Bytes(Bytes::from(bytes))
    };
    let key = Key::new(Space::Value, &number.to_le_bytes()).unwrap();
    store.commit_blocking(vec![Op::Put { key, form: 0, size: len as u64, content }]).pop().unwrap()
}

#[test]
fn three_times_the_limit_fits_into_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::new(LIMIT);
    options.min_age = Duration::ZERO;
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    let store = Store::open(disk, options).unwrap();
    let mut number = 0;
    while store.core().counts().value_bytes_written < 3 * LIMIT {
        number += 1;
        put(&store, number).unwrap();
        if number.is_multiple_of(64) {
            let taken = taken(folder.path());
            assert!(taken <= LIMIT / 20 * 21, "{taken} bytes after {number} values");
        }
    }
    let last = Key::new(Space::Value, &number.to_le_bytes()).unwrap();
    assert!(store.core().get(&last).unwrap().is_some(), "the newest value is there");
    let first = Key::new(Space::Value, &1_u64.to_le_bytes()).unwrap();
    assert!(store.core().get(&first).unwrap().is_none(), "the oldest value is gone");
}

/// One call may hand over more than the free packs of a small store hold.
#[test]
fn operations_of_more_bytes_than_are_free_are_committed() {
    const VALUES: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::new(LIMIT);
    options.min_age = Duration::ZERO;
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    let store = Store::open(disk, options).unwrap();
    for round in 0..20 {
        let op = |number: u64| {
            let key = Key::new(Space::Value, &number.to_le_bytes()).unwrap();
            Op::Put { key, form: 0, size: 4096, content: Content::Bytes(vec![7; 4096].into()) }
        };
        let ops = (round * VALUES..(round + 1) * VALUES).map(op).collect();
        for (number, result) in store.commit_blocking(ops).into_iter().enumerate() {
            result.unwrap_or_else(|error| panic!("value {number} of round {round}: {error}"));
        }
    }
}

/// Uploads that never end take half of the store at most, and evict no more than that.
#[test]
fn partial_uploads_are_capped() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::new(LIMIT);
    options.min_age = Duration::ZERO;
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    let store = Store::open(disk, options).unwrap();
    let mut number = 0;
    while store.core().counts().value_bytes_written < LIMIT / 4 {
        number += 1;
        put(&store, number).unwrap();
    }
    let piece = vec![7; 1 << 20];
    let mut uploads = Vec::new();
    let refusal = loop {
        let mut upload = store.core().stage(None).unwrap();
        // Each upload stops for ever after 4 MiB.
        let written = (0..4).try_for_each(|_| store.write_staged(&mut upload, &piece));
        uploads.push(upload);
        if let Err(error) = written {
            break error;
        }
    };
    assert!(matches!(refusal, StoreError::Full { .. }), "{refusal}");
    assert_eq!(uploads.len(), 9, "eight of 4 MiB fit into the half");
    for number in 1..=number {
        let key = Key::new(Space::Value, &number.to_le_bytes()).unwrap();
        assert!(store.core().get(&key).unwrap().is_some(), "value {number} was evicted");
    }
    drop(uploads);
    let mut large = store.core().stage(None).unwrap();
    let too_large = (0..33).try_for_each(|_| store.write_staged(&mut large, &piece));
    assert!(matches!(too_large, Err(StoreError::TooLarge { .. })), "{too_large:?}");
}

#[test]
fn young_values_are_kept_and_writes_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    let store = Store::open(disk, StoreOptions::new(8 << 20)).unwrap();
    let refused = (0..100_000).find(|number| match put(&store, *number) {
        Ok(()) => false,
        Err(StoreError::Full { .. }) => true,
        Err(error) => panic!("{error}"),
    });
    for number in 0..refused.unwrap() {
        let key = Key::new(Space::Value, &number.to_le_bytes()).unwrap();
        assert!(store.core().get(&key).unwrap().is_some(), "value {number} of {refused:?} is gone");
    }
}
