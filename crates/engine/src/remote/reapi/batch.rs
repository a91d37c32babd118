//! Small blobs, many in one request: `BatchReadBlobs` and `BatchUpdateBlobs`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use bytes::Bytes;
use futures_util::stream;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_reapi::bounded::EntryLimit;
use tidegate_reapi::digest::{from_proto, function, to_proto};
use tidegate_reapi::{pieces, rpc, v2, zstd};
use tonic::Code;
use tonic::client::Grpc;
use v2::batch_read_blobs_response::Response as ReadOne;
use v2::batch_update_blobs_request::Request as WriteOne;

use super::bounded::{self, ResponseLimits};
use super::outgoing::Carrying;
use super::{Compression, ReapiCache, failure};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::store::SendProgress;

/// Maximum size of a blob's entry in a response, without the blob's bytes: its digest, and a status
/// with a message of moderate length.
const OVERHEAD_BYTES_MAX: u64 = 1 << 10;

/// Additional size of a response: if a few blobs fail, some servers send long messages about each.
const SLACK_BYTES: u64 = 256 << 10;

const READ_PATH: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchReadBlobs";
const UPDATE_PATH: &str =
    "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchUpdateBlobs";

const ZSTD: i32 = v2::compressor::Value::Zstd as i32;
const IDENTITY: i32 = v2::compressor::Value::Identity as i32;

impl ReapiCache {
    /// The bytes of each blob, in order; see `ChunkStore::get_batch`.
    pub(super) async fn read_batch(
        &self,
        digests: &[Digest],
    ) -> Result<Vec<Result<Option<Bytes>>>> {
        let Some(first) = digests.first() else { return Ok(Vec::new()) };
        // A cache that unpacks the batches it receives can also pack the batches it sends.
        let zstd =
            self.compression() != Compression::Never && self.capabilities().await?.zstd_batches;
        let request = v2::BatchReadBlobsRequest {
            instance_name: self.instance().to_owned(),
            digests: digests.iter().map(to_proto).collect(),
            acceptable_compressors: if zstd { vec![ZSTD] } else { Vec::new() },
            digest_function: function(first.function),
        };
        let bytes = digests.iter().fold(SLACK_BYTES, |sum, digest| {
            sum.saturating_add(digest.len).saturating_add(OVERHEAD_BYTES_MAX)
        });
        let limits = limits(bytes, digests.len(), &[1, 3, 3]);
        let answer = bounded::call(self.grpc(), READ_PATH, request, limits).await;
        let answer: v2::BatchReadBlobsResponse =
            answer.map_err(|status| self.unanswered(&status, Operation::Read, None))?;
        let mut came = HashMap::new();
        for response in answer.responses {
            let named = response.digest.as_ref().map(|named| from_proto(named, first.function));
            // Ignores an entry that was not asked for or has no valid digest. `one_read` reports
            // the blobs without an entry.
            if let Some(Ok(digest)) = named {
                keep(&mut came, digest, response, |one| one.status.as_ref());
            }
        }
        if !zstd {
            return Ok(digests
                .iter()
                .map(|digest| self.one_read(digest, came.get(digest)))
                .collect());
        }
        let (cache, digests) = (self.clone(), digests.to_vec());
        let unpack =
            move || digests.iter().map(|digest| cache.one_read(digest, came.get(digest))).collect();
        self.off_the_runtime(Operation::Read, unpack).await
    }

    /// Packs or unpacks a batch on a blocking thread, because it takes milliseconds.
    async fn off_the_runtime<T: Send + 'static>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        offload(operation, &self.target(None), move || Ok(work())).await
    }

    fn one_read(&self, digest: &Digest, response: Option<&ReadOne>) -> Result<Option<Bytes>> {
        let Some(response) = response else {
            return Err(self.silent(Operation::Read, digest));
        };
        if let Some(error) = self.refused(response.status.as_ref(), Operation::Read, digest) {
            return if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) };
        }
        let data = match response.compressor {
            IDENTITY => response.data.clone(),
            ZSTD => zstd::unpack(&response.data, digest.len)
                .map_err(|error| self.damaged(digest, error))?,
            other => {
                let message =
                    format!("expected bytes as they are or as zstd, got compressor {other}");
                return Err(self.wrong(Operation::Read, Some(digest), message));
            }
        };
        if data.len() as u64 != digest.len {
            let message = format!("expected {} bytes, got {}", digest.len, data.len());
            return Err(self.damaged(digest, message));
        }
        Ok(Some(data))
    }

    /// Bytes that cannot be the blob's. The damage may have happened in transit, so the caller can
    /// retry.
    fn damaged(&self, digest: &Digest, message: impl fmt::Display) -> Error {
        self.wrong(Operation::Read, Some(digest), message).retryable(RetryClass::Now)
    }

    /// Puts each blob; see `ChunkStore::put_batch`.
    pub(super) async fn write_batch(
        &self,
        chunks: &[(Digest, Bytes)],
        progress: &SendProgress,
    ) -> Result<Vec<Result<()>>> {
        let Some((first, _)) = chunks.first() else { return Ok(Vec::new()) };
        let zstd =
            self.compression() != Compression::Never && self.capabilities().await?.zstd_batches;
        let requests = if zstd {
            let chunks = chunks.to_vec();
            let pack = move || chunks.iter().map(|(digest, data)| packed(digest, data)).collect();
            self.off_the_runtime(Operation::Write, pack).await?
        } else {
            chunks.iter().map(|(digest, data)| one_write(digest, data.clone(), IDENTITY)).collect()
        };
        let request = v2::BatchUpdateBlobsRequest {
            instance_name: self.instance().to_owned(),
            requests,
            digest_function: function(first.function),
        };
        let answer_bytes = chunks.len() as u64 * OVERHEAD_BYTES_MAX + SLACK_BYTES;
        let pieces = pieces::batch_update(request).map_err(|error| {
            let target = self.target(None);
            Error::new(ErrorKind::Unsupported, Operation::Write, target, "it makes no message")
                .caused_by(error)
        })?;
        let counter = progress.clone();
        // The connection takes the next piece when it has sent most of the previous ones.
        let pieces = pieces.inspect(move |piece| counter.passed(piece.len() as u64));
        let carrying = Carrying::new(self.channel(), stream::iter(pieces), progress);
        let client = Grpc::with_origin(carrying, self.channel().origin().clone());
        let limits = limits(answer_bytes, chunks.len(), &[1, 2, 3]);
        let request = v2::BatchUpdateBlobsRequest::default();
        let answer = bounded::call(client, UPDATE_PATH, request, limits).await;
        let answer: v2::BatchUpdateBlobsResponse =
            answer.map_err(|status| self.unanswered(&status, Operation::Write, None))?;
        let mut came: HashMap<Digest, Option<rpc::Status>> = HashMap::new();
        for response in answer.responses {
            let named = response.digest.as_ref().map(|named| from_proto(named, first.function));
            if let Some(Ok(digest)) = named {
                keep(&mut came, digest, response.status, Option::as_ref);
            }
        }
        Ok(chunks
            .iter()
            .map(|(digest, _)| match came.get(digest) {
                None => Err(self.silent(Operation::Write, digest)),
                Some(status) => {
                    self.refused(status.as_ref(), Operation::Write, digest).map_or(Ok(()), Err)
                }
            })
            .collect())
    }

    /// The error for a status; `None` for a success.
    fn refused(
        &self,
        status: Option<&rpc::Status>,
        operation: Operation,
        digest: &Digest,
    ) -> Option<Error> {
        let status = status.filter(|status| has_failed(Some(status)))?;
        Some(failure::failed_in_batch(status, operation, &self.target(Some(digest))))
    }

    fn silent(&self, operation: Operation, digest: &Digest) -> Error {
        let message = "the server's answer says nothing of it";
        Error::new(ErrorKind::Remote, operation, self.target(Some(digest)), message)
            .retryable(RetryClass::Now)
    }
}

/// The limits of a response about this many blobs. A correct response has one entry for each blob;
/// up to three entries are harmless. `details` is the field path of the statuses' details.
fn limits(bytes: u64, blobs: usize, details: &'static [u32]) -> ResponseLimits {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let count_max = 3 * blobs + 8;
    let entries = EntryLimit { path: &[1], count_max };
    let details = EntryLimit { path: details, count_max: 8 * count_max };
    ResponseLimits { bytes, entries: vec![entries, details] }
}

/// Keeps the entry of a blob. If two entries name one blob, a failure replaces a success: the
/// success may belong to another attempt.
fn keep<T>(
    came: &mut HashMap<Digest, T>,
    digest: Digest,
    answer: T,
    status: impl Fn(&T) -> Option<&rpc::Status>,
) {
    match came.entry(digest) {
        Entry::Vacant(place) => {
            place.insert(answer);
        }
        Entry::Occupied(mut known) if !has_failed(status(known.get())) => {
            known.insert(answer);
        }
        Entry::Occupied(_) => {}
    }
}

/// `AlreadyExists` is not a failure.
fn has_failed(status: Option<&rpc::Status>) -> bool {
    let code = status.map(|status| Code::from_i32(status.code));
    code.is_some_and(|code| !matches!(code, Code::Ok | Code::AlreadyExists))
}

fn packed(digest: &Digest, data: &Bytes) -> WriteOne {
    match zstd::pack_if_worth_it(data) {
        Some(packed) => one_write(digest, packed, ZSTD),
        None => one_write(digest, data.clone(), IDENTITY),
    }
}

fn one_write(digest: &Digest, data: Bytes, compressor: i32) -> WriteOne {
    WriteOne { digest: Some(to_proto(digest)), data, compressor }
}
