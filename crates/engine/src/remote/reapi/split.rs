//! Blobs as chunks: `SplitBlob` and `SpliceBlob`.
//!
//! Nothing that a server says of chunks is believed before [`Manifest::new`] has checked it, and no
//! answer is taken that is longer than one of this blob can be.

use std::fmt;

use prost::Message as _;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_reapi::v2;
use tonic::Code;
use v2::chunking_function::Value as Function;

use super::ReapiCache;
use super::cache::answers;
use super::capabilities::{Capabilities, MESSAGE_BYTES, number};
use super::digest::{from_proto, function, to_proto};
use crate::error::{ErrorKind, Operation, Result};
use crate::remote::{Manifest, Registered};

/// A chunk's digest in an answer: its hash (66), its length (11), and the field around them (2).
const CHUNK_BYTES: u64 = 80;

/// Besides the chunks.
const ANSWER_SLACK_BYTES: u64 = 64 << 10;

/// The longest answer: 800,000 chunks, which is 400 GiB cut as is recommended.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The shortest chunks that are expected of a server that does not say how it cuts: the least
/// average that the API allows.
const CHUNK_BYTES_MIN: u64 = 1 << 10;

impl ReapiCache {
    /// The chunks of a blob; as `ChunkStore::manifest`.
    pub(super) async fn split(
        &self,
        digest: &Digest,
        chunking: Option<&Chunking>,
    ) -> Result<Option<Manifest>> {
        let capabilities = self.capabilities().await?;
        if !capabilities.profile.can_split {
            return Ok(None);
        }
        if digest.len == 0 {
            return self.validated(digest, &[], None).map(Some);
        }
        let request = v2::SplitBlobRequest {
            instance_name: self.instance().to_owned(),
            blob_digest: Some(to_proto(digest)),
            digest_function: function(digest.function),
            chunking_function: chunking.map_or(Function::Unknown, number) as i32,
        };
        let mut storage = self.storage(answer_bytes_max(digest, capabilities));
        let answer = match storage.split_blob(request).await {
            Ok(answer) => answer.into_inner(),
            // It may say that it can and then not for this blob.
            Err(status)
                if answers(&status, Code::NotFound) || answers(&status, Code::Unimplemented) =>
            {
                return Ok(None);
            }
            // No server's answer to this call; it is what was made of one that was too long.
            Err(status) if answers(&status, Code::OutOfRange) => {
                let message = "expected an answer with this blob's chunks, got a longer one";
                return Err(self.wrong(Operation::Stat, Some(digest), message));
            }
            Err(status) => return Err(self.failed(&status, Operation::Stat, Some(digest))),
        };
        let cut_by = Function::try_from(answer.chunking_function).unwrap_or(Function::Unknown);
        self.validated(digest, &answer.chunk_digests, capabilities.chunking(cut_by)).map(Some)
    }

    fn validated(
        &self,
        digest: &Digest,
        chunks: &[v2::Digest],
        chunking: Option<Chunking>,
    ) -> Result<Manifest> {
        let wrong = |message: &dyn fmt::Display| {
            self.wrong(Operation::Stat, Some(digest), format!("its chunks are wrong: {message}"))
        };
        let chunks = chunks.iter().map(|chunk| from_proto(chunk, digest.function));
        let chunks = chunks.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
        Manifest::new(*digest, chunks, chunking).map_err(|error| wrong(&error))
    }

    /// Makes a blob of chunks; as `ChunkStore::register`.
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
            // However it is worded: there is no other way to send so many chunks.
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
        // Some servers leave it out.
        if let Some(made) = &answer.blob_digest
            && from_proto(made, blob.function).as_ref() != Ok(blob)
        {
            let message = "expected the chunks to make the blob, the server made another of them";
            return Err(self.wrong(Operation::Commit, Some(blob), message));
        }
        Ok(Registered::Done)
    }
}

/// As many chunks as the blob can have where it is cut by a function that the server names, twice
/// over since it may use others.
fn answer_bytes_max(digest: &Digest, capabilities: &Capabilities) -> usize {
    let shortest = |chunking: &Chunking| match chunking {
        Chunking::FastCdc2020(params) => params.min_bytes(),
        Chunking::RepMaxCdc(params) => params.min_bytes(),
        _ => CHUNK_BYTES_MIN,
    };
    let chunk_bytes = capabilities.profile.chunkings.iter().map(shortest).min();
    let chunk_bytes = chunk_bytes.unwrap_or(CHUNK_BYTES_MIN).max(1);
    let chunks = 2 * (digest.len / chunk_bytes + 1);
    let bytes = chunks.saturating_mul(CHUNK_BYTES).saturating_add(ANSWER_SLACK_BYTES);
    usize::try_from(bytes.min(ANSWER_BYTES_MAX)).unwrap_or(usize::MAX)
}
