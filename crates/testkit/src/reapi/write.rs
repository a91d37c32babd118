//! `ByteStream.Write` and `QueryWriteStatus`.
//!
//! Received bytes are kept at once, so a client can resume an interrupted upload at its last byte.
//! A client that queries an upload or opens it again owns it from then on: bytes of an earlier
//! attempt that arrive later are not added. Compressed uploads cannot be resumed, because offsets
//! within them are not defined; they restart at 0.

use bytes::Bytes;
use tidegate_reapi::bytestream::{
    QueryWriteStatusRequest, QueryWriteStatusResponse, WriteRequest, WriteResponse,
};

use super::{
    batches::take,
    blob_name::{BlobName, len, signed},
    call::{Call, Stop},
    compression::decompress,
    hostile::{Asked, CommittedForm, Lie},
    plan::Plan,
    read::end_early,
    resource::Resource,
    status::{Code, GrpcStatus},
};

pub(crate) async fn serve(call: &mut Call) -> Result<(), Stop> {
    let Some(first) = call.next::<WriteRequest>().await? else {
        return Err(GrpcStatus::invalid("nothing was written").into());
    };
    let resource = Resource::to_write(&first.resource_name)?;
    acknowledge(call, &resource, false, 0);
    let mut plan = call.admit(vec![resource.blob.hash.clone()], first.write_offset).await?;
    call.check_instance(&resource.instance)?;
    if resource.zstd && !call.shared.options.zstd {
        return Err(GrpcStatus::invalid("zstd is not spoken here").into());
    }
    let max = call.shared.options.blob_bytes_max;
    if max > 0 && resource.blob.len_bytes > max {
        let actual = resource.blob.len_bytes;
        let message = format!("expected a blob of at most {max} bytes, got {actual}");
        return Err(GrpcStatus::invalid(message).into());
    }
    let sent = len(&first.data);
    if plan.lies.contains(&Lie::Early) {
        acknowledge(call, &resource, first.finish_write, sent);
        return committed(call, plan, &resource, None).await;
    }
    if call.cas.contains(&resource.blob) {
        acknowledge(call, &resource, first.finish_write, sent);
        return committed(call, plan, &resource, None).await;
    }
    if let Some(committed_size) = plan.answer_first {
        return call.give(plan, &WriteResponse { committed_size }).await;
    }
    match receive(call, &mut plan, &resource, first).await? {
        Received::Part(bytes) => {
            acknowledge(call, &resource, false, bytes);
            committed(call, plan, &resource, Some(bytes)).await
        }
        Received::Whole(pieces) => {
            let travelled = pieces.iter().map(|piece| len(piece)).sum();
            let pieces = if resource.zstd {
                vec![decompress(pieces, resource.blob.len_bytes)?]
            } else {
                pieces
            };
            acknowledge(call, &resource, true, travelled);
            take(call, &plan, &resource.blob, pieces).await?;
            committed(call, plan, &resource, Some(travelled)).await
        }
        Received::Cut => Ok(()),
    }
}

/// The facts that the response to a `Write` can acknowledge.
fn acknowledge(call: &mut Call, resource: &Resource, is_whole: bool, arrived: u64) {
    let (blob, is_packed) = (resource.blob.clone(), resource.zstd);
    call.asked = Asked::Write { blob, is_packed, is_whole, arrived };
}

/// The content of a stream of requests.
enum Received {
    Whole(Vec<Bytes>),
    Part(u64),
    /// The server ended the stream early with success.
    Cut,
}

async fn receive(
    call: &mut Call,
    plan: &mut Plan,
    resource: &Resource,
    first: WriteRequest,
) -> Result<Received, Stop> {
    let key = first.resource_name.clone();
    if resource.zstd {
        call.cas.take_upload(&key);
    }
    let upload = call.cas.open_upload(&key);
    let mut offset = upload.bytes;
    let mut room = plan.cut.as_ref().map(|(bytes, _)| *bytes);
    let mut next = Some(first);
    while let Some(request) = next {
        if !request.resource_name.is_empty() && request.resource_name != key {
            return Err(GrpcStatus::invalid("one stream writes one resource").into());
        }
        if request.write_offset != signed(offset) {
            let message = format!("expected offset {offset}, got {}", request.write_offset);
            return Err(GrpcStatus::invalid(message).into());
        }
        let mut data = request.data;
        if let Some(room) = &mut room {
            data.truncate(usize::try_from(*room).unwrap_or(usize::MAX));
            *room -= len(&data);
        }
        call.shared.link.admit(data.len()).await;
        call.shared.ledger.came(data.len());
        offset += len(&data);
        if !call.cas.add_to_upload(&key, upload.turn, data) {
            let message = "this upload goes on elsewhere";
            return Err(GrpcStatus::new(Code::Aborted, message).into());
        }
        if let (Some(0), Some((_, cut))) = (room, plan.cut.take_if(|_| room == Some(0))) {
            return end_early(call, cut).await.map(|()| Received::Cut);
        }
        if offset > resource.blob.len_bytes && !resource.zstd {
            call.cas.take_upload(&key);
            let expected = resource.blob.len_bytes;
            let message = format!("expected {expected} bytes, got {offset} and more");
            return Err(GrpcStatus::invalid(message).into());
        }
        if request.finish_write {
            return Ok(Received::Whole(call.cas.take_upload(&key)));
        }
        next = call.next().await?;
    }
    Ok(Received::Part(offset))
}

/// Sends the response to a `Write`. `bytes` is `None` if the blob existed already.
async fn committed(
    call: &mut Call,
    plan: Plan,
    resource: &Resource,
    bytes: Option<u64>,
) -> Result<(), Stop> {
    let already = if resource.zstd { -1 } else { signed(resource.blob.len_bytes) };
    let honest = bytes.map_or(already, signed);
    let honest = plan.committed.unwrap_or(honest);
    let arrived = match &call.asked {
        Asked::Write { arrived, .. } => *arrived,
        _ => 0,
    };
    let committed_size = said(&plan.lies, &resource.blob, arrived).unwrap_or(honest);
    call.give(plan, &WriteResponse { committed_size }).await
}

/// The `committed_size` that a lie states.
fn said(lies: &[Lie], blob: &BlobName, arrived: u64) -> Option<i64> {
    lies.iter().find_map(|lie| match lie {
        Lie::Committed(CommittedForm::Blob(form)) => Some(form.of(signed(blob.len_bytes))),
        Lie::Committed(CommittedForm::Arrived(form)) => Some(form.of(signed(arrived))),
        _ => None,
    })
}

pub(crate) async fn status(call: &mut Call) -> Result<(), Stop> {
    let request: QueryWriteStatusRequest = call.request().await?;
    let resource = Resource::to_write(&request.resource_name)?;
    let plan = call.admit(vec![resource.blob.hash.clone()], 0).await?;
    call.check_instance(&resource.instance)?;
    call.asked = Asked::WriteStatus(resource.blob.clone());
    let cas = &call.cas;
    let (committed_size, mut complete) = if plan.complete {
        (0, true)
    } else if cas.contains(&resource.blob) {
        (signed(resource.blob.len_bytes), true)
    } else if resource.zstd {
        (0, false)
    } else {
        let bytes = cas.upload_bytes(&request.resource_name).ok_or_else(|| {
            GrpcStatus::not_found(format!("{} was never written", request.resource_name))
        })?;
        (signed(bytes), false)
    };
    let arrived = u64::try_from(committed_size).unwrap_or(0);
    let committed_size = plan.committed.unwrap_or(committed_size);
    let committed_size = said(&plan.lies, &resource.blob, arrived).unwrap_or(committed_size);
    for lie in &plan.lies {
        if let Lie::Complete(is_complete) = lie {
            complete = *is_complete;
        }
    }
    call.give(plan, &QueryWriteStatusResponse { committed_size, complete }).await
}
