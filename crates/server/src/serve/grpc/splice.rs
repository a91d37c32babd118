//! `ContentAddressableStorage.SpliceBlob`: chunks that are there become a blob.

use tidegate::store::{BlobStore as _, ChunkStore as _, Manifest, Registered};
use tidegate_core::digest::Digest;
use tidegate_reapi::bounded::{self, EntryLimit};
use tidegate_reapi::digest::{required, to_proto};
use tidegate_reapi::v2;
use tonic::Status;

use super::capabilities::chunking;
use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, function, status};

/// Chunks of one blob: 64 MiB of a message hold fewer with valid digests.
const CHUNKS_MAX: usize = 1 << 20;

impl Api {
    pub(super) async fn splice(&self, message: RequestMessage) -> Outcome {
        let limits = [EntryLimit { path: &[3], count_max: CHUNKS_MAX }];
        let request: v2::SpliceBlobRequest = bounded::decode(message.bytes.clone(), &limits)
            .map_err(|error| status::invalid(&error))?;
        self.check_instance(&request.instance_name)?;
        let manifest = manifest(&request)?;
        drop(request);
        let blob = *manifest.blob();
        let registered = self.store.register(&manifest).await;
        match registered.map_err(|error| status::of(&error))? {
            Registered::Done => {}
            Registered::ChunkMissing => {
                let missing = self.store.missing(manifest.chunks()).await.unwrap_or_default();
                return Err(Status::not_found(match missing.first() {
                    Some(chunk) => format!("the cache does not have chunk {chunk} of {blob}"),
                    None => format!("a chunk of {blob} was missing"),
                }));
            }
        }
        Reply::message(&v2::SpliceBlobResponse { blob_digest: Some(to_proto(&blob)) })
    }
}

fn manifest(request: &v2::SpliceBlobRequest) -> Outcome<Manifest> {
    let function = function(request.digest_function)?;
    let invalid = |error: tidegate_reapi::Error| status::invalid(&error);
    let blob = required(request.blob_digest.as_ref(), function).map_err(invalid)?;
    let chunks = request.chunk_digests.iter().map(|chunk| required(Some(chunk), function));
    let chunks: Vec<Digest> = chunks.collect::<Result<_, _>>().map_err(invalid)?;
    // Empty chunks change nothing, and clients may not know that manifests have none.
    let chunks: Vec<Digest> = chunks.into_iter().filter(|chunk| chunk.len > 0).collect();
    if let Some(chunking) = chunking(request.chunking_function)
        && let Ok(manifest) = Manifest::new(blob, chunks.clone(), Some(chunking))
    {
        return Ok(manifest);
    }
    // The client's parameters may be others than the server's.
    let manifest = Manifest::new(blob, chunks, None);
    manifest.map_err(|error| Status::invalid_argument(format!("{blob}: {error}")))
}
