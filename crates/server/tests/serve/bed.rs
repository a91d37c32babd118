//! A server on a free port, clients, blobs.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tidegate::{Budget, CancellationToken};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::bytestream::byte_stream_client::ByteStreamClient;
use tidegate_reapi::bytestream::{ReadRequest, WriteRequest};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2::action_cache_client::ActionCacheClient;
use tidegate_reapi::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use tidegate_reapi::v2::{self, batch_update_blobs_request};
use tidegate_server::serve::{ServeOptions, Server};
use tidegate_server::store::{LocalStore, StoreOptions};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// No test should take longer. A test that does is stuck.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const UPLOAD: &str = "4f3a9c1e-0000-4000-8000-0000000000a1";

pub(crate) struct Bed {
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) store: LocalStore,
    pub(crate) budget: Budget,
    stop: CancellationToken,
    serving: JoinHandle<tidegate::Result<()>>,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServeOptions)) -> Self {
        Self::within(tempfile::tempdir().unwrap(), change).await
    }

    pub(crate) async fn within(folder: TempDir, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let store = StoreOptions::new(1 << 30);
        let mut options = ServeOptions::new(folder.path().join("store"), store, listen);
        change(&mut options);
        let server = Server::bind(options).await.unwrap();
        let (address, store, budget) =
            (server.address(), server.store().clone(), server.budget().clone());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.run(stop.clone()));
        Self { folder, address, store, budget, stop, serving }
    }

    /// Stops the server and returns its folder.
    pub(crate) async fn end(self) -> TempDir {
        self.stop.cancel();
        drop(self.store);
        within(self.serving).await.unwrap().unwrap();
        self.folder
    }

    /// Asks the server to stop.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", self.address));
        endpoint.unwrap().connect().await.unwrap()
    }

    pub(crate) async fn cas(&self) -> ContentAddressableStorageClient<Channel> {
        ContentAddressableStorageClient::new(self.channel().await)
            .max_encoding_message_size(128 << 20)
            .max_decoding_message_size(4 << 20)
    }

    pub(crate) async fn streams(&self) -> ByteStreamClient<Channel> {
        ByteStreamClient::new(self.channel().await)
    }

    pub(crate) async fn actions(&self) -> ActionCacheClient<Channel> {
        ActionCacheClient::new(self.channel().await)
    }

    /// Puts blobs by one batch.
    pub(crate) async fn put(&self, blobs: &[&[u8]]) -> Vec<Digest> {
        let digests: Vec<Digest> = blobs.iter().map(|blob| sha256(blob)).collect();
        let requests = digests.iter().zip(blobs).map(|(digest, blob)| entry(digest, blob));
        let request = v2::BatchUpdateBlobsRequest {
            requests: requests.collect(),
            ..v2::BatchUpdateBlobsRequest::default()
        };
        let response = self.cas().await.batch_update_blobs(request).await.unwrap().into_inner();
        assert!(response.responses.iter().all(|one| one.status.clone().unwrap().code == 0));
        digests
    }

    /// The blobs that are missing.
    pub(crate) async fn missing(&self, digests: &[Digest]) -> Vec<v2::Digest> {
        let request = v2::FindMissingBlobsRequest {
            blob_digests: digests.iter().map(to_proto).collect(),
            digest_function: tidegate_reapi::digest::function(
                digests.first().map_or(DigestFunction::Sha256, |digest| digest.function),
            ),
            ..v2::FindMissingBlobsRequest::default()
        };
        let response = self.cas().await.find_missing_blobs(request).await.unwrap();
        response.into_inner().missing_blob_digests
    }

    pub(crate) async fn has(&self, digest: &Digest) -> bool {
        self.missing(&[*digest]).await.is_empty()
    }

    /// Reads by a stream.
    pub(crate) async fn read(
        &self,
        name: &str,
        read_offset: i64,
        read_limit: i64,
    ) -> Result<Vec<u8>, Status> {
        let request = ReadRequest { resource_name: name.to_owned(), read_offset, read_limit };
        let mut messages = self.streams().await.read(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(message) = within(messages.message()).await? {
            bytes.extend_from_slice(&message.data);
        }
        Ok(bytes)
    }

    /// Writes messages by a stream; returns the committed size.
    pub(crate) async fn write(&self, messages: Vec<WriteRequest>) -> Result<i64, Status> {
        let messages = futures_util::stream::iter(messages);
        let response = within(self.streams().await.write(messages)).await?;
        Ok(response.into_inner().committed_size)
    }

    /// Writes bytes under this name, in messages of `each` bytes.
    pub(crate) async fn write_all(
        &self,
        name: &str,
        bytes: &[u8],
        each: usize,
    ) -> Result<i64, Status> {
        self.write(messages(name, bytes, each, 0)).await
    }
}

/// The messages that write bytes, from an offset on.
pub(crate) fn messages(name: &str, bytes: &[u8], each: usize, start: usize) -> Vec<WriteRequest> {
    let mut messages: Vec<WriteRequest> = Vec::new();
    let mut offset = start;
    for data in bytes.chunks(each) {
        let resource_name = if messages.is_empty() { name.to_owned() } else { String::new() };
        messages.push(WriteRequest {
            resource_name,
            write_offset: i64::try_from(offset).unwrap(),
            finish_write: false,
            data: Bytes::copy_from_slice(data),
        });
        offset += data.len();
    }
    if let Some(last) = messages.last_mut() {
        last.finish_write = true;
    }
    messages
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    Digest::of(DigestFunction::Sha256, bytes)
}

pub(crate) fn entry(digest: &Digest, data: &[u8]) -> batch_update_blobs_request::Request {
    batch_update_blobs_request::Request {
        digest: Some(to_proto(digest)),
        data: Bytes::copy_from_slice(data),
        compressor: 0,
    }
}

/// The name for reading a blob.
pub(crate) fn blob_name(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.checksum().hex(), digest.len)
}

/// The name for writing it.
pub(crate) fn upload_name(digest: &Digest) -> String {
    format!("uploads/{UPLOAD}/{}", blob_name(digest))
}

/// Bytes that do not compress, from a seed.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// Bytes that compress well.
pub(crate) fn text(len: usize, seed: usize) -> Vec<u8> {
    let line = format!("line {seed} of a log that repeats itself, as logs do\n");
    line.bytes().cycle().take(len).collect()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

/// Fails a test that hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the server hangs")
}

/// Waits until all memory is free: a connection ends some time after its cut.
pub(crate) async fn memory_is_free(bed: &Bed) {
    within(async {
        while bed.budget.held_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, Status>, code: Code) -> Status {
    let status = outcome.unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    status
}
