//! Writes that are interrupted: `QueryWriteStatus`, and a write that continues.

use tidegate_reapi::bytestream::{QueryWriteStatusRequest, QueryWriteStatusResponse};
use tonic::{Code, Status};

use super::bed::{Bed, fails, is, messages, worked};
use super::{Case, Outcome, ensure};

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("the status of a finished write is complete", Box::pin(complete(bed))),
        ("a write that never began is NOT_FOUND or incomplete", Box::pin(unknown(bed))),
        ("a write without finish_write is not complete", Box::pin(unfinished(bed))),
        ("a write continues at its committed size", Box::pin(continues(bed))),
        ("a write that continues at another offset is an error", Box::pin(elsewhere(bed))),
    ]
}

const LEN: usize = 300_000;
const SENT: usize = 200_000;

async fn status(bed: &Bed, name: &str) -> Result<QueryWriteStatusResponse, Status> {
    let request = QueryWriteStatusRequest { resource_name: name.to_owned() };
    Ok(bed.streams().query_write_status(request).await?.into_inner())
}

async fn complete(bed: &Bed) -> Outcome {
    let blob = bed.blob(LEN);
    let name = bed.write_name(&blob);
    worked("Write", bed.write_all(messages(&name, &blob.bytes, 50_000, 0)).await)?;
    let expected = QueryWriteStatusResponse { committed_size: 300_000, complete: true };
    is("QueryWriteStatus", status(bed, &name).await, &expected)
}

async fn unknown(bed: &Bed) -> Outcome {
    let name = bed.write_name(&bed.blob(LEN));
    match status(bed, &name).await {
        Err(status) => fails::<()>("QueryWriteStatus", Err(status), &[Code::NotFound]),
        // Bazel takes every error but UNIMPLEMENTED for the end of the upload.
        Ok(found) => ensure(found == QueryWriteStatusResponse::default(), || format!("{found:?}")),
    }
}

/// The first two thirds. Returns the name and the committed size.
async fn begin(bed: &Bed, blob: &super::bed::Blob) -> Result<(String, usize), String> {
    let name = bed.write_name(blob);
    let mut sent = messages(&name, &blob.bytes[..SENT], 50_000, 0);
    if let Some(last) = sent.last_mut() {
        last.finish_write = false;
    }
    // Servers may answer with what was committed, or with an error.
    let _ = bed.write_all(sent).await;
    match status(bed, &name).await {
        Ok(found) => {
            ensure(!found.complete, || "it is complete".to_owned())?;
            let committed = usize::try_from(found.committed_size).unwrap_or(usize::MAX);
            ensure(committed <= SENT, || format!("{committed} bytes of {SENT} are committed"))?;
            Ok((name, committed))
        }
        Err(status) => {
            fails::<()>("QueryWriteStatus", Err(status), &[Code::NotFound])?;
            Ok((name, 0))
        }
    }
}

async fn unfinished(bed: &Bed) -> Outcome {
    let blob = bed.blob(LEN);
    begin(bed, &blob).await?;
    bed.expect_none(&blob).await
}

async fn continues(bed: &Bed) -> Outcome {
    let blob = bed.blob(LEN);
    let (name, committed) = begin(bed, &blob).await?;
    let rest = messages(&name, &blob.bytes[committed..], 50_000, committed);
    is("Write", bed.write_all(rest).await, &300_000)?;
    bed.expect(&blob).await
}

async fn elsewhere(bed: &Bed) -> Outcome {
    let blob = bed.blob(LEN);
    let (name, committed) = begin(bed, &blob).await?;
    let start = committed + 1;
    let rest = messages(&name, &blob.bytes[start..], 50_000, start);
    fails("Write", bed.write_all(rest).await, &[])?;
    bed.expect_none(&blob).await
}
