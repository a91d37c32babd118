//! Action results: `ActionCache.GetActionResult`.

use bytes::Bytes;
use prost::Message as _;
use tidegate_core::digest::Digest;
use tidegate_reapi::bounded::EntryLimit;
use tidegate_reapi::digest::{function, to_proto};
use tidegate_reapi::v2;
use tonic::Code;

use super::ReapiCache;
use super::bounded::{self, ResponseLimits};
use super::cache::answers;
use crate::error::{Operation, Result};

const PATH: &str = "/build.bazel.remote.execution.v2.ActionCache/GetActionResult";

/// Maximum size of a result: the limit of gRPC's libraries.
const RESULT_BYTES_MAX: usize = 4 << 20;

/// Entries of one list of a result. With 40 bytes each at least, a result of 4 MiB has no more.
const ENTRIES_MAX: usize = 100_000;

/// The lists of a result: files, symbolic links and directories of the outputs.
const LISTS: [&[u32]; 5] = [&[2], &[3], &[10], &[11], &[12]];

impl ReapiCache {
    /// The encoded result of an action; `None` if the cache has none. One attempt.
    ///
    /// The instance is that of the cache's URL, followed by `instance` if that is not empty.
    ///
    /// The result is what the server says: it has no digest to compare it with.
    pub async fn action_result(&self, instance: &str, action: &Digest) -> Result<Option<Bytes>> {
        let both = [self.instance(), instance];
        let both: Vec<&str> = both.into_iter().filter(|part| !part.is_empty()).collect();
        let request = v2::GetActionResultRequest {
            instance_name: both.join("/"),
            action_digest: Some(to_proto(action)),
            digest_function: function(action.function),
            ..v2::GetActionResultRequest::default()
        };
        let entries = LISTS.map(|path| EntryLimit { path, count_max: ENTRIES_MAX });
        let limits = ResponseLimits { bytes: RESULT_BYTES_MAX, entries: entries.to_vec() };
        match bounded::call(self.grpc(), PATH, request, limits).await {
            Ok(result) => {
                let result: v2::ActionResult = result;
                Ok(Some(result.encode_to_vec().into()))
            }
            Err(status) if answers(&status, Code::NotFound) => Ok(None),
            Err(status) => Err(self.unanswered(&status, Operation::Read, None)),
        }
    }
}
