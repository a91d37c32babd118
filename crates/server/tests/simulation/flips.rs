//! Bytes of every file flipped: a miss, never wrong bytes, never a crash.

use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use tidegate_server::store::{
    Content, Core, Op, SimulatedDisk, StoreError, StoreOptions, ValueContent,
};

use super::run::{bytes_of, content, key_of};

/// The values, from the middle of the keys: half are blobs.
const VALUES: std::ops::Range<u32> = 970..1030;
/// One damaged byte costs a value, or a shard of a snapshot.
const MISSES_MAX: usize = 6;

fn options() -> StoreOptions {
    let mut options = StoreOptions::new(4 << 20);
    options.inline_bytes_max = 400;
    options.pack_bytes = Some(16 << 10);
    options.salt = Some([7; 32]);
    options
}

fn version(key: u32) -> u32 {
    u32::from(key >= 1000)
}

fn filled() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1, 8 << 20);
    let core = Core::open(Arc::new(disk.clone()), options(), 1000).unwrap();
    for (count, key) in VALUES.enumerate() {
        let bytes = content(key, version(key));
        let size = bytes.len() as u64;
        let content = if bytes.len() <= 400 {
            Content::Bytes(bytes)
        } else {
            let mut staged = core.stage(None).unwrap();
            staged.write(&bytes).unwrap();
            Content::File(staged)
        };
        let op = Op::Put { key: key_of(key), form: 3, size, content };
        core.commit(vec![op]).pop().unwrap().unwrap();
        if count == 25 || count == 40 {
            core.checkpoint().unwrap();
        }
    }
    core.sync().unwrap();
    disk
}

fn read(core: &Core, key: u32) -> Option<Bytes> {
    match core.get(&key_of(key)).and_then(|value| value.map(bytes_of).transpose()) {
        Ok(bytes) => bytes,
        Err(StoreError::Damaged) => None,
        Err(error) => panic!("{error}"),
    }
}

/// After the sweep, each file belongs to a value that can be read.
fn no_file_is_left(disk: &SimulatedDisk, core: &Core, flipped: &str) {
    core.checkpoint().unwrap();
    if core.needs_sweep() {
        core.sweep().unwrap();
    }
    core.sync().unwrap();
    while core.maintain().unwrap() {}
    let files = disk.paths().iter().filter(|path| path.starts_with("files/")).count();
    let is_file = |key: &u32| content(*key, version(*key)).len() > 400;
    let values = VALUES.filter(is_file).filter(|key| core.contains(&key_of(*key))).count();
    assert_eq!(files, values, "{flipped}: files that belong to no value");
}

#[test]
fn every_flipped_byte_is_a_miss() {
    let disk = filled();
    let mut random = Rng::with_seed(3);
    let mut flips = 0;
    for path in disk.paths() {
        let len = disk.file_len(&path);
        for offset in 0..len {
            let copy = disk.fork();
            copy.flip(&path, offset, 1 << random.u32(0..8));
            let disk = copy.clone();
            let core = Core::open(Arc::new(copy), options(), 2000).unwrap();
            let mut misses = 0;
            for key in VALUES {
                match read(&core, key) {
                    Some(bytes) => {
                        assert_eq!(bytes, content(key, version(key)), "{path} at {offset}");
                    }
                    None => misses += 1,
                }
            }
            assert!(misses <= MISSES_MAX, "{path} at {offset}: {misses} values are missing");
            no_file_is_left(&disk, &core, &format!("{path} at {offset}"));
            flips += 1;
        }
    }
    assert!(flips > 100, "only {flips} bytes were flipped");
}
#[test]
fn a_damaged_value_can_be_put_again() {
    let disk = filled();
    let core = Core::open(Arc::new(disk.clone()), options(), 2000).unwrap();
    let files = disk.paths().into_iter().filter(|path| path.starts_with("files/"));
    for path in files {
        disk.flip(&path, 0, 1);
    }
    let lost: Vec<u32> = VALUES.filter(|key| content(*key, version(*key)).len() > 400).collect();
    assert!(!lost.is_empty());
    for key in lost {
        let value = core.get(&key_of(key)).unwrap().unwrap();
        let ValueContent::File(file) = value.content else { panic!("expected a file") };
        assert!(matches!(file.read(0, 10), Err(StoreError::Damaged)));
        core.note_damaged(&key_of(key));
        assert!(!core.contains(&key_of(key)));
        let bytes = content(key, version(key));
        let mut staged = core.stage(None).unwrap();
        staged.write(&bytes).unwrap();
        let (size, content) = (bytes.len() as u64, Content::File(staged));
        let op = Op::Put { key: key_of(key), form: 3, size, content };
        core.commit(vec![op]).pop().unwrap().unwrap();
        assert_eq!(read(&core, key), Some(bytes));
    }
}
