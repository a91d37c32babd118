//! `kill -9` at any instant.
//!
//! The test runs itself as a child process that puts blobs and reports each acknowledged put. The
//! test kills the child after a time that differs from round to round.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::store::{BlobStore as _, FolderStore, PutRequest, PutSource};
use tidegate::{Digest, Result};
use tokio::sync::Notify;

use crate::{files, get, noise, put};

/// The variable that gives the child its folder.
const FOLDER: &str = "TIDEGATE_TEST_STORE";

/// The blobs of a round, with other lengths than in the rounds before. Most puts are in flight for
/// some milliseconds.
fn blob(round: u64, number: u64) -> (Digest, Bytes) {
    let len = if number.is_multiple_of(3) { 3_000_000 } else { 50_000 };
    noise(len, (round << 32) + number)
}

/// The child process: puts blobs until it is killed.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
#[tokio::test]
async fn the_process_that_is_killed() {
    let Ok(parameters) = std::env::var(FOLDER) else { return };
    let (round, folder) = parameters.split_once(' ').unwrap();
    let round = round.parse().unwrap();
    let store = FolderStore::open(folder).await.unwrap();
    for number in 0.. {
        let (digest, bytes) = blob(round, number);
        put(&store, digest, &bytes).await.unwrap();
        println!("put {digest}");
    }
}

#[tokio::test]
async fn a_killed_process_leaves_no_wrong_blob_and_what_it_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::the_process_that_is_killed", "--nocapture"])
            .env(FOLDER, format!("{round} {}", folder.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("put ") {
            assert!(output.read_line(&mut lines).unwrap() > 0, "{lines}");
        }
        std::thread::sleep(Duration::from_millis(7 * round + 1));
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_to_string(&mut lines).unwrap();
        let incoming = folder.path().join(".incoming");
        let store = FolderStore::open(folder.path()).await.unwrap();
        assert_eq!(std::fs::read_dir(&incoming).unwrap().count(), 0);
        // Every file's content matches its name.
        for path in files(folder.path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let digest = Digest::parse(&format!("sha256/{}", name.replace('-', "/"))).unwrap();
            get(&store, &digest).await.unwrap();
        }
        // Every acknowledged blob is there.
        for line in lines.lines().filter(|line| line.ends_with(|last: char| last.is_ascii_digit()))
        {
            let Some((_, name)) = line.split_once("put ") else { continue };
            if let Ok(digest) = Digest::parse(name)
                && [50_000, 3_000_000].contains(&digest.len)
            {
                get(&store, &digest).await.unwrap();
                acknowledged += 1;
            }
        }
    }
    assert!(acknowledged >= 6, "{acknowledged}");
}

/// Pauses in the middle until the test releases it.
#[derive(Debug)]
struct Gated {
    bytes: Bytes,
    reached: Arc<Notify>,
    open: Arc<Notify>,
}

#[async_trait]
impl PutSource for Gated {
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes> {
        if offset > 0 && offset < 300_000 {
            self.reached.notify_one();
            self.open.notified().await;
        }
        self.bytes.read(offset, len_max).await
    }
}

/// A file that is being written is not removed as a leftover.
#[tokio::test]
async fn a_put_under_way_survives_another_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).await.unwrap();
    let (digest, bytes) = noise(400_000, 3);
    let (reached, open) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let source = Gated { bytes, reached: Arc::clone(&reached), open: Arc::clone(&open) };
    let request = PutRequest::new(digest, Arc::new(source));
    let theirs = store.clone();
    let putting = tokio::spawn(async move { theirs.put(&request).await });
    reached.notified().await;
    std::fs::write(folder.path().join(".incoming/left"), b"by a killed process").unwrap();
    let again = FolderStore::open(folder.path()).await.unwrap();
    let left = std::fs::read_dir(folder.path().join(".incoming")).unwrap().count();
    assert_eq!(left, 1, "the file that is being written");
    open.notify_one();
    putting.await.unwrap().unwrap();
    get(&again, &digest).await.unwrap();
}
