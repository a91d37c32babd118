//! `FindMissingBlobs`.

use tidegate_reapi::v2;

use super::{
    blob_name::{BlobName, HashFunction},
    call::{Call, Stop},
    counts::BatchSize,
    fault::FindMissingLie,
    hostile::{Asked, Named, tell_digests},
    rpc::Rpc,
};

pub(crate) async fn serve(call: &mut Call) -> Result<(), Stop> {
    let request: v2::FindMissingBlobsRequest = call.request().await?;
    let hashes = request.blob_digests.iter().map(|digest| digest.hash.clone()).collect();
    let plan = call.admit(hashes, 0).await?;
    call.check_instance(&request.instance_name)?;
    let function = HashFunction::of_number(request.digest_function)?;
    let mut asked = Vec::with_capacity(request.blob_digests.len());
    for digest in &request.blob_digests {
        asked.push(BlobName::of_message(function, Some(digest))?);
    }
    let bytes = asked.iter().map(|name| name.len_bytes).fold(0, u64::saturating_add);
    call.shared.ledger.batch(BatchSize { rpc: Rpc::FindMissing, blobs: asked.len(), bytes });
    call.asked = Asked::FindMissing(asked.clone());
    let cas = &call.cas;
    let mut missing: Vec<_> = match plan.find_missing {
        Some(FindMissingLie::Everything) => asked.clone(),
        Some(FindMissingLie::Nothing) => Vec::new(),
        Some(FindMissingLie::Foreign | FindMissingLie::Twice) | None => {
            asked.iter().filter(|name| !cas.claims(name)).cloned().collect()
        }
    };
    match plan.find_missing {
        Some(FindMissingLie::Foreign) => missing.push(function.name(b"never asked for")),
        Some(FindMissingLie::Twice) => missing.extend(missing.clone()),
        Some(FindMissingLie::Everything | FindMissingLie::Nothing) | None => {}
    }
    let mut missing = missing.iter().map(BlobName::message).collect();
    tell_digests(&plan.lies, &mut missing, &Named { function, asked: &asked });
    call.give(plan, &v2::FindMissingBlobsResponse { missing_blob_digests: missing }).await
}
