//! The read suite on the testkit's servers, one for each remote behind a network.

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::{Client, ClientOptions, ErrorKind, Location};
use tidegate_conformance::remote::{ReadPlace, Stored, content, read_suite};
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions};

const LENS: [usize; 4] = [0, 1, 1000, 700_001];

/// A server with a blob of each length.
struct Served {
    server: Server,
    client: Client,
    flavour: Flavour,
}

impl Served {
    async fn start(flavour: Flavour) -> Self {
        let server = Server::start(ServerOptions::of(flavour)).await.unwrap();
        let endpoint = match flavour {
            Flavour::Azure => format!("{}/account", server.endpoint()),
            _ => server.endpoint(),
        };
        let options =
            RemoteOptions { endpoint: Some(endpoint), anonymous: true, ..RemoteOptions::default() };
        let client = Client::new(ClientOptions::default().remote(options));
        let place = Self { server, client, flavour };
        for (index, len) in LENS.into_iter().enumerate() {
            let blob = Blob::new(content(len, index as u64)).with_version(1);
            place.server.put(&place.path(len), blob);
        }
        place
    }

    fn path(&self, len: usize) -> String {
        let account = if self.flavour == Flavour::Azure { "/account" } else { "" };
        format!("{account}/bucket/blob-{len}")
    }

    fn locate(&self, len: usize) -> Location {
        let url = match self.flavour {
            Flavour::Gcs => format!("gs://bucket/blob-{len}"),
            Flavour::S3 => format!("s3://bucket/blob-{len}"),
            Flavour::Azure => format!("az://bucket/blob-{len}"),
            Flavour::Http => self.server.url(&self.path(len)),
        };
        self.client.locate(&url).unwrap()
    }
}

#[async_trait]
impl ReadPlace for Served {
    fn blobs(&self) -> Vec<Stored> {
        let blob =
            |(index, len)| Stored { location: self.locate(len), bytes: content(len, index as u64) };
        LENS.into_iter().enumerate().map(blob).collect()
    }

    fn absent(&self) -> Location {
        self.locate(999)
    }

    async fn replace(&self, blob: &Stored, bytes: Bytes) -> bool {
        let path = self.path(blob.bytes.len());
        self.server.replace(&path, Blob::new(bytes).with_version(2));
        true
    }
}

async fn reads(flavour: Flavour) {
    let served = Served::start(flavour).await;
    read_suite(&served).await.assert_kept(&format!("{flavour:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_reads_as_every_remote() {
    reads(Flavour::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gcs_reads_as_every_remote() {
    reads(Flavour::Gcs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_reads_as_every_remote() {
    reads(Flavour::S3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_reads_as_every_remote() {
    reads(Flavour::Azure).await;
}

/// The error names the blob, the scheme and the missing ability.
#[tokio::test]
async fn an_ability_that_is_missing_is_unsupported() {
    let served = Served::start(Flavour::Http).await;
    let at = served.locate(1);
    let error = at.list().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.target(), at.display());
    let text = error.to_string();
    assert!(text.contains("scheme http does not list "), "{text}");
    assert_eq!(served.server.requests(), 0, "no request is sent");
}

/// A location that is pinned to a version cannot be written.
#[tokio::test]
async fn a_pinned_blob_cannot_be_written() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let at = Client::default().locate(file.path().to_str().unwrap()).unwrap();
    at.write().unwrap();
    let version = at.remote.stat(&at.blob).await.unwrap().version.unwrap();
    let error = at.at(version).unwrap().write().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("file pinned to"), "{error}");
}
