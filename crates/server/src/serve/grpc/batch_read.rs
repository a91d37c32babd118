//! `ContentAddressableStorage.BatchReadBlobs`: a response of at most 4 MiB.
//!
//! Blobs are taken in the order of the request as long as they fit. A blob that does not fit gets a
//! status of its own; the client reads it by `ByteStream`, or asks again for those that are left.

use tidegate_core::digest::Digest;
use tidegate_reapi::bounded::{self, EntryLimit};
use tidegate_reapi::digest::{required, to_proto};
use tidegate_reapi::v2::batch_read_blobs_response::Response;
use tidegate_reapi::v2::compressor::Value as Compressor;
use tidegate_reapi::{pieces, v2};
use tonic::{Code, Status};

use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, RESPONSE_BYTES_MAX, function, status};
use crate::store::ReadEntry;

/// What a blob takes in a response beside its bytes: the hash (66), lengths and keys (40), and a
/// status with a message that names it (about 200).
const OVERHEAD_BYTES: u64 = 320;

/// Digests of one call.
const DIGESTS_MAX: usize = 64 << 10;

impl Api {
    pub(super) async fn batch_read(&self, message: RequestMessage) -> Outcome {
        let limits = [EntryLimit { path: &[2], count_max: DIGESTS_MAX }];
        let request: v2::BatchReadBlobsRequest = bounded::decode(message.bytes.clone(), &limits)
            .map_err(|error| status::invalid(&error))?;
        // The response waits for memory, so the request must hold none.
        drop(message);
        self.check_instance(&request.instance_name)?;
        let function = function(request.digest_function)?;
        let allows_packed = request.acceptable_compressors.contains(&(Compressor::Zstd as i32));
        let digests: Result<Vec<Digest>, _> =
            request.digests.iter().map(|digest| required(Some(digest), function)).collect();
        let digests = digests.map_err(|error| status::invalid(&error))?;
        let (fitting, bytes) = fitting(&digests);
        let wanted = digests.iter().zip(&fitting).filter(|(_, fits)| **fits);
        let wanted: Vec<Digest> = wanted.map(|(digest, _)| *digest).collect();
        // A call that holds bytes does not wait.
        if let Some(upstream) = &self.parts.upstream {
            let filled = upstream.fill_missing(wanted.clone()).await;
            filled.map_err(|error| status::of(&error))?;
        }
        let permit = self.bytes(bytes).await?;
        let read = self.store.get_entries(wanted, allows_packed).await;
        let mut read = read.map_err(|error| status::of(&error))?.into_iter();
        let responses = digests.iter().zip(fitting).map(|(digest, fits)| {
            let outcome = if fits {
                found(digest, read.next())
            } else {
                Err(Status::resource_exhausted(format!(
                    "the response would be larger than max ({RESPONSE_BYTES_MAX} bytes) with \
                     {digest}; read it by ByteStream"
                )))
            };
            one(digest, outcome)
        });
        let responses: Vec<Response> = responses.collect();
        let (hits, misses) = self.count(&digests, &responses);
        let message = v2::BatchReadBlobsResponse { responses };
        let pieces = pieces::batch_read(message).map_err(|error| status::invalid(&error))?;
        Ok(Reply::pieces(pieces, Some(permit)).with_lookups(hits, misses))
    }

    /// How many blobs were found, and how many were missing. The others did not fit.
    fn count(&self, digests: &[Digest], responses: &[Response]) -> (usize, usize) {
        let codes = responses.iter().map(|one| one.status.as_ref().map_or(0, |status| status.code));
        let (mut hits, mut misses) = (0, 0);
        for (digest, code) in digests.iter().zip(codes) {
            if code == Code::Ok as i32 {
                self.parts.observer.read(digest);
                hits += 1;
            } else if code == Code::NotFound as i32 {
                misses += 1;
            }
        }
        (hits, misses)
    }
}

/// For each blob, whether its bytes fit into the response; and the sum of those.
fn fitting(digests: &[Digest]) -> (Vec<bool>, u64) {
    let overhead = digests.len() as u64 * OVERHEAD_BYTES;
    let mut left = (RESPONSE_BYTES_MAX as u64).saturating_sub(overhead);
    let mut sum = overhead;
    let fits = digests.iter().map(|digest| {
        let fits = digest.len <= left;
        if fits {
            left -= digest.len;
            sum += digest.len;
        }
        fits
    });
    (fits.collect(), sum)
}

fn found(digest: &Digest, read: Option<tidegate::Result<Option<ReadEntry>>>) -> Outcome<ReadEntry> {
    match read {
        Some(Ok(Some(entry))) => Ok(entry),
        Some(Err(error)) => Err(status::of(&error)),
        _ => Err(Status::not_found(format!("the cache does not have {digest}"))),
    }
}

fn one(digest: &Digest, outcome: Outcome<ReadEntry>) -> Response {
    let status = match &outcome {
        Ok(_) => tidegate_reapi::rpc::Status::default(),
        Err(status) => status::in_batch(status),
    };
    let entry = outcome.ok();
    let is_packed = entry.as_ref().is_some_and(|entry| entry.is_packed);
    let compressor = if is_packed { Compressor::Zstd } else { Compressor::Identity };
    Response {
        digest: Some(to_proto(digest)),
        data: entry.map(|entry| entry.data).unwrap_or_default(),
        compressor: compressor as i32,
        status: Some(status),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    #[test]
    fn blobs_are_taken_in_order_while_they_fit() {
        let digest = |len| Digest { function: DigestFunction::Sha256, hash: [7; 32], len };
        let (fits, sum) = fitting(&[digest(3 << 20), digest(2 << 20), digest(512 << 10)]);
        assert_eq!(fits, [true, false, true]);
        assert_eq!(sum, (3 << 20) + (512 << 10) + 3 * OVERHEAD_BYTES);
        let (fits, _) = fitting(&[digest(u64::MAX), digest(0)]);
        assert_eq!(fits, [false, true]);
        assert_eq!(fitting(&[]), (Vec::new(), 0));
    }
}
