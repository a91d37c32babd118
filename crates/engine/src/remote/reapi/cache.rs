//! [`ReapiCache`]: one instance of a cache, and the state that all calls to it share.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Uri;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;
use tidegate_reapi::v2;
use tokio::sync::OnceCell;
use tonic::client::Grpc;
use tonic::{Code, Status};
use v2::capabilities_client::CapabilitiesClient;
use v2::content_addressable_storage_client::ContentAddressableStorageClient;

use super::super::locate::invalid;
use super::super::{Body, ExtraHeaders};
use super::capabilities::Capabilities;
use super::channel::Channel;
use super::{CacheUrl, Compression, ReapiOptions, failure, metadata};
use crate::budget::Budget;
use crate::error::{Error, Operation, Result};
use crate::store::{
    BlobStore, ChunkStore, Manifest, PutRequest, Registered, SendProgress, StoreProfile,
};
use crate::transport::{CallerHash, Http2Connector, TransportOptions};

/// Maximum size of a server's capabilities: usually some 100 bytes, and 24 times as many once
/// decoded.
const CAPABILITIES_BYTES_MAX: usize = 256 << 10;

/// Memory for packing one stream: the packer's own memory and its finished output.
const PACKING_BYTES: u64 = 2 << 20;

/// One instance of a cache that speaks the Remote Execution API; clones share its connections and
/// its capabilities.
#[derive(Clone)]
pub struct ReapiCache(Arc<Inner>);

struct Inner {
    url: CacheUrl,
    /// The URL, for display.
    name: String,
    /// The URL, and a hash of the caller's identity.
    identity: String,
    compression: Compression,
    chunks: bool,
    channel: Channel,
    capabilities: OnceCell<(Capabilities, Arc<StoreProfile>)>,
    bad_zstd: AtomicBool,
}

impl fmt::Debug for ReapiCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReapiCache").field(&self.0.name).finish()
    }
}

impl ReapiCache {
    /// The cache that `url` names; a blob in the URL is ignored. Reads the certificates that the
    /// options name. It connects when the first call is made.
    pub fn new(
        url: &CacheUrl,
        options: &ReapiOptions,
        headers: &ExtraHeaders,
        transport: &TransportOptions,
    ) -> Result<Self> {
        let url = url.with_digest(None);
        let scheme = if url.is_tls() { "https" } else { "http" };
        let origin = Uri::builder().scheme(scheme).authority(url.authority()).path_and_query("/");
        let origin = origin
            .build()
            .map_err(|error| invalid(&url.to_string(), "it makes no address").caused_by(error))?;
        let keep_alive = options.keep_alive_ms.map(Duration::from_millis);
        let connector = Http2Connector::new(transport, keep_alive)?;
        let mut caller = CallerHash::new();
        connector.identify(&mut caller);
        metadata::identify(options, headers, &mut caller);
        let headers = metadata::headers(options, headers)?;
        let channel = Channel::new(connector, origin, headers, options.connections_max);
        let name = url.to_string();
        Ok(Self(Arc::new(Inner {
            identity: format!("{name} as {}", caller.finish()),
            name,
            url,
            compression: options.compression,
            chunks: options.chunks,
            channel,
            capabilities: OnceCell::new(),
            bad_zstd: AtomicBool::new(false),
        })))
    }

    /// The cache's URL.
    pub fn url(&self) -> &CacheUrl {
        &self.0.url
    }

    pub(super) fn instance(&self) -> &str {
        self.0.url.instance()
    }

    pub(super) fn channel(&self) -> &Channel {
        &self.0.channel
    }

    pub(super) fn compression(&self) -> Compression {
        self.0.compression
    }

    /// Whether the cache sent a packed stream that could not be unpacked. Since then, reads ask for
    /// plain bytes.
    pub(super) fn sends_bad_zstd(&self) -> bool {
        self.0.bad_zstd.load(Ordering::Relaxed)
    }

    pub(super) fn found_bad_zstd(&self) {
        self.0.bad_zstd.store(true, Ordering::Relaxed);
    }

    /// The cache's capabilities; requested once.
    pub(super) async fn capabilities(&self) -> Result<&Capabilities> {
        // CANCEL: the cell stays empty, and the next caller asks again.
        let known = self.0.capabilities.get_or_try_init(|| self.ask()).await?;
        Ok(&known.0)
    }

    async fn ask(&self) -> Result<(Capabilities, Arc<StoreProfile>)> {
        let mut client = CapabilitiesClient::with_origin(
            self.channel().clone(),
            self.channel().origin().clone(),
        )
        .max_decoding_message_size(CAPABILITIES_BYTES_MAX);
        let request = v2::GetCapabilitiesRequest { instance_name: self.instance().to_owned() };
        let mut capabilities = match client.get_capabilities(request).await {
            Ok(answer) => Capabilities::new(answer.get_ref(), &self.0.name)?,
            Err(status) if answers(&status, Code::Unimplemented) => Capabilities::least(),
            Err(status) => return Err(self.failed(&status, Operation::Connect, None)),
        };
        if !self.0.chunks {
            capabilities.without_chunks();
        }
        let profile = Arc::new(capabilities.profile.clone());
        Ok((capabilities, profile))
    }

    /// Whether a put may need memory for a packed copy of its bytes. True until the cache's
    /// capabilities are known.
    fn packs(&self) -> bool {
        let known = self.0.capabilities.get();
        let is_spoken = known.is_none_or(|(known, _)| known.zstd || known.zstd_batches);
        is_spoken && self.compression() != Compression::Never
    }

    /// A client for calls without generated code.
    pub(super) fn grpc(&self) -> Grpc<Channel> {
        Grpc::with_origin(self.channel().clone(), self.channel().origin().clone())
    }

    /// A client of the store that accepts responses of at most this many bytes.
    pub(super) fn storage(
        &self,
        answer_bytes_max: usize,
    ) -> ContentAddressableStorageClient<Channel> {
        let channel = self.channel();
        ContentAddressableStorageClient::with_origin(channel.clone(), channel.origin().clone())
            .max_decoding_message_size(answer_bytes_max)
    }

    /// The name of a blob in errors, or of the cache if there is no blob.
    pub(super) fn target(&self, digest: Option<&Digest>) -> String {
        match digest {
            Some(digest) => self.0.url.with_digest(Some(*digest)).to_string(),
            None => self.0.name.clone(),
        }
    }

    pub(super) fn failed(
        &self,
        status: &Status,
        operation: Operation,
        digest: Option<&Digest>,
    ) -> Error {
        failure::failed(status, operation, &self.target(digest))
    }

    /// The error for a failed call with a limit on its response. A longer response cannot be
    /// correct.
    pub(super) fn unanswered(
        &self,
        status: &Status,
        operation: Operation,
        digest: Option<&Digest>,
    ) -> Error {
        // No server sends this code for these calls. The decoder sets it for a response that was
        // too long.
        if answers(status, Code::OutOfRange) {
            let message = "expected an answer to what was asked, got a longer one";
            return self.wrong(operation, digest, message);
        }
        self.failed(status, operation, digest)
    }

    /// The error for a response that cannot be correct.
    pub(super) fn wrong(
        &self,
        operation: Operation,
        digest: Option<&Digest>,
        message: impl fmt::Display,
    ) -> Error {
        failure::wrong(&self.target(digest), operation, message)
    }
}

/// Whether the server sent this code, and not this side after a broken connection.
pub(super) fn answers(status: &Status, code: Code) -> bool {
    status.code() == code && std::error::Error::source(status).is_none()
}

#[async_trait]
impl BlobStore for ReapiCache {
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        self.find_missing(digests, Operation::Stat).await
    }

    async fn get(&self, digest: &Digest, offset: u64, budget: &Budget) -> Result<Body> {
        let start = offset.min(digest.len);
        Ok(self.read(digest, start..digest.len, budget).await?.body)
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        self.write(request).await
    }

    fn identity(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.identity)
    }

    fn put_buffer_bytes(&self, len: u64) -> u64 {
        if self.packs() { len.min(PACKING_BYTES) } else { 0 }
    }
}

#[async_trait]
impl ChunkStore for ReapiCache {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        // CANCEL: as `capabilities`.
        let known = self.0.capabilities.get_or_try_init(|| self.ask()).await?;
        Ok(Arc::clone(&known.1))
    }

    async fn get_batch(
        &self,
        digests: &[Digest],
        _: &Budget,
    ) -> Result<Vec<Result<Option<Bytes>>>> {
        self.read_batch(digests).await
    }

    async fn put_batch(
        &self,
        chunks: &[(Digest, Bytes)],
        progress: &SendProgress,
    ) -> Result<Vec<Result<()>>> {
        self.write_batch(chunks, progress).await
    }

    fn put_batch_buffer_bytes(&self, len: u64) -> u64 {
        if self.packs() { len } else { 0 }
    }

    async fn manifest(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>> {
        self.split(digest, chunking, budget).await
    }

    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        self.splice(manifest).await
    }
}
