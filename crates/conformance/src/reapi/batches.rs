//! Many blobs in one message.

use tidegate::DigestFunction;
use tidegate_reapi::v2::{self, batch_read_blobs_response};
use tonic::{Code, Status};

use super::bed::{Bed, Blob, blob_of, code, entry, fails, worked};
use super::{Case, Outcome, ensure};

/// The size of a batch if the server names no limit: that of gRPC's libraries, less the digests.
const BATCH_BYTES: i64 = 3 << 20;

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("a batch stores blobs, and a batch returns them", Box::pin(round_trip(bed))),
        ("a batch of nothing is answered", Box::pin(nothing(bed))),
        ("a blob of a batch whose bytes differ fails alone", Box::pin(one_differs(bed))),
        ("a blob may be twice in a batch", Box::pin(twice(bed))),
        ("a missing blob of a batch fails alone with NOT_FOUND", Box::pin(one_missing(bed))),
        ("the empty blob can be put and read by a batch", Box::pin(empty(bed))),
        ("no blob is compressed for who did not ask", Box::pin(plain(bed))),
        ("a batch of the advertised size is stored and read", Box::pin(full(bed))),
        ("a batch above the limit is refused, or right", Box::pin(above_limit(bed))),
        ("a digest in a batch that is malformed is INVALID_ARGUMENT", Box::pin(malformed(bed))),
        ("blobs by BLAKE3, if offered, are named by it", Box::pin(blake3(bed))),
    ]
}

pub(super) async fn read(
    bed: &Bed,
    digests: Vec<v2::Digest>,
    acceptable_compressors: Vec<i32>,
) -> Result<Vec<batch_read_blobs_response::Response>, Status> {
    let request = v2::BatchReadBlobsRequest {
        instance_name: bed.instance.clone(),
        digests,
        acceptable_compressors,
        digest_function: 0,
    };
    Ok(bed.cas().batch_read_blobs(request).await?.into_inner().responses)
}

/// The response for a blob.
fn of<'a>(
    responses: &'a [batch_read_blobs_response::Response],
    blob: &Blob,
) -> Result<&'a batch_read_blobs_response::Response, String> {
    let found = responses.iter().find(|one| one.digest.as_ref() == Some(&blob.digest));
    found.ok_or_else(|| format!("no response for {:?}", blob.digest))
}

async fn round_trip(bed: &Bed) -> Outcome {
    let blobs: Vec<Blob> = [1, 100, 5000, 70_000, 400_000].map(|len| bed.blob(len)).into();
    let response = worked("update", bed.update(blobs.iter().map(entry).collect()).await)?;
    for blob in &blobs {
        let ours =
            response.responses.iter().filter(|one| one.digest.as_ref() == Some(&blob.digest));
        let codes: Vec<Code> = ours.map(|one| code(one.status.as_ref())).collect();
        ensure(codes == [Code::Ok], || format!("{:?}: statuses {codes:?}", blob.digest))?;
    }
    let digests = blobs.iter().map(|blob| blob.digest.clone()).collect();
    let responses = worked("BatchReadBlobs", read(bed, digests, Vec::new()).await)?;
    ensure(responses.len() == blobs.len(), || format!("{} responses", responses.len()))?;
    for blob in &blobs {
        let found = of(&responses, blob)?;
        ensure(found.data == blob.bytes, || format!("other bytes ({})", found.data.len()))?;
    }
    Ok(())
}

async fn nothing(bed: &Bed) -> Outcome {
    let updated = worked("BatchUpdateBlobs", bed.update(Vec::new()).await)?;
    ensure(updated.responses.is_empty(), || format!("{updated:?}"))?;
    let responses = worked("BatchReadBlobs", read(bed, Vec::new(), Vec::new()).await)?;
    ensure(responses.is_empty(), || format!("{responses:?}"))
}

async fn one_differs(bed: &Bed) -> Outcome {
    for len in [100, 100_000] {
        let (sound, wrong) = (bed.blob(len), bed.blob(len));
        let mut requests = vec![entry(&wrong), entry(&sound)];
        requests[0].data = bed.blob(len).bytes;
        let response = worked("BatchUpdateBlobs", bed.update(requests).await)?;
        for (blob, expected) in [(&wrong, Code::InvalidArgument), (&sound, Code::Ok)] {
            let mut ours = response.responses.iter();
            let found = ours.find(|one| one.digest.as_ref() == Some(&blob.digest));
            let found = found.map(|one| code(one.status.as_ref()));
            ensure(found == Some(expected), || format!("expected {expected:?}, got {found:?}"))?;
        }
        bed.expect_none(&wrong).await?;
        bed.expect(&sound).await?;
    }
    Ok(())
}

async fn twice(bed: &Bed) -> Outcome {
    let blob = bed.blob(1000);
    bed.put(&[&blob, &blob]).await?;
    let digests = vec![blob.digest.clone(), blob.digest.clone()];
    let responses = worked("BatchReadBlobs", read(bed, digests, Vec::new()).await)?;
    let are_right = responses.iter().all(|one| one.data == blob.bytes);
    ensure(are_right && !responses.is_empty(), || format!("{} responses", responses.len()))
}

async fn one_missing(bed: &Bed) -> Outcome {
    let (absent, present) = (bed.blob(100), bed.stored(100).await?);
    let digests = vec![absent.digest.clone(), present.digest.clone()];
    let responses = worked("BatchReadBlobs", read(bed, digests, Vec::new()).await)?;
    let found = code(of(&responses, &absent)?.status.as_ref());
    ensure(found == Code::NotFound, || format!("the status is {found:?}"))?;
    let found = of(&responses, &present)?;
    ensure(code(found.status.as_ref()) == Code::Ok, || format!("{found:?}"))?;
    ensure(found.data == present.bytes, || "other bytes".to_owned())
}

async fn empty(bed: &Bed) -> Outcome {
    let empty = blob_of(DigestFunction::Sha256, Vec::new());
    let responses =
        worked("BatchReadBlobs", read(bed, vec![empty.digest.clone()], Vec::new()).await)?;
    let found = of(&responses, &empty)?;
    ensure(code(found.status.as_ref()) == Code::Ok, || format!("{found:?}"))?;
    bed.put(&[&empty]).await
}

async fn plain(bed: &Bed) -> Outcome {
    let blob = blob_of(DigestFunction::Sha256, b"compressible ".repeat(5000));
    bed.put(&[&blob]).await?;
    let digests = vec![blob.digest.clone()];
    let responses = worked("BatchReadBlobs", read(bed, digests, Vec::new()).await)?;
    let found = of(&responses, &blob)?;
    ensure(found.compressor == 0, || format!("compressor {}", found.compressor))?;
    ensure(found.data == blob.bytes, || "other bytes".to_owned())
}

/// The advertised size, at most 4 MiB.
fn limit(bed: &Bed) -> i64 {
    match bed.cache().max_batch_total_size_bytes {
        0 => BATCH_BYTES,
        limit => limit.min(4 << 20),
    }
}

/// The limit is of the blobs' bytes; servers differ in whether digests count, so a tenth is left.
async fn full(bed: &Bed) -> Outcome {
    let len = usize::try_from(limit(bed) * 9 / 10 / 100).unwrap_or(usize::MAX);
    let blobs: Vec<Blob> = (0..100).map(|_| bed.blob(len)).collect();
    bed.put(&blobs.iter().collect::<Vec<_>>()).await?;
    let digests = blobs.iter().map(|blob| blob.digest.clone()).collect();
    let responses = worked("BatchReadBlobs", read(bed, digests, Vec::new()).await)?;
    for blob in &blobs {
        ensure(of(&responses, blob)?.data == blob.bytes, || "other bytes".to_owned())?;
    }
    Ok(())
}

/// `INVALID_ARGUMENT` for the call, or a status for each blob.
async fn above_limit(bed: &Bed) -> Outcome {
    let len = usize::try_from(limit(bed) / 4).unwrap_or(usize::MAX);
    let blobs: Vec<Blob> = (0..6).map(|_| bed.blob(len)).collect();
    match bed.update(blobs.iter().map(entry).collect()).await {
        Err(status) => {
            let refused = [Code::InvalidArgument, Code::ResourceExhausted, Code::OutOfRange];
            fails::<()>("BatchUpdateBlobs", Err(status), &refused)?;
        }
        Ok(response) => {
            let count = response.responses.len();
            ensure(count == blobs.len(), || format!("{count} responses"))?;
        }
    }
    // Each is sent alone, so that all are there.
    for blob in &blobs {
        bed.put(&[blob]).await?;
    }
    let digests = blobs.iter().map(|blob| blob.digest.clone()).collect();
    match read(bed, digests, Vec::new()).await {
        Err(status) => fails::<()>("BatchReadBlobs", Err(status), &[Code::InvalidArgument]),
        Ok(responses) => {
            for blob in &blobs {
                let found = of(&responses, blob)?;
                let is_ok = code(found.status.as_ref()) == Code::Ok;
                let is_right = !is_ok || found.data == blob.bytes;
                ensure(is_right, || format!("OK with {} bytes", found.data.len()))?;
            }
            Ok(())
        }
    }
}

/// The call or the blob is refused.
async fn malformed(bed: &Bed) -> Outcome {
    let sound = bed.blob(100);
    let mut request = entry(&sound);
    request.digest = Some(v2::Digest { hash: "12".to_owned(), size_bytes: 100 });
    match bed.update(vec![request]).await {
        Err(status) => fails::<()>("BatchUpdateBlobs", Err(status), &[Code::InvalidArgument]),
        Ok(response) => {
            let codes: Vec<Code> =
                response.responses.iter().map(|one| code(one.status.as_ref())).collect();
            ensure(codes == [Code::InvalidArgument], || format!("statuses {codes:?}"))
        }
    }
}

async fn blake3(bed: &Bed) -> Outcome {
    let blake3 = v2::digest_function::Value::Blake3;
    if !bed.offers_function(blake3) {
        return Ok(());
    }
    let blob = bed.blob_of(DigestFunction::Blake3, 5000);
    let request = v2::BatchUpdateBlobsRequest {
        instance_name: bed.instance.clone(),
        requests: vec![entry(&blob)],
        digest_function: blake3 as i32,
    };
    let response = worked("BatchUpdateBlobs", bed.cas().batch_update_blobs(request).await)?;
    let response = response.into_inner();
    let found = response.responses.first().map(|one| code(one.status.as_ref()));
    ensure(found == Some(Code::Ok), || format!("{response:?}"))?;
    let digest = &blob.digest;
    let name = format!("{}blobs/blake3/{}/{}", bed.prefix(), digest.hash, digest.size_bytes);
    let read = worked("Read", bed.read(&name, 0, 0).await)?;
    ensure(read == blob.bytes, || "other bytes".to_owned())?;
    // The same hash names nothing by another function.
    bed.expect_none(&blob).await
}
