//! Streams and batches with zstd.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tidegate::DigestFunction;
use tidegate_reapi::v2::compressor;
use tonic::Code;

use super::bed::{Bed, Blob, blob_of, code, entry, fails, is, messages, worked};
use super::{Case, Outcome, batches, ensure};

const ZSTD: i32 = compressor::Value::Zstd as i32;

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = vec![
        ("a compressed write stores the blob", Box::pin(write(bed))),
        ("a blob that came plain is read compressed", Box::pin(read(bed))),
        ("read_offset of a compressed read counts plain bytes", Box::pin(offset(bed))),
        ("a compressed read with a read_limit is INVALID_ARGUMENT", Box::pin(limit(bed))),
        ("the empty blob can be read compressed", Box::pin(empty(bed))),
        ("a compressed write of what is there ends with -1", Box::pin(early(bed))),
        ("compressed bytes that differ are INVALID_ARGUMENT", Box::pin(differs(bed))),
        ("a frame that is cut is INVALID_ARGUMENT", Box::pin(cut(bed))),
        ("a batch returns zstd only where it is accepted", Box::pin(batch_read(bed))),
    ];
    if bed.cache().supported_batch_update_compressors.contains(&ZSTD) {
        cases.push(("a batch takes compressed blobs", Box::pin(batch_update(bed))));
    }
    cases
}

fn packed(bytes: &[u8]) -> Result<Vec<u8>, String> {
    zstd::bulk::compress(bytes, 1).map_err(|error| error.to_string())
}

fn unpacked(bytes: &[u8]) -> Result<Bytes, String> {
    let unpacked = zstd::stream::decode_all(bytes).map_err(|error| error.to_string())?;
    Ok(unpacked.into())
}

fn compressed(name: &str) -> String {
    name.replacen("blobs/", "compressed-blobs/zstd/", 1)
}

/// Text and noise, short and long.
fn samples(bed: &Bed) -> Vec<Blob> {
    let unique = bed.blob(16).bytes;
    let text = |count| {
        blob_of(DigestFunction::Sha256, [&unique[..], b"and so on "].concat().repeat(count))
    };
    vec![text(20), text(50_000), bed.blob(1000), bed.blob(500_000)]
}

async fn write(bed: &Bed) -> Outcome {
    for blob in samples(bed) {
        let name = compressed(&bed.write_name(&blob));
        let sent = messages(&name, &packed(&blob.bytes)?, 10_000, 0);
        worked("Write", bed.write_all(sent).await)?;
        bed.expect(&blob).await?;
    }
    Ok(())
}

async fn read(bed: &Bed) -> Outcome {
    for blob in samples(bed) {
        bed.put(&[&blob]).await?;
        let read = bed.read(&compressed(&bed.read_name(&blob)), 0, 0).await;
        let read = unpacked(&worked("Read", read)?)?;
        ensure(read == blob.bytes, || format!("other bytes ({})", read.len()))?;
    }
    Ok(())
}

async fn offset(bed: &Bed) -> Outcome {
    for blob in samples(bed) {
        bed.put(&[&blob]).await?;
        let name = compressed(&bed.read_name(&blob));
        for start in [1, blob.bytes.len() / 2, blob.bytes.len() - 1] {
            let offset = i64::try_from(start).unwrap_or(i64::MAX);
            let read = unpacked(&worked("Read", bed.read(&name, offset, 0).await)?)?;
            let is_right = read == blob.bytes.slice(start..);
            ensure(is_right, || format!("from {start}: other bytes ({})", read.len()))?;
        }
    }
    Ok(())
}

async fn limit(bed: &Bed) -> Outcome {
    let name = compressed(&bed.read_name(&bed.stored(1000).await?));
    fails("Read", bed.read(&name, 0, 10).await, &[Code::InvalidArgument])
}

async fn empty(bed: &Bed) -> Outcome {
    let empty = blob_of(DigestFunction::Sha256, Vec::new());
    let read = worked("Read", bed.read(&compressed(&bed.read_name(&empty)), 0, 0).await)?;
    let read = unpacked(&read)?;
    ensure(read.is_empty(), || format!("{} bytes", read.len()))
}

async fn early(bed: &Bed) -> Outcome {
    for len in [1000, 300_000] {
        let blob = bed.stored(len).await?;
        let name = compressed(&bed.write_name(&blob));
        let mut sent = messages(&name, &packed(&blob.bytes)?, len / 3, 0);
        sent.truncate(1);
        let written = bed.write(stream::iter(sent).chain(stream::pending())).await;
        is("Write", written, &-1)?;
    }
    Ok(())
}

async fn refused(bed: &Bed, blob: &Blob, bytes: &[u8]) -> Outcome {
    let sent = messages(&compressed(&bed.write_name(blob)), bytes, 50_000, 0);
    fails("Write", bed.write_all(sent).await, &[Code::InvalidArgument])?;
    bed.expect_none(blob).await
}

async fn differs(bed: &Bed) -> Outcome {
    for len in [1000, 300_000] {
        let blob = bed.blob(len);
        refused(bed, &blob, &packed(&bed.blob(len).bytes)?).await?;
        refused(bed, &blob, &packed(&blob.bytes[..len - 1])?).await?;
        let longer = [&blob.bytes[..], b"x"].concat();
        refused(bed, &blob, &packed(&longer)?).await?;
        // Bytes that are no frame at all.
        refused(bed, &blob, &blob.bytes).await?;
    }
    Ok(())
}

async fn cut(bed: &Bed) -> Outcome {
    for len in [1000, 300_000] {
        let blob = bed.blob(len);
        let frame = packed(&blob.bytes)?;
        refused(bed, &blob, &frame[..frame.len() - 1]).await?;
    }
    Ok(())
}

async fn batch_read(bed: &Bed) -> Outcome {
    for blob in samples(bed) {
        bed.put(&[&blob]).await?;
        let responses = batches::read(bed, vec![blob.digest.clone()], vec![ZSTD]).await;
        let responses = worked("BatchReadBlobs", responses)?;
        let found = responses.first().ok_or("no response")?;
        let bytes = match found.compressor {
            0 => found.data.clone(),
            ZSTD => unpacked(&found.data)?,
            other => return Err(format!("compressor {other}")),
        };
        ensure(bytes == blob.bytes, || format!("other bytes ({})", bytes.len()))?;
    }
    Ok(())
}

async fn batch_update(bed: &Bed) -> Outcome {
    for blob in samples(bed) {
        let mut request = entry(&blob);
        request.data = packed(&blob.bytes)?.into();
        request.compressor = ZSTD;
        let mut wrong = entry(&bed.blob(blob.bytes.len()));
        wrong.data = request.data.clone();
        wrong.compressor = ZSTD;
        let response = worked("BatchUpdateBlobs", bed.update(vec![request, wrong]).await)?;
        let codes: Vec<Code> =
            response.responses.iter().map(|one| code(one.status.as_ref())).collect();
        ensure(codes == [Code::Ok, Code::InvalidArgument], || format!("statuses {codes:?}"))?;
        bed.expect(&blob).await?;
    }
    Ok(())
}
