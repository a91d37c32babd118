//! A file that is already the blob is recognised with one request, and one that is not is fetched.

use std::path::PathBuf;

use tempfile::TempDir;
use tidegate::remote::RemoteOptions;
use tidegate::{
    CancellationToken, Client, ClientOptions, ErrorKind, StateFolder, Target, Unchanged,
};
use tidegate_core::checksum::ChecksumAlgorithm;
use tidegate_testkit::{Blob, Flavour, ServerOptions, pseudo_random};

use crate::bed::Bed;

const LEN: usize = 300_000;

/// A server, and a file that was downloaded from it. The file is on the disk of the build, because a
/// file system in memory may have no user attributes.
struct Copied {
    bed: Bed,
    client: Client,
    folder: TempDir,
}

impl Copied {
    async fn new(flavour: Flavour) -> Self {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let remote = RemoteOptions {
            endpoint: Some(bed.server.endpoint()),
            anonymous: true,
            ..RemoteOptions::default()
        };
        let state = StateFolder::at(folder.path().join("state"));
        let client = Client::new(ClientOptions::default().remote(remote).state(state));
        let copied = Self { bed, client, folder };
        let location = copied.location();
        copied.client.download(&location, Target::File(copied.path())).await.unwrap();
        copied.bed.server.clear_log();
        copied
    }

    fn location(&self) -> tidegate::Location {
        match self.bed.location().display() {
            url if url.starts_with("gs://") => self.client.locate(url).unwrap(),
            _ => self.client.locate(&self.bed.server.url(self.bed.path())).unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("copy")
    }

    /// Asks, and asserts that no byte of the blob was sent.
    async fn ask(&self) -> Option<Unchanged> {
        let cancel = CancellationToken::new();
        let found = self.client.unchanged(&self.location(), self.path(), &cancel).await.unwrap();
        assert!(!cancel.is_cancelled(), "the caller's token is its own");
        let log = self.bed.server.log();
        assert_eq!(log.len(), 1, "{log:?}");
        assert!(log.iter().all(|logged| logged.bytes_sent == 0), "{log:?}");
        self.bed.server.clear_log();
        found
    }
}

#[tokio::test]
async fn a_copy_is_recognised_by_its_version() {
    for flavour in [Flavour::Http, Flavour::Gcs] {
        let copied = Copied::new(flavour).await;
        assert_eq!(copied.ask().await, Some(Unchanged::Version), "{flavour:?}");
        let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
        copied.bed.server.replace(copied.bed.path(), other);
        assert_eq!(copied.ask().await, None, "{flavour:?}: the blob was replaced");
    }
}

#[tokio::test]
async fn an_edited_copy_is_not_the_blob() {
    for flavour in [Flavour::Http, Flavour::Gcs] {
        let copied = Copied::new(flavour).await;
        let mut bytes = copied.bed.bytes.to_vec();
        bytes[LEN / 2] ^= 1;
        std::fs::write(copied.path(), bytes).unwrap();
        assert_eq!(copied.ask().await, None, "{flavour:?}");
        std::fs::remove_file(copied.path()).unwrap();
        assert_eq!(copied.ask().await, None, "{flavour:?}: there is no file");
    }
}

#[tokio::test]
async fn without_a_record_the_checksum_decides() {
    let copied = Copied::new(Flavour::Gcs).await;
    // A new file has no attribute.
    std::fs::remove_file(copied.path()).unwrap();
    std::fs::write(copied.path(), &copied.bed.bytes).unwrap();
    let by_checksum = Some(Unchanged::Checksum(ChecksumAlgorithm::Md5));
    assert_eq!(copied.ask().await, by_checksum);
    assert_eq!(copied.ask().await, Some(Unchanged::Version), "the first call recorded it");
    // The same bytes under a new version.
    let again = Blob::new(copied.bed.bytes.clone()).with_version(2);
    copied.bed.server.replace(copied.bed.path(), again);
    assert_eq!(copied.ask().await, by_checksum);

    let copied = Copied::new(Flavour::Http).await;
    std::fs::remove_file(copied.path()).unwrap();
    std::fs::write(copied.path(), &copied.bed.bytes).unwrap();
    assert_eq!(copied.ask().await, None, "the server provides no checksum");
}

#[tokio::test]
async fn an_error_of_the_remote_is_an_error() {
    let copied = Copied::new(Flavour::Http).await;
    copied.bed.server.remove(copied.bed.path());
    let (location, cancel) = (copied.location(), CancellationToken::new());
    let asked = copied.client.unchanged(&location, copied.path(), &cancel).await;
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::NotFound);
    cancel.cancel();
    let asked = copied.client.unchanged(&location, copied.path(), &cancel).await;
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::Cancelled);
}
