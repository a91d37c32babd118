//! Split and splice.

use tidegate::DigestFunction;
use tidegate_reapi::v2;
use tonic::{Code, Status};

use super::bed::{Bed, Blob, blob_of, fails, worked};
use super::{Case, Outcome, batches, ensure};

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("a splice makes a blob of chunks", Box::pin(splices(bed))),
        ("the chunks of a split are there, and make the blob", Box::pin(splits(bed))),
        ("a splice may name a chunk twice", Box::pin(twice(bed))),
        ("a splice with a missing chunk is NOT_FOUND", Box::pin(missing(bed))),
        ("a splice with another digest is INVALID_ARGUMENT", Box::pin(differs(bed))),
        ("a splice of what is there does no harm", Box::pin(again(bed))),
        ("a split of what is not there is NOT_FOUND", Box::pin(unknown(bed))),
    ]
}

async fn splice(bed: &Bed, blob: &Blob, chunks: &[&Blob]) -> Result<Option<v2::Digest>, Status> {
    let request = v2::SpliceBlobRequest {
        instance_name: bed.instance.clone(),
        blob_digest: Some(blob.digest.clone()),
        chunk_digests: chunks.iter().map(|chunk| chunk.digest.clone()).collect(),
        ..v2::SpliceBlobRequest::default()
    };
    Ok(bed.cas().splice_blob(request).await?.into_inner().blob_digest)
}

async fn split(bed: &Bed, blob: &Blob) -> Result<Vec<v2::Digest>, Status> {
    let request = v2::SplitBlobRequest {
        instance_name: bed.instance.clone(),
        blob_digest: Some(blob.digest.clone()),
        ..v2::SplitBlobRequest::default()
    };
    Ok(bed.cas().split_blob(request).await?.into_inner().chunk_digests)
}

fn whole(chunks: &[&Blob]) -> Blob {
    let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect();
    blob_of(DigestFunction::Sha256, bytes)
}

async fn made(bed: &Bed) -> Result<Blob, String> {
    let chunks = [bed.stored(70_000).await?, bed.stored(5000).await?, bed.stored(200_000).await?];
    let chunks: Vec<&Blob> = chunks.iter().collect();
    let blob = whole(&chunks);
    let digest = worked("SpliceBlob", splice(bed, &blob, &chunks).await)?;
    ensure(digest.as_ref() == Some(&blob.digest), || format!("the digest is {digest:?}"))?;
    Ok(blob)
}

async fn splices(bed: &Bed) -> Outcome {
    let blob = made(bed).await?;
    ensure(bed.has(&blob).await?, || "it is missing".to_owned())?;
    bed.expect(&blob).await
}

async fn splits(bed: &Bed) -> Outcome {
    let blob = made(bed).await?;
    let chunks = worked("SplitBlob", split(bed, &blob).await)?;
    let missing = worked("FindMissingBlobs", bed.missing(&chunks).await)?;
    ensure(missing.is_empty(), || format!("missing: {missing:?}"))?;
    let mut all = Vec::new();
    for chunk in chunks {
        let read = worked("BatchReadBlobs", batches::read(bed, vec![chunk], Vec::new()).await)?;
        all.extend(read.into_iter().flat_map(|one| one.data));
    }
    ensure(blob.bytes == all, || "they make another blob".to_owned())
}

async fn twice(bed: &Bed) -> Outcome {
    let chunk = bed.stored(70_000).await?;
    let chunks = [&chunk, &chunk, &chunk];
    let blob = whole(&chunks);
    worked("SpliceBlob", splice(bed, &blob, &chunks).await)?;
    bed.expect(&blob).await
}

async fn missing(bed: &Bed) -> Outcome {
    let (present, absent) = (bed.stored(70_000).await?, bed.blob(70_000));
    let chunks = [&present, &absent];
    let blob = whole(&chunks);
    fails("SpliceBlob", splice(bed, &blob, &chunks).await, &[Code::NotFound])?;
    bed.expect_none(&blob).await
}

async fn differs(bed: &Bed) -> Outcome {
    let chunks = [bed.stored(70_000).await?, bed.stored(60_000).await?];
    let [first, second] = &chunks;
    // The same length, in another order; and another length.
    let swapped = whole(&[second, first]);
    fails("SpliceBlob", splice(bed, &swapped, &[first, second]).await, &[Code::InvalidArgument])?;
    bed.expect_none(&swapped).await?;
    let longer = whole(&[first, second, first]);
    fails("SpliceBlob", splice(bed, &longer, &[first, second]).await, &[Code::InvalidArgument])?;
    bed.expect_none(&longer).await
}

/// The server may take it for done, or say that the blob exists.
async fn again(bed: &Bed) -> Outcome {
    let chunks = [bed.stored(70_000).await?, bed.stored(60_000).await?];
    let chunks: Vec<&Blob> = chunks.iter().collect();
    let blob = whole(&chunks);
    bed.put(&[&blob]).await?;
    if let Err(status) = splice(bed, &blob, &chunks).await {
        fails::<()>("SpliceBlob", Err(status), &[Code::AlreadyExists])?;
    }
    bed.expect(&blob).await
}

async fn unknown(bed: &Bed) -> Outcome {
    fails("SplitBlob", split(bed, &bed.blob(70_000)).await, &[Code::NotFound])
}
