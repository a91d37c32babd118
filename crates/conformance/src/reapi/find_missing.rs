//! Which blobs are missing.

use tidegate::DigestFunction;
use tidegate_reapi::v2::{self, digest_function};
use tonic::Code;

use super::bed::{Bed, blob_of, fails, is, worked};
use super::{Case, Outcome, ensure};

/// More digests than one frame of HTTP/2 holds.
const MANY: usize = 5000;

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("a blob is missing until it is sent", Box::pin(until_sent(bed))),
        ("a question for no blob has an empty answer", Box::pin(nothing(bed))),
        ("a digest that is asked for twice is answered", Box::pin(twice(bed))),
        ("the empty blob is never missing", Box::pin(empty(bed))),
        ("the missing ones among thousands are found", Box::pin(many(bed))),
        ("a blob with another length is missing or invalid", Box::pin(other_length(bed))),
        ("the digest function SHA256 may be named", Box::pin(function(bed))),
        ("a digest that is malformed is INVALID_ARGUMENT", Box::pin(malformed(bed))),
    ]
}

async fn until_sent(bed: &Bed) -> Outcome {
    for len in [1, 1000, 300_000] {
        let blob = bed.blob(len);
        bed.expect_none(&blob).await?;
        bed.put(&[&blob]).await?;
        ensure(bed.has(&blob).await?, || format!("a blob of {len} bytes is missing"))?;
    }
    Ok(())
}

async fn nothing(bed: &Bed) -> Outcome {
    is("FindMissingBlobs", bed.missing(&[]).await, &Vec::new())
}

async fn twice(bed: &Bed) -> Outcome {
    let (absent, present) = (bed.blob(100), bed.stored(100).await?);
    let asked = [&absent, &present, &absent, &present].map(|blob| blob.digest.clone());
    let mut missing = worked("FindMissingBlobs", bed.missing(&asked).await)?;
    missing.dedup();
    ensure(missing == [absent.digest], || format!("missing: {missing:?}"))
}

async fn empty(bed: &Bed) -> Outcome {
    let empty = blob_of(DigestFunction::Sha256, Vec::new());
    ensure(bed.has(&empty).await?, || "it is missing".to_owned())
}

async fn many(bed: &Bed) -> Outcome {
    let stored = bed.stored(50).await?;
    let mut digests: Vec<v2::Digest> = (0..MANY).map(|_| bed.blob(8).digest).collect();
    let expected = digests.clone();
    digests.insert(MANY / 2, stored.digest);
    let mut missing = worked("FindMissingBlobs", bed.missing(&digests).await)?;
    // The definitions give no order.
    let mut expected = expected;
    missing.sort_by(|one, other| one.hash.cmp(&other.hash));
    expected.sort_by(|one, other| one.hash.cmp(&other.hash));
    ensure(missing == expected, || format!("{} of {MANY} are missing", missing.len()))
}

async fn other_length(bed: &Bed) -> Outcome {
    let mut digest = bed.stored(100).await?.digest;
    digest.size_bytes += 1;
    match bed.missing(std::slice::from_ref(&digest)).await {
        Ok(missing) => ensure(missing == [digest], || "it is there".to_owned()),
        Err(status) => fails::<()>("FindMissingBlobs", Err(status), &[Code::InvalidArgument]),
    }
}

async fn function(bed: &Bed) -> Outcome {
    let (absent, present) = (bed.blob(100), bed.stored(100).await?);
    let request = v2::FindMissingBlobsRequest {
        instance_name: bed.instance.clone(),
        blob_digests: vec![absent.digest.clone(), present.digest],
        digest_function: digest_function::Value::Sha256 as i32,
    };
    let response = worked("FindMissingBlobs", bed.cas().find_missing_blobs(request).await)?;
    let missing = response.into_inner().missing_blob_digests;
    ensure(missing == [absent.digest], || format!("missing: {missing:?}"))
}

async fn malformed(bed: &Bed) -> Outcome {
    let sound = bed.blob(100).digest;
    let with = |hash: &str, size_bytes| v2::Digest { hash: hash.to_owned(), size_bytes };
    for digest in [
        with("", 5),
        with("12", 5),
        with(&sound.hash[1..], 100),
        with(&"x".repeat(64), 100),
        with(&sound.hash, -1),
    ] {
        let missing = bed.missing(std::slice::from_ref(&digest)).await;
        fails(&format!("FindMissingBlobs of {digest:?}"), missing, &[Code::InvalidArgument])?;
    }
    Ok(())
}
