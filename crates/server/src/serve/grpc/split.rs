//! `ContentAddressableStorage.SplitBlob`: the chunks of a blob.

use tidegate::store::ChunkStore as _;
use tidegate_reapi::digest::{required, to_proto};
use tidegate_reapi::v2;
use tonic::Status;

use super::capabilities::{chunking, chunking_number};
use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, RESPONSE_BYTES_MAX, decode, function, status};

/// A chunk in the response: its hash, and a length of up to five digits of 7 bits.
const CHUNK_BYTES: usize = 76;

impl Api {
    pub(super) async fn split(&self, message: RequestMessage) -> Outcome {
        let request: v2::SplitBlobRequest = decode(&message)?;
        drop(message);
        self.check_instance(&request.instance_name)?;
        let function = function(request.digest_function)?;
        let blob = required(request.blob_digest.as_ref(), function)
            .map_err(|error| status::invalid(&error))?;
        let wanted = chunking(request.chunking_function);
        let budget = self.parts.budget.share();
        let manifest = self.store.manifest(&blob, wanted.as_ref(), &budget).await;
        let manifest = manifest.map_err(|error| status::of(&error))?.ok_or_else(|| {
            Status::not_found(format!("the cache does not have {blob}, or not in chunks"))
        })?;
        if manifest.chunks().len() * CHUNK_BYTES > RESPONSE_BYTES_MAX {
            let count = manifest.chunks().len();
            return Err(Status::resource_exhausted(format!(
                "a response with the {count} chunks of {blob} would be larger than max \
                 ({RESPONSE_BYTES_MAX} bytes); read the blob by ByteStream"
            )));
        }
        Reply::message(&v2::SplitBlobResponse {
            chunk_digests: manifest.chunks().iter().map(to_proto).collect(),
            chunking_function: chunking_number(manifest.chunking()),
        })
    }
}
