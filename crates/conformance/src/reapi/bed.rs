//! [`Bed`]: a connection, blobs that no other case uses, calls.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::Stream;
use tidegate::{Digest, DigestFunction};
use tidegate_reapi::bytestream::byte_stream_client::ByteStreamClient;
use tidegate_reapi::bytestream::{ReadRequest, WriteRequest};
use tidegate_reapi::v2::action_cache_client::ActionCacheClient;
use tidegate_reapi::v2::capabilities_client::CapabilitiesClient;
use tidegate_reapi::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use tidegate_reapi::v2::{self, batch_update_blobs_request, compressor, digest_function};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::{Outcome, ensure};

/// More than any server answers.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// A blob of a case.
#[derive(Clone, Debug)]
pub(super) struct Blob {
    pub(super) digest: v2::Digest,
    pub(super) bytes: Bytes,
}

/// The server, and a generator for the blobs of its cases.
pub(super) struct Bed {
    pub(super) instance: String,
    pub(super) capabilities: v2::ServerCapabilities,
    channel: Channel,
    seed: u64,
    made: AtomicU64,
}

impl Bed {
    pub(super) async fn connect(url: &str, instance: &str, seed: u64) -> Result<Self, String> {
        let shown = |error: &dyn std::fmt::Debug| format!("{url}: {error:?}");
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| shown(&error))?;
        let channel = endpoint.connect().await.map_err(|error| shown(&error))?;
        let request = v2::GetCapabilitiesRequest { instance_name: instance.to_owned() };
        let capabilities = CapabilitiesClient::new(channel.clone()).get_capabilities(request).await;
        let bed = Self {
            instance: instance.to_owned(),
            capabilities: capabilities.map_err(|status| shown(&status))?.into_inner(),
            channel,
            seed,
            made: AtomicU64::new(0),
        };
        let offers_sha256 = bed.offers_function(digest_function::Value::Sha256);
        ensure(offers_sha256, || format!("{url} does not offer SHA-256"))?;
        Ok(bed)
    }

    pub(super) fn cache(&self) -> v2::CacheCapabilities {
        self.capabilities.cache_capabilities.clone().unwrap_or_default()
    }

    pub(super) fn offers_function(&self, function: digest_function::Value) -> bool {
        self.cache().digest_functions.contains(&(function as i32))
    }

    pub(super) fn offers_zstd(&self) -> bool {
        self.cache().supported_compressors.contains(&(compressor::Value::Zstd as i32))
    }

    pub(super) fn offers_chunks(&self) -> bool {
        self.cache().split_blob_support && self.cache().splice_blob_support
    }

    pub(super) fn offers_updates(&self) -> bool {
        self.cache().action_cache_update_capabilities.unwrap_or_default().update_enabled
    }

    pub(super) fn cas(&self) -> ContentAddressableStorageClient<Channel> {
        ContentAddressableStorageClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(super) fn streams(&self) -> ByteStreamClient<Channel> {
        ByteStreamClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(super) fn actions(&self) -> ActionCacheClient<Channel> {
        ActionCacheClient::new(self.channel.clone())
    }

    /// A blob that no other call returns.
    pub(super) fn blob(&self, len: usize) -> Blob {
        self.blob_of(DigestFunction::Sha256, len)
    }

    pub(super) fn blob_of(&self, function: DigestFunction, len: usize) -> Blob {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(self.seed ^ number.rotate_left(32)).fill(&mut bytes);
        blob_of(function, bytes)
    }

    /// A blob that the server has.
    pub(super) async fn stored(&self, len: usize) -> Result<Blob, String> {
        let blob = self.blob(len);
        self.put(&[&blob]).await?;
        Ok(blob)
    }

    /// Puts blobs by one batch.
    pub(super) async fn put(&self, blobs: &[&Blob]) -> Outcome {
        let response = self.update(blobs.iter().map(|blob| entry(blob)).collect()).await;
        let response = response.map_err(|status| format!("BatchUpdateBlobs failed: {status:?}"))?;
        let refused = response.responses.iter().find(|one| code(one.status.as_ref()) != Code::Ok);
        refused.map_or(Ok(()), |one| Err(format!("BatchUpdateBlobs refused a blob: {one:?}")))
    }

    pub(super) async fn update(
        &self,
        requests: Vec<batch_update_blobs_request::Request>,
    ) -> Result<v2::BatchUpdateBlobsResponse, Status> {
        let request = v2::BatchUpdateBlobsRequest {
            instance_name: self.instance.clone(),
            requests,
            digest_function: 0,
        };
        Ok(self.cas().batch_update_blobs(request).await?.into_inner())
    }

    /// The digests that are missing.
    pub(super) async fn missing(&self, digests: &[v2::Digest]) -> Result<Vec<v2::Digest>, Status> {
        let request = v2::FindMissingBlobsRequest {
            instance_name: self.instance.clone(),
            blob_digests: digests.to_vec(),
            digest_function: 0,
        };
        Ok(self.cas().find_missing_blobs(request).await?.into_inner().missing_blob_digests)
    }

    pub(super) async fn has(&self, blob: &Blob) -> Result<bool, String> {
        let missing = self.missing(std::slice::from_ref(&blob.digest)).await;
        Ok(missing.map_err(|status| format!("FindMissingBlobs failed: {status:?}"))?.is_empty())
    }

    pub(super) async fn expect_none(&self, blob: &Blob) -> Outcome {
        let is_there = self.has(blob).await?;
        ensure(!is_there, || "the blob is there".to_owned())
    }

    /// Fails unless the server returns these bytes as a stream.
    pub(super) async fn expect(&self, blob: &Blob) -> Outcome {
        let read = self.read(&self.read_name(blob), 0, 0).await;
        let read = read.map_err(|status| format!("Read failed: {status:?}"))?;
        ensure(read == blob.bytes, || format!("Read returned other bytes ({})", read.len()))
    }

    /// The name before `blobs/`, or before `uploads/`.
    pub(super) fn prefix(&self) -> String {
        if self.instance.is_empty() { String::new() } else { format!("{}/", self.instance) }
    }

    pub(super) fn read_name(&self, blob: &Blob) -> String {
        format!("{}blobs/{}/{}", self.prefix(), blob.digest.hash, blob.digest.size_bytes)
    }

    /// A name for writing the blob, with a UUID of its own.
    pub(super) fn write_name(&self, blob: &Blob) -> String {
        let number = self.made.fetch_add(1, Ordering::Relaxed) ^ self.seed;
        let uuid = format!("4f3a9c1e-0000-4000-8000-{:012x}", number & 0xffff_ffff_ffff);
        let tail = format!("blobs/{}/{}", blob.digest.hash, blob.digest.size_bytes);
        format!("{}uploads/{uuid}/{tail}", self.prefix())
    }

    /// Reads by a stream.
    pub(super) async fn read(
        &self,
        name: &str,
        read_offset: i64,
        read_limit: i64,
    ) -> Result<Bytes, Status> {
        let request = ReadRequest { resource_name: name.to_owned(), read_offset, read_limit };
        let mut messages = self.streams().read(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(message) = messages.message().await? {
            bytes.extend_from_slice(&message.data);
        }
        Ok(bytes.into())
    }

    /// Writes by a stream; returns the committed size.
    pub(super) async fn write(
        &self,
        messages: impl Stream<Item = WriteRequest> + Send + 'static,
    ) -> Result<i64, Status> {
        Ok(self.streams().write(messages).await?.into_inner().committed_size)
    }

    /// Writes all messages.
    pub(super) async fn write_all(&self, messages: Vec<WriteRequest>) -> Result<i64, Status> {
        self.write(futures_util::stream::iter(messages)).await
    }
}

pub(super) fn blob_of(function: DigestFunction, bytes: Vec<u8>) -> Blob {
    let digest = Digest::of(function, &bytes);
    Blob { digest: tidegate_reapi::digest::to_proto(&digest), bytes: bytes.into() }
}

pub(super) fn entry(blob: &Blob) -> batch_update_blobs_request::Request {
    let (digest, data) = (Some(blob.digest.clone()), blob.bytes.clone());
    batch_update_blobs_request::Request { digest, data, compressor: 0 }
}

/// The messages that write bytes under a name, from an offset on.
pub(super) fn messages(name: &str, bytes: &[u8], each: usize, start: usize) -> Vec<WriteRequest> {
    let mut offset = i64::try_from(start).unwrap_or(i64::MAX);
    let mut messages = Vec::new();
    for data in bytes.chunks(each) {
        let resource_name = if messages.is_empty() { name.to_owned() } else { String::new() };
        let data = Bytes::copy_from_slice(data);
        let write_offset = offset;
        offset += i64::try_from(data.len()).unwrap_or(i64::MAX);
        messages.push(WriteRequest { resource_name, write_offset, finish_write: false, data });
    }
    if let Some(last) = messages.last_mut() {
        last.finish_write = true;
    }
    messages
}

/// The code of a status within a message; no status is a success.
pub(super) fn code(status: Option<&tidegate_reapi::rpc::Status>) -> Code {
    Code::from_i32(status.map_or(0, |status| status.code))
}

/// Checks that a call succeeded with this value.
pub(super) fn is<T: PartialEq + std::fmt::Debug>(
    call: &str,
    result: Result<T, Status>,
    expected: &T,
) -> Outcome {
    match result {
        Ok(value) if value == *expected => Ok(()),
        Ok(value) => Err(format!("{call}: expected {expected:?}, got {value:?}")),
        Err(status) => Err(format!("{call} failed: {status:?}")),
    }
}

/// Checks that a call failed with one of these codes.
pub(super) fn fails<T: std::fmt::Debug>(
    call: &str,
    result: Result<T, Status>,
    codes: &[Code],
) -> Outcome {
    match result {
        Ok(value) => Err(format!("{call}: expected {codes:?}, got success: {value:?}")),
        Err(status) if codes.is_empty() || codes.contains(&status.code()) => Ok(()),
        Err(status) => Err(format!("{call}: expected {codes:?}, got {status:?}")),
    }
}

/// The value of a call that must succeed.
pub(super) fn worked<T>(call: &str, result: Result<T, Status>) -> Result<T, String> {
    result.map_err(|status| format!("{call} failed: {status:?}"))
}
