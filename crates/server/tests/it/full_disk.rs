//! A disk of 64 MiB that others fill: writes are refused, reads go on, and nothing is lost.
//!
//! The test starts itself again in a mount namespace of its own, with a tmpfs of that size.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use tidegate_server::store::{
    Content, Key, Level, Op, RealDisk, Space, Store, StoreError, StoreOptions, ValueContent,
};

const FOLDER: &str = "TIDEGATE_FULL_DISK_FOLDER";
/// The exit code of the script if the system allows no mount.
const NO_MOUNT: i32 = 77;
const SCRIPT: &str = "mount -t tmpfs -o size=64m tmpfs \"$0\" || exit 77; exec \"$@\"";
/// What the store writes before others fill the disk.
const BYTES_BEFORE: usize = 20 << 20;
const PUTS_WHILE_FULL: u64 = 300;
const PATIENCE: Duration = Duration::from_mins(1);

fn options(level: Level) -> StoreOptions {
    let mut options = StoreOptions::new(1 << 30);
    options.level = level;
    options.pack_bytes = Some(1 << 20);
    options
}

fn key(number: u64) -> Key {
    Key::new(Space::Value, &number.to_le_bytes()).unwrap()
}

fn content(number: u64) -> Bytes {
    let mut random = Rng::with_seed(number);
    let len = if number.is_multiple_of(8) {
        random.usize(66_000..300_000)
    } else {
        random.usize(1..9000)
    };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes.into()
}

fn put(store: &Store, number: u64) -> Result<(), StoreError> {
    let bytes = content(number);
    let size = bytes.len() as u64;
    let content = if bytes.len() > store.core().options().inline_bytes_max {
        let mut staged = store.core().stage(None)?;
        store.write_staged(&mut staged, &bytes)?;
        Content::File(staged)
    } else {
        Content::Bytes(bytes)
    };
    let op = Op::Put { key: key(number), form: 0, size, content };
    store.commit_blocking(vec![op]).pop().unwrap()
}

fn check_all(store: &Store, numbers: &[u64]) {
    for number in numbers {
        let value = store.core().get(&key(*number)).unwrap();
        let bytes = match value.unwrap_or_else(|| panic!("value {number} is gone")).content {
            ValueContent::Bytes(bytes) => bytes,
            ValueContent::File(file) => file.read(0, 1 << 20).unwrap(),
        };
        assert!(bytes == content(*number), "value {number} has other bytes");
    }
}

/// Takes all that is left of the disk.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for piece in [1 << 20, 4096, 1] {
        loop {
            match file.write_all(&vec![7; piece]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn run(folder: &Path, level: Level) {
    let root = folder.join("store");
    fs::create_dir(&root).unwrap();
    let open = || Store::open(Arc::new(RealDisk::open(&root).unwrap()), options(level)).unwrap();
    let store = open();
    let mut done = Vec::new();
    let mut bytes = 0;
    while bytes < BYTES_BEFORE {
        let number = done.len() as u64;
        put(&store, number).unwrap();
        bytes += content(number).len();
        done.push(number);
    }
    let other = folder.join("other");
    fill(&other);
    let mut refused = 0;
    let first = done.len() as u64;
    for number in first..first + PUTS_WHILE_FULL {
        match put(&store, number) {
            // There was space in a pack.
            Ok(()) => done.push(number),
            // The log waits after a failed sync.
            Err(StoreError::DiskFull | StoreError::LogBroken) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > PUTS_WHILE_FULL / 8, "only {refused} puts were refused");
    check_all(&store, &done);
    drop(store);
    // Also a start on a full disk reads.
    let store = open();
    check_all(&store, &done);
    fs::remove_file(&other).unwrap();
    let start = Instant::now();
    let number = first + PUTS_WHILE_FULL;
    while let Err(error) = put(&store, number) {
        assert!(start.elapsed() < PATIENCE, "with space again: {error}");
    }
    done.push(number);
    check_all(&store, &done);
    drop(store);
    check_all(&open(), &done);
    fs::remove_dir_all(&root).unwrap();
}

/// The process in the mount namespace. It does nothing when the test runner calls it.
#[test]
fn on_the_small_disk() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    for level in [Level::Process, Level::Power] {
        run(Path::new(&folder), level);
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "it says why it checked nothing")]
fn a_disk_filled_by_others_refuses_writes_and_reads_on() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "full_disk::on_the_small_disk"])
        .env(FOLDER, folder.path())
        .output();
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => return println!("skipped: unshare does not run here: {error}"),
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if ran.status.code() == Some(NO_MOUNT) || err.contains("unshare failed") {
        return println!("skipped: this system lets no test mount a disk: {err}");
    }
    assert!(ran.status.success() && out.contains("1 passed"), "{out}{err}");
}
