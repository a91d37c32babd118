//! Which blobs are missing from a cache: `FindMissingBlobs`.

use std::collections::HashSet;

use tidegate_core::digest::Digest;
use tidegate_reapi::bounded::EntryLimit;
use tidegate_reapi::digest::{from_proto, function, to_proto};
use tidegate_reapi::v2;

use super::ReapiCache;
use super::bounded::{self, ResponseLimits};
use crate::error::{Operation, Result};

/// Digests in one request. With 66 bytes of hash, up to 11 of length and 4 around them, this is 1.6
/// MB, in the request and, if all are missing, in the response; gRPC's libraries take 4 MiB.
const DIGESTS_MAX: usize = 20_000;

const PATH: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage/FindMissingBlobs";

/// Maximum size of a digest in a response: three times its usual size, because a repeated digest is
/// harmless.
const DIGEST_BYTES_MAX: usize = 256;

impl ReapiCache {
    /// Returns those of `digests` that are missing. Sends several requests, one after another, if
    /// one cannot hold all digests.
    pub(super) async fn find_missing(
        &self,
        digests: &[Digest],
        operation: Operation,
    ) -> Result<Vec<Digest>> {
        let mut missing = Vec::new();
        for some in digests.chunks(DIGESTS_MAX) {
            // The empty blob always exists, and some servers report it as missing.
            let asked: HashSet<Digest> = some.iter().filter(|one| one.len > 0).copied().collect();
            if !asked.is_empty() {
                missing.extend(self.find_missing_of(asked, operation).await?);
            }
        }
        Ok(missing)
    }

    async fn find_missing_of(
        &self,
        asked: HashSet<Digest>,
        operation: Operation,
    ) -> Result<Vec<Digest>> {
        let Some(of) = asked.iter().next().map(|digest| digest.function) else {
            return Ok(Vec::new());
        };
        let request = v2::FindMissingBlobsRequest {
            instance_name: self.instance().to_owned(),
            blob_digests: asked.iter().map(to_proto).collect(),
            digest_function: function(of),
        };
        let only = asked.iter().next().copied().filter(|_| asked.len() == 1);
        let limits = ResponseLimits {
            bytes: (asked.len() + 8) * DIGEST_BYTES_MAX,
            entries: vec![EntryLimit { path: &[2], count_max: 3 * asked.len() + 8 }],
        };
        let answer = bounded::call(self.grpc(), PATH, request, limits).await;
        let answer: v2::FindMissingBlobsResponse =
            answer.map_err(|status| self.unanswered(&status, operation, only.as_ref()))?;
        let (mut missing, mut seen) = (Vec::new(), HashSet::new());
        for digest in &answer.missing_blob_digests {
            let digest = from_proto(digest, of)
                .map_err(|error| self.wrong(operation, only.as_ref(), error))?;
            if !asked.contains(&digest) {
                let message = format!("{digest} is said to be missing, but was not asked for");
                return Err(self.wrong(operation, only.as_ref(), message));
            }
            // Returns a repeated digest only once.
            if seen.insert(digest) {
                missing.push(digest);
            }
        }
        Ok(missing)
    }
}
