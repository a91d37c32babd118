//! Two blobs are compared without a transfer.

use std::path::PathBuf;

use tempfile::TempDir;
use tidegate::remote::RemoteOptions;
use tidegate::{
    CancellationToken, Checksum, Client, ClientOptions, Comparison, Difference, ErrorKind,
    Location, StateFolder, Unchanged, Unverified,
};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_testkit::{
    Blob, Checksums, Flavour, PartsAlgorithm, Server, ServerOptions, pseudo_random,
};

const LEN: usize = 300_000;

/// A server with the blob `/b/k`, and a folder with files.
struct Pair {
    server: Server,
    client: Client,
    folder: TempDir,
}

impl Pair {
    async fn new(flavour: Flavour, blob: Blob) -> Self {
        let server = Server::start(ServerOptions::of(flavour)).await.unwrap();
        server.put("/b/k", blob);
        let folder = tempfile::tempdir().unwrap();
        let remote = RemoteOptions {
            endpoint: Some(server.endpoint()),
            anonymous: true,
            ..RemoteOptions::default()
        };
        let state = StateFolder::at(folder.path().join("state"));
        let client = Client::new(ClientOptions::default().remote(remote).state(state));
        Self { server, client, folder }
    }

    fn remote(&self, flavour: Flavour) -> Location {
        match flavour {
            Flavour::Gcs => self.client.locate("gs://b/k").unwrap(),
            Flavour::S3 => self.client.locate("s3://b/k").unwrap(),
            _ => self.client.locate(&self.server.url("/b/k")).unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Location {
        std::fs::write(self.path(name), bytes).unwrap();
        self.client.locate(self.path(name).to_str().unwrap()).unwrap()
    }

    /// The bytes of blobs that were sent.
    fn sent(&self) -> u64 {
        self.server.log().iter().map(|logged| logged.bytes_sent).sum()
    }
}

fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[LEN / 2] ^= 1;
    bytes
}

/// What a comparison found, in a word.
fn found(comparison: &Comparison) -> &'static str {
    match comparison {
        Comparison::Same(_) => "same",
        Comparison::Different(Difference::Length { .. }) => "length",
        Comparison::Different(_) => "checksum",
        _ => "unknown",
    }
}

#[tokio::test]
async fn a_file_is_compared_with_the_checksums_of_a_remote() {
    let bytes = pseudo_random(LEN, 7);
    let blob = Blob::new(bytes.clone());
    let pair = Pair::new(Flavour::Gcs, blob).await;
    let remote = pair.remote(Flavour::Gcs);
    for (content, expected) in [
        (bytes.to_vec(), "same"),
        (flipped(&bytes), "checksum"),
        (bytes[1..].to_vec(), "length"),
        (Vec::new(), "length"),
    ] {
        let file = pair.file("copy", &content);
        assert_eq!(found(&pair.client.compare(&remote, &file).await.unwrap()), expected);
        assert_eq!(found(&pair.client.compare(&file, &remote).await.unwrap()), expected);
    }
    assert_eq!(pair.sent(), 0, "no byte of the blob is sent");
}

#[tokio::test]
async fn composite_checksums_are_compared_by_parts() {
    let bytes = pseudo_random(LEN, 7);
    let layouts: [&[u64]; 4] = [
        &[70_000, 70_000, 70_000, 70_000, 20_000],
        &[LEN as u64],
        &[100_000, 200_000],
        // Parts that only look like equal ones.
        &[100_000, 50_000, 150_000],
    ];
    for sizes in layouts {
        for algorithm in [PartsAlgorithm::Crc32c, PartsAlgorithm::Sha256] {
            let blob = Blob::new(bytes.clone()).with_checksums(Checksums::Correct);
            let blob = blob.with_parts(sizes, algorithm).unwrap();
            let pair = Pair::new(Flavour::S3, blob).await;
            let remote = pair.remote(Flavour::S3);
            let compare = async |name: &str, bytes: &[u8]| {
                pair.client.compare(&remote, &pair.file(name, bytes)).await.unwrap()
            };
            let same = compare("same", &bytes).await;
            let Comparison::Same(verified) = same else { panic!("{sizes:?} {same:?}") };
            let parts = verified.parts_checksum().map(|parts| parts.parts as usize);
            assert_eq!(parts, Some(sizes.len()), "{sizes:?}");
            assert_eq!(found(&compare("other", &flipped(&bytes)).await), "checksum", "{sizes:?}");
            assert_eq!(pair.sent(), 0);
            // The same for a copy that has no record of its version.
            let cancel = CancellationToken::new();
            let unchanged =
                async |name| pair.client.unchanged(&remote, pair.path(name), &cancel).await;
            let by = unchanged("same").await.unwrap();
            assert!(matches!(by, Some(Unchanged::Checksum(_))), "{sizes:?} {by:?}");
            assert_eq!(unchanged("other").await.unwrap(), None, "{sizes:?}");
        }
    }
}

#[tokio::test]
async fn without_a_checksum_of_both_nothing_is_claimed() {
    let bytes = pseudo_random(LEN, 7);
    let blob = Blob::new(bytes.clone()).with_checksums(Checksums::None);
    let pair = Pair::new(Flavour::Http, blob).await;
    let (remote, file) = (pair.remote(Flavour::Http), pair.file("copy", &bytes));
    let compared = pair.client.compare(&file, &remote).await.unwrap();
    // The server's tags look like MD5s, and are none.
    assert_eq!(compared, Comparison::Unknown(Unverified::EntityTagDiffers));
    let compared = pair.client.compare(&remote, &remote).await.unwrap();
    assert_eq!(compared, Comparison::Unknown(Unverified::NoSharedChecksum));
    let short = pair.file("short", &bytes[1..]);
    assert_eq!(found(&pair.client.compare(&short, &remote).await.unwrap()), "length");
}

#[tokio::test]
async fn two_remotes_and_two_files_are_compared() {
    let bytes = pseudo_random(LEN, 7);
    let pair = Pair::new(Flavour::Gcs, Blob::new(bytes.clone())).await;
    pair.server.put("/b/same", Blob::new(bytes.clone()));
    pair.server.put("/b/other", Blob::new(flipped(&bytes)));
    let remote = |name: &str| pair.client.locate(&format!("gs://b/{name}")).unwrap();
    let client = &pair.client;
    assert_eq!(found(&client.compare(&remote("k"), &remote("same")).await.unwrap()), "same");
    assert_eq!(found(&client.compare(&remote("k"), &remote("other")).await.unwrap()), "checksum");
    let error = client.compare(&remote("k"), &remote("none")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let (one, two) = (pair.file("one", &bytes), pair.file("two", &bytes));
    let three = pair.file("three", &flipped(&bytes));
    assert_eq!(found(&client.compare(&one, &two).await.unwrap()), "same");
    assert_eq!(found(&client.compare(&one, &three).await.unwrap()), "checksum");
    assert_eq!(pair.sent(), 0, "no byte of a blob is sent");
}

#[tokio::test]
async fn a_blob_is_compared_with_given_checksums() {
    let bytes = pseudo_random(LEN, 7);
    let pair = Pair::new(Flavour::Gcs, Blob::new(bytes.clone())).await;
    let sum = |algorithm, bytes: &[u8]| Checksummer::of(algorithm, bytes).unwrap();
    let (sha256, crc32c) = (ChecksumAlgorithm::Sha256, ChecksumAlgorithm::Crc32c);
    let (file, remote) = (pair.file("copy", &bytes), pair.remote(Flavour::Gcs));
    let with = async |blob: &Location, expected: Vec<Checksum>| {
        found(&pair.client.compare_with(blob, expected).await.unwrap())
    };
    assert_eq!(with(&file, vec![sum(sha256, &bytes)]).await, "same");
    assert_eq!(with(&file, vec![sum(sha256, b"other")]).await, "checksum");
    // One that matches does not make up for one that does not.
    let both = vec![sum(crc32c, &bytes), sum(sha256, b"other")];
    assert_eq!(with(&file, both).await, "checksum");
    assert_eq!(with(&remote, vec![sum(crc32c, &bytes)]).await, "same");
    assert_eq!(with(&remote, vec![sum(crc32c, b"other")]).await, "checksum");
    assert_eq!(with(&remote, vec![sum(sha256, &bytes)]).await, "unknown");
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error() {
    let pair = Pair::new(Flavour::Gcs, Blob::new(pseudo_random(LEN, 7))).await;
    let remote = pair.remote(Flavour::Gcs);
    let at = |path: &str| pair.client.locate(path).unwrap();
    let kind = async |path: &str| pair.client.compare(&remote, &at(path)).await.unwrap_err().kind();
    assert_eq!(kind(pair.path("none").to_str().unwrap()).await, ErrorKind::NotFound);
    assert_eq!(kind("/dev/null").await, ErrorKind::Unsupported);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let file = pair.file("copy", b"x");
    let error = pair.client.compare(&remote, &file).cancel(cancel).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
