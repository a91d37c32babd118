//! A server without blobs, and a client that uploads to it.

use std::path::PathBuf;

use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::{
    Budget, BudgetOptions, Client, ClientOptions, Location, RetryPolicy, StateFolder,
    UploadBuilder, UploadSource,
};
use tidegate_testkit::{
    Flavour, Logged, Server, ServerOptions, Stored, WriteOptions, pseudo_random,
};

/// The shortest part of S3, so that a few parts are not too many bytes.
pub(crate) const PART: usize = 5 << 20;

/// The length of a blob of three parts.
pub(crate) const LEN: usize = 2 * PART + 12_345;

/// See the module docs.
pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) folder: tempfile::TempDir,
    flavour: Flavour,
    trusts: bool,
}

impl Bed {
    pub(crate) async fn new(flavour: Flavour) -> Self {
        Self::with(flavour, WriteOptions::default()).await
    }

    pub(crate) async fn with(flavour: Flavour, writes: WriteOptions) -> Self {
        let options = ServerOptions { writes, ..ServerOptions::of(flavour) };
        let server = Server::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let client = client(&server, flavour, &folder);
        Self { server, client, folder, flavour, trusts: false }
    }

    /// Another process: nothing is shared but the folder of journals.
    pub(crate) fn another_client(&self) -> Client {
        let trusts = self.trusts;
        client_with(&self.server, self.flavour, &self.folder, |options| {
            options.trust_conditions = trusts;
        })
    }

    /// The same with a client that trusts the server to keep conditions, so that the only requests
    /// are those of the upload.
    pub(crate) fn trusting(self) -> Self {
        let bed = self.with_remote(|options| options.trust_conditions = true);
        Self { trusts: true, ..bed }
    }

    /// The same with a client whose remotes have other options.
    pub(crate) fn with_remote(self, change: impl FnOnce(&mut RemoteOptions)) -> Self {
        let client = client_with(&self.server, self.flavour, &self.folder, change);
        Self { client, ..self }
    }

    pub(crate) fn path(&self) -> &'static str {
        match self.flavour {
            Flavour::Azure => "/account/bucket/a/blob.bin",
            _ => "/bucket/a/blob.bin",
        }
    }

    pub(crate) fn target(&self) -> Location {
        self.target_of(&self.client)
    }

    pub(crate) fn target_of(&self, client: &Client) -> Location {
        let url = match self.flavour {
            Flavour::Gcs => "gs://bucket/a/blob.bin".to_owned(),
            Flavour::S3 => "s3://bucket/a/blob.bin".to_owned(),
            Flavour::Azure => "az://bucket/a/blob.bin".to_owned(),
            Flavour::Http => self.server.url(self.path()),
        };
        client.locate(&url).unwrap()
    }

    /// A file with these bytes.
    pub(crate) fn file(&self, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join("source.bin");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// An upload in parts of the shortest length.
    pub(crate) fn upload(&self, source: impl Into<UploadSource>) -> UploadBuilder {
        self.client.upload(source, &self.target()).part_bytes(PART as u64).window(2)
    }

    pub(crate) fn stored(&self) -> Option<Stored> {
        self.server.object(self.path())
    }

    /// Asserts that exactly these bytes are stored, and that nothing else is left.
    #[track_caller]
    pub(crate) fn has(&self, bytes: &[u8]) {
        let stored = self.stored().expect("the blob is there");
        assert!(stored.bytes.as_deref() == Some(bytes), "the stored bytes differ");
        assert_eq!(self.server.unfinished_uploads(), [], "uploads are left");
    }

    /// Asserts that nothing is stored under the name.
    #[track_caller]
    pub(crate) fn has_none(&self) {
        assert!(self.stored().is_none(), "a blob is there");
    }

    /// The requests with this method whose query has this text.
    pub(crate) fn requests(&self, method: &str, query: &str) -> Vec<Logged> {
        let log = self.server.log().into_iter();
        log.filter(|seen| seen.method == method && seen.query().contains(query)).collect()
    }
}

fn client(server: &Server, flavour: Flavour, folder: &tempfile::TempDir) -> Client {
    client_with(server, flavour, folder, |_| ())
}

fn client_with(
    server: &Server,
    flavour: Flavour,
    folder: &tempfile::TempDir,
    change: impl FnOnce(&mut RemoteOptions),
) -> Client {
    let endpoint = match flavour {
        Flavour::Azure => format!("{}/account", server.endpoint()),
        _ => server.endpoint(),
    };
    let mut remote =
        RemoteOptions { endpoint: Some(endpoint), anonymous: true, ..RemoteOptions::default() };
    change(&mut remote);
    let retry = RetryPolicy {
        delay_ms_min: 1,
        delay_ms_max: 5,
        attempts_max: 4,
        seed: Some(1),
        ..RetryPolicy::default()
    };
    let options = ClientOptions::default()
        .remote(remote)
        .budget(Budget::new(BudgetOptions { requests: 8, bytes: 32 << 20 }))
        .retry(retry)
        .state(StateFolder::at(folder.path().join("state")));
    Client::new(options)
}

pub(crate) fn noise(len: usize) -> Bytes {
    pseudo_random(len, 11)
}
