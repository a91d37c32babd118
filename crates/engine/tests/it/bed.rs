//! A server with one blob, and a download from it: the starting point of the tests in this program.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::remote::RemoteOptions;
use tidegate::{Location, Report, StateFolder, Target};
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions, pseudo_random};

use crate::call::{DownloadOptions, client_of, download};

/// Shard size of the tests: small, so that blobs can be small.
pub(crate) const SHARD_BYTES: u64 = 64 << 10;

/// A server and the bytes of the blob that it serves.
pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) bytes: Bytes,
    flavour: Flavour,
}

impl Bed {
    pub(crate) async fn new(options: ServerOptions, len: usize) -> Self {
        let bytes = pseudo_random(len, 7);
        let blob = Blob::new(bytes.clone());
        Self::with(options, bytes, blob).await
    }

    /// A server of `blob`. Its downloads are expected to deliver `bytes`.
    pub(crate) async fn with(options: ServerOptions, bytes: Bytes, blob: Blob) -> Self {
        let flavour = options.flavour;
        let server = Server::start(options).await.unwrap();
        let bed = Self { server, bytes, flavour };
        bed.server.put(bed.path(), blob);
        bed
    }

    pub(crate) fn path(&self) -> &'static str {
        match self.flavour {
            Flavour::Azure => "/account/bucket/blob",
            _ => "/bucket/blob",
        }
    }

    pub(crate) fn location(&self) -> Location {
        let endpoint = match self.flavour {
            Flavour::Azure => format!("{}/account", self.server.endpoint()),
            _ => self.server.endpoint(),
        };
        let url = match self.flavour {
            Flavour::Gcs => "gs://bucket/blob".to_owned(),
            Flavour::S3 => "s3://bucket/blob".to_owned(),
            Flavour::Azure => "az://bucket/blob".to_owned(),
            Flavour::Http => self.server.url(self.path()),
        };
        let options =
            RemoteOptions { endpoint: Some(endpoint), anonymous: true, ..RemoteOptions::default() };
        client_of(options).locate(&url).unwrap()
    }

    pub(crate) fn options() -> DownloadOptions {
        DownloadOptions {
            window: Some(4),
            shard_bytes_min: Some(SHARD_BYTES),
            shard_bytes_max: Some(SHARD_BYTES),
            retry: RetryPolicy {
                delay_ms_min: 1,
                delay_ms_max: 5,
                progress_bytes_min: 1024,
                seed: Some(1),
                ..RetryPolicy::default()
            },
            budget: Budget::new(BudgetOptions { requests: 8, bytes: 32 << 20 }),
            state: StateFolder::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/state")),
            ..DownloadOptions::default()
        }
    }

    pub(crate) async fn fetch(&self, target: Target) -> tidegate::Result<Report> {
        download(&self.location(), target, &Self::options()).await
    }
}

/// A writer that keeps its bytes, so that a test can compare them afterwards.
#[derive(Clone, Default)]
pub(crate) struct Collect(Arc<Mutex<Vec<u8>>>);

impl Collect {
    pub(crate) fn target(&self) -> Target {
        Target::Writer { writer: Box::new(self.clone()), name: "output".to_owned() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl std::io::Write for Collect {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
