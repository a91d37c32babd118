//! A blob as a stream: messages, early answers, mismatches.

use futures_util::{StreamExt as _, stream};
use tidegate::DigestFunction;
use tidegate_reapi::bytestream::WriteRequest;
use tonic::Code;

use super::bed::{Bed, Blob, blob_of, fails, is, messages};
use super::{Case, Outcome};

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("a write of any length commits the whole size", Box::pin(lengths(bed))),
        ("messages may be empty, and may repeat the name", Box::pin(forms(bed))),
        ("metadata may follow the size", Box::pin(metadata(bed))),
        ("a write of what is there ends at once with the size", Box::pin(early(bed))),
        ("bytes that differ are INVALID_ARGUMENT and not stored", Box::pin(differs(bed))),
        ("too few bytes are INVALID_ARGUMENT and not stored", Box::pin(too_few(bed))),
        ("too many bytes are INVALID_ARGUMENT and not stored", Box::pin(too_many(bed))),
        ("a first message without a name is an error", Box::pin(no_name(bed))),
        ("another name in a later message is an error", Box::pin(other_name(bed))),
        ("a wrong offset in a later message is an error", Box::pin(wrong_offset(bed))),
        ("a message after finish_write is an error", Box::pin(after_finish(bed))),
        ("writes of one blob at once all succeed", Box::pin(at_once(bed))),
        ("the empty blob can be written", Box::pin(empty(bed))),
        ("a name for writing that is malformed is INVALID_ARGUMENT", Box::pin(malformed(bed))),
    ]
}

/// One length below, and one above, what servers keep in memory.
const LENGTHS: [usize; 2] = [3000, 300_000];

async fn lengths(bed: &Bed) -> Outcome {
    for (len, each) in [(1, 1), (4096, 4096), (4096, 1000), (65_537, 7000), (3_000_000, 65_536)] {
        let blob = bed.blob(len);
        let written = bed.write_all(messages(&bed.write_name(&blob), &blob.bytes, each, 0)).await;
        is(&format!("Write of {len} bytes"), written, &blob.digest.size_bytes)?;
        bed.expect(&blob).await?;
    }
    Ok(())
}

async fn forms(bed: &Bed) -> Outcome {
    let blob = bed.blob(3000);
    let name = bed.write_name(&blob);
    let mut sent = messages(&name, &blob.bytes, 1000, 0);
    let empty = WriteRequest { write_offset: 1000, ..WriteRequest::default() };
    sent.insert(1, empty);
    for message in &mut sent {
        message.resource_name.clone_from(&name);
    }
    is("Write", bed.write_all(sent).await, &3000)?;
    bed.expect(&blob).await?;
    // The first and the last message without data.
    let blob = bed.blob(3000);
    let name = bed.write_name(&blob);
    let mut sent = messages(&name, &blob.bytes, 1000, 0);
    sent[0].resource_name.clear();
    sent[2].finish_write = false;
    sent.insert(0, WriteRequest { resource_name: name, ..WriteRequest::default() });
    sent.push(WriteRequest { write_offset: 3000, finish_write: true, ..WriteRequest::default() });
    is("Write with empty ends", bed.write_all(sent).await, &3000)?;
    bed.expect(&blob).await
}

async fn metadata(bed: &Bed) -> Outcome {
    let blob = bed.blob(1000);
    let name = format!("{}/some/metadata.txt", bed.write_name(&blob));
    is("Write", bed.write_all(messages(&name, &blob.bytes, 500, 0)).await, &1000)?;
    bed.expect(&blob).await
}

/// The request never ends, so only an early answer ends the call.
async fn early(bed: &Bed) -> Outcome {
    for len in LENGTHS {
        let blob = bed.stored(len).await?;
        let mut sent = messages(&bed.write_name(&blob), &blob.bytes, len / 3, 0);
        sent.truncate(1);
        let written = bed.write(stream::iter(sent).chain(stream::pending())).await;
        is("Write", written, &blob.digest.size_bytes)?;
    }
    Ok(())
}

async fn refused(bed: &Bed, blob: &Blob, bytes: &[u8]) -> Outcome {
    let written = bed.write_all(messages(&bed.write_name(blob), bytes, 50_000, 0)).await;
    fails("Write", written, &[Code::InvalidArgument])?;
    bed.expect_none(blob).await
}

async fn differs(bed: &Bed) -> Outcome {
    for len in LENGTHS {
        refused(bed, &bed.blob(len), &bed.blob(len).bytes).await?;
    }
    Ok(())
}

async fn too_few(bed: &Bed) -> Outcome {
    for len in LENGTHS {
        let blob = bed.blob(len);
        refused(bed, &blob, &blob.bytes[..len - 1]).await?;
    }
    Ok(())
}

async fn too_many(bed: &Bed) -> Outcome {
    for len in LENGTHS {
        let blob = bed.blob(len);
        let longer = [&blob.bytes[..], b"x"].concat();
        refused(bed, &blob, &longer).await?;
    }
    Ok(())
}

/// A write that `change` makes wrong.
async fn changed(bed: &Bed, change: impl Fn(&mut Vec<WriteRequest>)) -> Outcome {
    for len in LENGTHS {
        let blob = bed.blob(len);
        let mut sent = messages(&bed.write_name(&blob), &blob.bytes, len / 3, 0);
        change(&mut sent);
        fails("Write", bed.write_all(sent).await, &[])?;
        bed.expect_none(&blob).await?;
    }
    Ok(())
}

async fn no_name(bed: &Bed) -> Outcome {
    changed(bed, |sent| sent[0].resource_name.clear()).await
}

async fn other_name(bed: &Bed) -> Outcome {
    let other = bed.write_name(&bed.blob(10));
    changed(bed, |sent| sent[1].resource_name.clone_from(&other)).await
}

async fn wrong_offset(bed: &Bed) -> Outcome {
    changed(bed, |sent| sent[1].write_offset += 1).await?;
    changed(bed, |sent| sent[1].write_offset = 0).await
}

/// The blob itself may be stored.
async fn after_finish(bed: &Bed) -> Outcome {
    let blob = bed.blob(3000);
    let mut sent = messages(&bed.write_name(&blob), &blob.bytes[..2000], 1000, 0);
    sent.extend(messages("", &blob.bytes[2000..], 1000, 2000));
    fails("Write", bed.write_all(sent).await, &[])?;
    bed.expect_none(&blob).await
}

async fn at_once(bed: &Bed) -> Outcome {
    for len in LENGTHS {
        let blob = bed.blob(len);
        let writes = (0..8).map(|_| {
            let sent = messages(&bed.write_name(&blob), &blob.bytes, 10_000, 0);
            bed.write_all(sent)
        });
        for written in futures_util::future::join_all(writes).await {
            is("Write", written, &blob.digest.size_bytes)?;
        }
        bed.expect(&blob).await?;
    }
    Ok(())
}

async fn empty(bed: &Bed) -> Outcome {
    let empty = blob_of(DigestFunction::Sha256, Vec::new());
    let only = WriteRequest {
        resource_name: bed.write_name(&empty),
        finish_write: true,
        ..WriteRequest::default()
    };
    is("Write", bed.write_all(vec![only]).await, &0)
}

async fn malformed(bed: &Bed) -> Outcome {
    let prefix = bed.prefix();
    let blob = bed.blob(10);
    let hash = &blob.digest.hash;
    let uuid = "4f3a9c1e-0000-4000-8000-0000000000a1";
    for name in [
        format!("{prefix}uploads/{uuid}"),
        format!("{prefix}uploads/{uuid}/blobs/{hash}"),
        format!("{prefix}uploads/{uuid}/blobs/{}/10", &hash[1..]),
        format!("{prefix}uploads/{uuid}/blobs/{hash}/-10"),
        format!("{prefix}uploads/{uuid}/compressed-blobs/none/{hash}/10"),
        format!("{prefix}blobs/{hash}/10"),
    ] {
        let written = bed.write_all(messages(&name, &blob.bytes, 10, 0)).await;
        fails(&format!("Write of '{name}'"), written, &[Code::InvalidArgument])?;
    }
    Ok(())
}
