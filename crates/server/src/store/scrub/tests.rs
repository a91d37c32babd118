//! The scrub finds each flipped byte, and nothing else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_core::digest::{Digest, DigestFunction};

use super::*;
use crate::store::blobs::Blobs;
use crate::store::disk::RealDisk;
use crate::store::options::StoreOptions;

fn open(folder: &TempDir) -> Arc<Core> {
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    Arc::new(Core::open(disk, StoreOptions::new(512 << 20), 1_000_000).unwrap())
}

/// 100 records and a file of 300,000 bytes and one of 3 MB.
fn filled() -> (Arc<Core>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let core = open(&folder);
    let blobs = Blobs::new(Arc::clone(&core));
    for len in (1000..1100).chain([300_000, 3_000_000]) {
        let bytes: Vec<u8> = (0_u32..len).map(|at| (at ^ len).to_le_bytes()[0]).collect();
        let digest = Digest::of(DigestFunction::Sha256, &bytes);
        let mut incoming = blobs.receive(&digest);
        incoming.write(&bytes).unwrap();
        incoming.finish().unwrap();
    }
    (core, folder)
}

fn scrub(core: &Arc<Core>, repair: Repair, bytes_max: u64) -> ScrubCounts {
    let mut scrubber = Scrubber::new(core, repair);
    while !scrubber.step(bytes_max).unwrap() {}
    scrubber.counts()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_store_has_no_damage() {
    let (core, _folder) = filled();
    for bytes_max in [1, 100_000, u64::MAX] {
        let counts = scrub(&core, Repair::Nothing, bytes_max);
        assert_eq!((counts.values, counts.damaged), (102, 0));
        assert!(counts.bytes > 3_400_000, "{counts:?}");
    }
}

#[test]
fn damage_is_counted_and_dropped_once() {
    let (core, folder) = filled();
    let stored = files(&folder.path().join("files"));
    assert_eq!(stored.len(), 2);
    flip(&stored[0], 200_000);
    let pack = files(&folder.path().join("packs")).remove(0);
    let bytes = std::fs::read(&pack).unwrap();
    // A byte of the payload of the first record: the header, the key and the CRC precede it.
    assert!(bytes.len() > 1000);
    flip(&pack, 500);
    for _ in 0..2 {
        let counts = scrub(&core, Repair::Nothing, 10_000);
        assert_eq!((counts.values, counts.damaged), (102, 2));
    }
    assert_eq!(scrub(&core, Repair::Drop, 10_000).damaged, 2);
    let counts = scrub(&core, Repair::Drop, 10_000);
    assert_eq!((counts.values, counts.damaged), (100, 0));
}

#[test]
fn a_check_changes_nothing_and_needs_the_store_alone() {
    let (core, folder) = filled();
    core.sync().unwrap();
    core.checkpoint().unwrap();
    drop(core);
    let check = |path: &Path| -> tidegate::Result<StoreCheckReport> {
        let mut check = StoreCheck::open(path)?;
        loop {
            let (report, is_done) = check.step()?;
            if is_done {
                return Ok(report);
            }
        }
    };
    assert_eq!(check(folder.path()).unwrap().damaged, 0);
    flip(&files(&folder.path().join("files"))[1], 100);
    for _ in 0..2 {
        let report = check(folder.path()).unwrap();
        assert_eq!((report.values, report.damaged), (102, 1));
    }
    let segment = folder.path().join("index/segment-0000000000000001");
    flip(&segment, 3);
    let report = check(folder.path()).unwrap();
    assert_eq!((report.damaged_shards, report.values < 102), (1, true));
    let held = StoreCheck::open(folder.path()).unwrap();
    let second = StoreCheck::open(folder.path()).unwrap_err();
    assert!(second.to_string().contains("in use"), "{second}");
    drop(held);
    let other = tempfile::tempdir().unwrap();
    let absent = StoreCheck::open(other.path()).unwrap_err();
    assert_eq!(absent.kind(), tidegate::ErrorKind::NotFound);
    assert_eq!(files(other.path()).len(), 0);
}
