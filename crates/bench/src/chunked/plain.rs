//! Plain calls of the Remote Execution API through tonic: the base of the models of other clients.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::bytestream::byte_stream_client::ByteStreamClient;
use tidegate_reapi::bytestream::{ReadRequest, WriteRequest};
use tidegate_reapi::v2;
use tidegate_reapi::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use tonic::transport::{Channel, Endpoint};

/// Flow control for bulk transfer: a window that gRPC libraries use for fast links.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// The longest response: a Split of some thousand chunks, or a message of a stream.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Data of one message of a write.
const WRITE_BYTES: usize = 1 << 20;

/// One connection to a cache.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    storage: ContentAddressableStorageClient<Channel>,
    streams: ByteStreamClient<Channel>,
}

impl Plain {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let url = url.replace("grpc://", "http://");
        let channel = Endpoint::from_shared(url)?
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .tcp_nodelay(true)
            .connect()
            .await
            .context("connecting")?;
        let storage = ContentAddressableStorageClient::new(channel.clone());
        let streams = ByteStreamClient::new(channel);
        Ok(Self {
            storage: storage.max_decoding_message_size(MESSAGE_BYTES_MAX),
            streams: streams.max_decoding_message_size(MESSAGE_BYTES_MAX),
        })
    }

    /// The chunks of a blob, in order; checks that they add up to it.
    pub(crate) async fn split(&self, blob: &Digest) -> Result<Vec<Digest>> {
        let request = v2::SplitBlobRequest {
            blob_digest: Some(message(blob)),
            digest_function: number(blob.function),
            ..v2::SplitBlobRequest::default()
        };
        let answer = self.storage.clone().split_blob(request).await.context("splitting")?;
        let digests = answer.into_inner().chunk_digests;
        let chunks: Vec<_> = digests
            .iter()
            .map(|digest| {
                let text = format!("{}/{}/{}", blob.function, digest.hash, digest.size_bytes);
                Ok(Digest::parse(&text)?)
            })
            .collect::<Result<_>>()?;
        let sum: u64 = chunks.iter().map(|chunk| chunk.len).sum();
        ensure!(sum == blob.len, "chunks of {sum} bytes for a blob of {}", blob.len);
        Ok(chunks)
    }

    /// The digests that the cache does not have.
    pub(crate) async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        let request = v2::FindMissingBlobsRequest {
            blob_digests: digests.iter().map(message).collect(),
            digest_function: digests.first().map_or(0, |digest| number(digest.function)),
            ..v2::FindMissingBlobsRequest::default()
        };
        let answer = self.storage.clone().find_missing_blobs(request).await?.into_inner();
        let missing: std::collections::HashSet<String> =
            answer.missing_blob_digests.into_iter().map(|digest| digest.hash).collect();
        let is_missing = |digest: &&Digest| missing.contains(&digest.checksum().hex());
        Ok(digests.iter().filter(is_missing).copied().collect())
    }

    /// One chunk, verified.
    pub(crate) async fn read(&self, chunk: Digest) -> Result<Vec<Bytes>> {
        let request = ReadRequest { resource_name: blob_name(&chunk), ..ReadRequest::default() };
        let mut answers = self.streams.clone().read(request).await?.into_inner();
        let mut hash = tidegate_core::Checksummer::new(chunk.function.algorithm())?;
        let mut pieces = Vec::new();
        while let Some(answer) = answers.message().await? {
            hash.update(&answer.data);
            pieces.push(answer.data);
        }
        ensure!(hash.finish() == chunk.checksum(), "{chunk} is something else");
        Ok(pieces)
    }

    /// Writes one chunk from its file.
    pub(crate) async fn write(&self, chunk: Digest, file: Arc<File>, offset: u64) -> Result<()> {
        let name = format!("uploads/{}/{}", upload_id(&chunk), blob_name(&chunk));
        let starts = (0..chunk.len).step_by(WRITE_BYTES);
        let messages = starts.map(move |start| {
            let len = (chunk.len - start).min(WRITE_BYTES as u64);
            let mut data = vec![0; usize::try_from(len).unwrap_or(WRITE_BYTES)];
            // If the read fails, zeros are sent. The server does not verify them; `Trial::check`
            // finds them, except for `Way::Bare64`, where only lengths are compared.
            let _ = file.read_exact_at(&mut data, offset + start);
            WriteRequest {
                resource_name: name.clone(),
                write_offset: i64::try_from(start).unwrap_or(i64::MAX),
                finish_write: start + len == chunk.len,
                data: data.into(),
            }
        });
        let answer = self.streams.clone().write(futures_util::stream::iter(messages)).await?;
        let committed = answer.into_inner().committed_size;
        ensure!(u64::try_from(committed) == Ok(chunk.len), "{committed} bytes of {chunk}");
        Ok(())
    }

    /// Makes a blob of chunks.
    pub(crate) async fn splice(&self, blob: &Digest, chunks: &[Digest]) -> Result<()> {
        let request = v2::SpliceBlobRequest {
            blob_digest: Some(message(blob)),
            chunk_digests: chunks.iter().map(message).collect(),
            digest_function: number(blob.function),
            ..v2::SpliceBlobRequest::default()
        };
        self.storage.clone().splice_blob(request).await.context("splicing")?;
        Ok(())
    }
}

fn message(digest: &Digest) -> v2::Digest {
    let size_bytes = i64::try_from(digest.len).unwrap_or(i64::MAX);
    v2::Digest { hash: digest.checksum().hex(), size_bytes }
}

fn number(function: DigestFunction) -> i32 {
    let value = match function {
        DigestFunction::Blake3 => v2::digest_function::Value::Blake3,
        _ => v2::digest_function::Value::Sha256,
    };
    value.into()
}

fn blob_name(digest: &Digest) -> String {
    let hex = digest.checksum().hex();
    match digest.function {
        DigestFunction::Blake3 => format!("blobs/blake3/{hex}/{}", digest.len),
        _ => format!("blobs/{hex}/{}", digest.len),
    }
}

/// Different for every chunk; no other property is needed.
fn upload_id(chunk: &Digest) -> String {
    let hex = chunk.checksum().hex();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
