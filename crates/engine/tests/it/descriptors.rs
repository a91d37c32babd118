//! More downloads at once than the process may have open files. Each download waits for a
//! descriptor.
//!
//! The limit applies to a process, so these tests run in a child: this program again, with one
//! test.

use std::process::Command;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate::remote::RemoteOptions;
use tidegate::{Progress, Target};
use tidegate_core::{ChecksumAlgorithm, Checksummer};
use tidegate_testkit::ServerOptions;
use tokio::task::JoinSet;

use crate::bed::Bed;
use crate::call::{DownloadOptions, client_of, download};
use crate::trial::within;

/// Downloads at once in a child that is limited to `DESCRIPTORS` descriptors.
const DOWNLOADS: usize = 400;
const DESCRIPTORS: u64 = 128;

const LEN: usize = 50_000;

/// The variable that gives a child its URL.
const URL: &str = "TIDEGATE_TEST_URL";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_that_exceed_the_limit_wait_and_succeed() {
    let bed = Bed::new(ServerOptions::default(), LEN).await;
    let url = bed.server.url(bed.path());
    let child = tokio::task::spawn_blocking(move || {
        let program = std::env::current_exe().unwrap();
        let test = ["descriptors::in_a_child", "--exact", "--nocapture"];
        Command::new(program).args(test).env(URL, url).output().unwrap()
    });
    let output = within(child).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    assert!(bed.server.requests() >= DOWNLOADS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child() {
    let Ok(url) = std::env::var(URL) else { return };
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum }).unwrap();
    let location = client_of(RemoteOptions::default()).locate(&url).unwrap();
    let expected = tidegate_testkit::pseudo_random(LEN, 7);
    let mut hash = Checksummer::new(ChecksumAlgorithm::Sha256).unwrap();
    hash.update(&expected);
    let hash = hash.finish();
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let options = DownloadOptions::default();
    let mut downloads = JoinSet::new();
    for index in 0..DOWNLOADS {
        let (location, folder) = (location.clone(), Arc::clone(&folder));
        let progress = Arc::new(Progress::default());
        // Some downloads hash on a thread of their own, and need one more descriptor.
        let checksums = if index % 2 == 0 { vec![hash.clone()] } else { Vec::new() };
        let options = DownloadOptions { progress, expected: checksums, ..options.clone() };
        downloads.spawn(async move {
            let path = folder.path().join(index.to_string());
            download(&location, Target::File(path), &options).await.map(drop)
        });
    }
    while let Some(done) = downloads.join_next().await {
        done.unwrap().unwrap();
    }
    for index in 0..DOWNLOADS {
        assert!(std::fs::read(folder.path().join(index.to_string())).unwrap() == expected);
    }
}
