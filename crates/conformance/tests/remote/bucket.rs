//! A bucket of the testkit's servers as a place for blobs.

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::{Client, ClientOptions, Location};
use tidegate_conformance::remote::Place;
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions, WriteOptions};

/// An empty bucket of a server of its own.
pub(crate) struct Bucket {
    pub(crate) server: Server,
    client: Client,
    flavour: Flavour,
}

impl Bucket {
    pub(crate) async fn start(flavour: Flavour, writes: WriteOptions) -> Self {
        let options = ServerOptions { writes, ..ServerOptions::of(flavour) };
        let server = Server::start(options).await.unwrap();
        let endpoint = match flavour {
            Flavour::Azure => format!("{}/account", server.endpoint()),
            _ => server.endpoint(),
        };
        let options =
            RemoteOptions { endpoint: Some(endpoint), anonymous: true, ..RemoteOptions::default() };
        let client = Client::new(ClientOptions::default().remote(options));
        Self { server, client, flavour }
    }

    fn path(&self, name: &str) -> String {
        let account = if self.flavour == Flavour::Azure { "/account" } else { "" };
        format!("{account}/bucket/{name}")
    }
}

#[async_trait]
impl Place for Bucket {
    fn at(&self, name: &str) -> Location {
        let url = match self.flavour {
            Flavour::Gcs => format!("gs://bucket/{name}"),
            Flavour::S3 => format!("s3://bucket/{name}"),
            Flavour::Azure => format!("az://bucket/{name}"),
            Flavour::Http => self.server.url(&self.path(name)),
        };
        self.client.locate_target(&url).unwrap()
    }

    async fn put(&self, name: &str, bytes: Bytes) {
        self.server.put(&self.path(name), Blob::new(bytes));
    }

    async fn get(&self, name: &str) -> Option<Bytes> {
        self.server.object(&self.path(name)).and_then(|stored| stored.bytes)
    }

    async fn leftovers(&self) -> Vec<String> {
        self.server.unfinished_uploads().into_iter().map(|(path, _id)| path).collect()
    }
}
