//! A blob as a stream: offsets, limits, names.

use tidegate::DigestFunction;
use tidegate_reapi::bytestream::ReadRequest;
use tonic::{Code, Request};

use super::bed::{Bed, Blob, blob_of, fails, worked};
use super::{Case, Outcome, ensure};

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("a blob of any length is read as a stream", Box::pin(lengths(bed))),
        ("read_offset and read_limit are exact", Box::pin(ranges(bed))),
        ("a read from the end is empty", Box::pin(at_end(bed))),
        ("a read_offset that is negative is OUT_OF_RANGE", Box::pin(negative_offset(bed))),
        ("a read_offset beyond the end is OUT_OF_RANGE", Box::pin(beyond_end(bed))),
        ("a read_limit that is negative is an error", Box::pin(negative_limit(bed))),
        ("a blob that is not there is NOT_FOUND", Box::pin(absent(bed))),
        ("the empty blob can be read", Box::pin(empty(bed))),
        ("a name for reading that is malformed is INVALID_ARGUMENT", Box::pin(malformed(bed))),
        ("the header resource-name may be sent", Box::pin(header(bed))),
    ]
}

async fn lengths(bed: &Bed) -> Outcome {
    for len in [1, 4096, 65_536, 65_537, 1_000_000, 3_500_000] {
        let blob = bed.stored(len).await?;
        bed.expect(&blob).await?;
    }
    Ok(())
}

async fn ranges(bed: &Bed) -> Outcome {
    for len in [1000, 300_000] {
        let blob = bed.stored(len).await?;
        let name = bed.read_name(&blob);
        let middle = len / 2;
        for (offset, limit) in [
            (0, 1),
            (1, 0),
            (middle, 0),
            (middle, 100),
            (len - 1, 0),
            (len - 1, 1),
            (len - 1, 50),
            (0, len),
            (0, len + 1),
        ] {
            let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
            let read = bed.read(&name, number(offset), number(limit)).await;
            let read = worked(&format!("Read from {offset}, limit {limit}"), read)?;
            let end = if limit == 0 { len } else { len.min(offset + limit) };
            let is_right = read == blob.bytes.slice(offset..end);
            ensure(is_right, || format!("from {offset}, limit {limit}: {} bytes", read.len()))?;
        }
    }
    Ok(())
}

async fn at_end(bed: &Bed) -> Outcome {
    let blob = bed.stored(1000).await?;
    let read = worked("Read", bed.read(&bed.read_name(&blob), 1000, 0).await)?;
    ensure(read.is_empty(), || format!("{} bytes", read.len()))
}

async fn negative_offset(bed: &Bed) -> Outcome {
    let name = bed.read_name(&bed.stored(1000).await?);
    fails("Read", bed.read(&name, -1, 0).await, &[Code::OutOfRange])
}

async fn beyond_end(bed: &Bed) -> Outcome {
    let name = bed.read_name(&bed.stored(1000).await?);
    fails("Read", bed.read(&name, 1001, 0).await, &[Code::OutOfRange])?;
    fails("Read", bed.read(&name, i64::MAX, 0).await, &[Code::OutOfRange])
}

async fn negative_limit(bed: &Bed) -> Outcome {
    let name = bed.read_name(&bed.stored(1000).await?);
    fails("Read", bed.read(&name, 0, -1).await, &[])
}

async fn absent(bed: &Bed) -> Outcome {
    let blob = bed.blob(1000);
    fails("Read", bed.read(&bed.read_name(&blob), 0, 0).await, &[Code::NotFound])?;
    let mut other = bed.stored(1000).await?;
    other.digest.size_bytes += 1;
    let codes = [Code::NotFound, Code::InvalidArgument];
    fails("Read of another length", bed.read(&bed.read_name(&other), 0, 0).await, &codes)
}

async fn empty(bed: &Bed) -> Outcome {
    let empty: Blob = blob_of(DigestFunction::Sha256, Vec::new());
    let read = worked("Read", bed.read(&bed.read_name(&empty), 0, 0).await)?;
    ensure(read.is_empty(), || format!("{} bytes", read.len()))
}

async fn malformed(bed: &Bed) -> Outcome {
    let prefix = bed.prefix();
    let blob = bed.stored(10).await?;
    let hash = &blob.digest.hash;
    for name in [
        String::new(),
        format!("{prefix}blobs"),
        format!("{prefix}blobs/{hash}"),
        format!("{prefix}blobs/{}/10", &hash[1..]),
        format!("{prefix}blobs/{}/10", "x".repeat(64)),
        format!("{prefix}blobs/{hash}/ten"),
        format!("{prefix}blobs/{hash}/-10"),
        format!("{prefix}compressed-blobs/none/{hash}/10"),
    ] {
        let read = bed.read(&name, 0, 0).await;
        fails(&format!("Read of '{name}'"), read, &[Code::InvalidArgument])?;
    }
    Ok(())
}

async fn header(bed: &Bed) -> Outcome {
    let blob = bed.stored(1000).await?;
    let resource_name = bed.read_name(&blob);
    let value = resource_name.parse().map_err(|error| format!("{error}"))?;
    let read = ReadRequest { resource_name, read_offset: 0, read_limit: 0 };
    let mut request = Request::new(read);
    request.metadata_mut().insert("build.bazel.remote.execution.v2.resource-name", value);
    let mut messages = worked("Read", bed.streams().read(request).await)?.into_inner();
    let mut len = 0;
    while let Some(message) = worked("Read", messages.message().await)? {
        len += message.data.len();
    }
    ensure(len == 1000, || format!("{len} bytes"))
}
