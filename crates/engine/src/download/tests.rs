//! Tests that need a part file written by hand: a run that was killed when it had every byte, but
//! before the file had its name.

use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use tidegate_core::checksum::{Crc, CrcAlgorithm};
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions, pseudo_random};

use super::*;
use crate::budget::Budget;
use crate::remote::{RemoteOptions, Remotes, Version};
use crate::sink::Mark;
use crate::sink::file::journal::Identity;
use crate::sink::file::{FileTarget, PartFile, StateFolder};

async fn server() -> (Server, Bytes, Location) {
    let server = Server::start(ServerOptions::of(Flavour::Gcs)).await.unwrap();
    let bytes = pseudo_random(300_000, 3);
    server.put("/bucket/blob", Blob::new(bytes.clone()));
    let remotes = Remotes::new(RemoteOptions {
        endpoint: Some(server.endpoint()),
        anonymous: true,
        ..RemoteOptions::default()
    });
    (server, bytes, remotes.locate("gs://bucket/blob").unwrap())
}

fn state(path: &Path) -> StateFolder {
    StateFolder::at(path.with_file_name("state"))
}

/// A complete part file: it holds `bytes`, with marks, for `version`.
fn complete_part(path: &Path, location: &Location, version: Version, bytes: &[u8]) {
    let part = PartFile::open(FileTarget::new(path).unwrap(), &state(path)).unwrap();
    let identity = Identity {
        source: location.display().to_owned(),
        selected: part.selected(location.selection().as_ref()),
        revision: None,
        coding: None,
        version,
        len_bytes: bytes.len() as u64,
        crc: CrcAlgorithm::Crc32c.into(),
    };
    let begun = part.begin(bytes.len() as u64, Some(&identity)).unwrap();
    let mut journal = begun.journal.unwrap();
    part.file.write_all_at(bytes, 0).unwrap();
    for (index, half) in bytes.chunks(bytes.len() / 2).enumerate() {
        let start = (index * (bytes.len() / 2)) as u64;
        let mark = Mark { start, crc: Crc::of(CrcAlgorithm::Crc32c, half) };
        journal.append(&part.file, mark).unwrap();
    }
}

async fn fetch(location: &Location, path: &Path) -> Result<Report> {
    let options = ShardedDownloadOptions {
        state: state(path),
        ..ShardedDownloadOptions::within(Budget::default())
    };
    download(location, Target::File(path.to_path_buf()), &options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_part_file_costs_one_stat() {
    let (server, bytes, location) = server().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("target");
    let version = location.remote.stat(&location.blob).await.unwrap().version.unwrap();
    complete_part(&path, &location, version, &bytes);
    server.clear_log();
    let report = fetch(&location, &path).await.unwrap();
    server.idle().await;
    let asked: Vec<String> = server.log().into_iter().map(|asked| asked.method).collect();
    assert_eq!(asked, ["HEAD"]);
    assert_eq!(report.resumed_bytes, 300_000);
    assert!(report.is_verified());
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_part_file_of_another_version_is_fetched_again() {
    let (_server, bytes, location) = server().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("target");
    let old = pseudo_random(300_000, 4);
    complete_part(&path, &location, Version::Generation("never".to_owned()), &old);
    let report = fetch(&location, &path).await.unwrap();
    assert_eq!((report.resumed_bytes, report.notes.len()), (0, 1));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
