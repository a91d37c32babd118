//! Blobs as chunks: `SplitBlob` and `SpliceBlob`.
//!
//! [`Manifest::new`] checks every chunk list of a server before it is used. A response longer than
//! any correct one for this blob is refused.

use http_body::Frame;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_reapi::digest::{from_proto, function, to_proto};
use tidegate_reapi::{self as reapi, v2};
use tonic::{Code, Status};
use tower_service::Service as _;
use v2::chunking_function::Value as Function;

use super::ReapiCache;
use super::cache::answers;
use super::capabilities::{Capabilities, MESSAGE_BYTES, number};
use super::split_response::{SplitError, SplitResponse};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::store::{Manifest, Registered};

/// A chunk's digest in a response: its hash (66), its length (11), and the field around them (2).
const CHUNK_BYTES: u64 = 80;

/// The path of the call, which does not use the generated client: see `split_response`.
const SPLIT_PATH: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage/SplitBlob";

/// Size of a response without the chunks.
const ANSWER_SLACK_BYTES: u64 = 64 << 10;

/// Maximum size of a response: 800,000 chunks, which is 400 GiB with the recommended chunk size.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The shortest chunks that are expected of a server without chunking parameters: the smallest
/// average that the API allows.
const CHUNK_BYTES_MIN: u64 = 1 << 10;

impl ReapiCache {
    /// The chunks of a blob; see `ChunkStore::manifest`.
    pub(super) async fn split(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>> {
        let capabilities = self.capabilities().await?;
        if !capabilities.profile.can_split {
            return Ok(None);
        }
        if digest.len == 0 {
            return self.validated(digest, Vec::new(), None).map(Some);
        }
        let request = v2::SplitBlobRequest {
            instance_name: self.instance().to_owned(),
            blob_digest: Some(to_proto(digest)),
            digest_function: function(digest.function),
            chunking_function: chunking.map_or(Function::Unknown, number) as i32,
        };
        let bytes_max = answer_bytes_max(digest, capabilities);
        let mut response = SplitResponse::new(digest, bytes_max, budget);
        match self.receive_split(&request, digest, &mut response).await? {
            Ok(()) => {}
            // A server may support the call, but not for this blob.
            Err(status)
                if answers(&status, Code::NotFound) || answers(&status, Code::Unimplemented) =>
            {
                return Ok(None);
            }
            Err(status) => return Err(self.failed(&status, Operation::Stat, Some(digest))),
        }
        if !response.is_whole() {
            let target = self.target(Some(digest));
            let message = "the answer with its chunks ended early";
            let error = Error::new(ErrorKind::Transport, Operation::Stat, target, message);
            return Err(error.retryable(RetryClass::Now));
        }
        // The permit is returned here: see `ChunkStore::manifest`.
        let (chunks, cut_by, _paid) = response.into_parts();
        let cut_by = Function::try_from(cut_by).unwrap_or(Function::Unknown);
        self.validated(digest, chunks, capabilities.chunking(cut_by)).map(Some)
    }

    /// Makes the call; returns the final status if it is a failure.
    async fn receive_split(
        &self,
        request: &v2::SplitBlobRequest,
        digest: &Digest,
        response: &mut SplitResponse,
    ) -> Result<Result<(), Status>> {
        let request = self.request(SPLIT_PATH, request).map_err(|error| {
            let (target, text) = (self.target(Some(digest)), "it makes no valid request");
            Error::new(ErrorKind::Invalid, Operation::Stat, target, text).caused_by(error)
        })?;
        let failure = |status: Option<Status>| status.filter(|status| status.code() != Code::Ok);
        // CANCEL: dropping the future resets the stream.
        let mut answer = match self.channel().clone().call(request).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(Status::from_error(error))),
        };
        if let Some(status) = failure(Status::from_header_map(answer.headers())) {
            return Ok(Err(status));
        }
        while let Some(frame) = answer.body_mut().frame().await {
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => {
                    response.push(&data).map_err(|error| self.wrong_split(digest, error))?;
                }
                Ok(Err(frame)) => {
                    let status = frame.trailers_ref().and_then(Status::from_header_map);
                    if let Some(status) = failure(status) {
                        return Ok(Err(status));
                    }
                }
                Err(error) => return Ok(Err(Status::from_error(error))),
            }
        }
        Ok(Ok(()))
    }

    fn wrong_split(&self, digest: &Digest, error: SplitError) -> Error {
        let message = match error {
            SplitError::Framing(reapi::Error::MessageTooLong { .. }) => {
                "expected an answer with this blob's chunks, got a longer one".to_owned()
            }
            SplitError::Memory { is_for_ever, .. } => {
                let target = self.target(Some(digest));
                let retry = if is_for_ever { RetryClass::Never } else { RetryClass::Now };
                return Error::new(
                    ErrorKind::Unsupported,
                    Operation::Stat,
                    target,
                    error.to_string(),
                )
                .retryable(retry)
                .with_hint(Setting::Memory);
            }
            error => format!("its chunks are wrong: {error}"),
        };
        self.wrong(Operation::Stat, Some(digest), message)
    }

    fn validated(
        &self,
        digest: &Digest,
        chunks: Vec<Digest>,
        chunking: Option<Chunking>,
    ) -> Result<Manifest> {
        Manifest::new(*digest, chunks, chunking).map_err(|error| {
            let message = format!("its chunks are wrong: {error}");
            self.wrong(Operation::Stat, Some(digest), message)
        })
    }

    /// Makes a blob from chunks; see `ChunkStore::register`.
    pub(super) async fn splice(&self, manifest: &Manifest) -> Result<Registered> {
        let blob = manifest.blob();
        let request = v2::SpliceBlobRequest {
            instance_name: self.instance().to_owned(),
            blob_digest: Some(to_proto(blob)),
            chunk_digests: manifest.chunks().iter().map(to_proto).collect(),
            digest_function: function(blob.function),
            chunking_function: manifest.chunking().map_or(Function::Unknown, number) as i32,
        };
        let message_bytes = request.encoded_len() as u64;
        let answer_bytes = usize::try_from(ANSWER_SLACK_BYTES).unwrap_or(usize::MAX);
        let answer = match self.storage(answer_bytes).splice_blob(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if answers(&status, Code::AlreadyExists) => return Ok(Registered::Done),
            Err(status) if answers(&status, Code::NotFound) => return Ok(Registered::ChunkMissing),
            // Any message counts: there is no other way to send a list of this size.
            Err(status)
                if message_bytes > MESSAGE_BYTES
                    && (answers(&status, Code::ResourceExhausted)
                        || answers(&status, Code::OutOfRange)) =>
            {
                let error = self.failed(&status, Operation::Commit, Some(blob));
                return Err(error.into_kind(ErrorKind::Unsupported).retryable(RetryClass::Never));
            }
            Err(status) => return Err(self.failed(&status, Operation::Commit, Some(blob))),
        };
        // Some servers omit the digest.
        if let Some(made) = &answer.blob_digest
            && from_proto(made, blob.function).as_ref() != Ok(blob)
        {
            let message = "expected the chunks to make the blob, the server made another of them";
            return Err(self.wrong(Operation::Commit, Some(blob), message));
        }
        Ok(Registered::Done)
    }
}

/// Maximum size of a response: twice as many chunks as the blob can have with the server's chunking
/// functions, because the server may use other functions.
fn answer_bytes_max(digest: &Digest, capabilities: &Capabilities) -> u64 {
    let shortest = |chunking: &Chunking| match chunking {
        Chunking::FastCdc2020(params) => params.min_bytes(),
        Chunking::RepMaxCdc(params) => params.min_bytes(),
        _ => CHUNK_BYTES_MIN,
    };
    let chunk_bytes = capabilities.profile.chunkings.iter().map(shortest).min();
    let chunk_bytes = chunk_bytes.unwrap_or(CHUNK_BYTES_MIN).max(1);
    let chunks = 2 * (digest.len / chunk_bytes + 1);
    let bytes = chunks.saturating_mul(CHUNK_BYTES).saturating_add(ANSWER_SLACK_BYTES);
    bytes.min(ANSWER_BYTES_MAX)
}
