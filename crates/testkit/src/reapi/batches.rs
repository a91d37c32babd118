//! `BatchReadBlobs` and `BatchUpdateBlobs`.

use bytes::Bytes;
use tidegate_reapi::{
    rpc,
    v2::{
        self, batch_read_blobs_response, batch_update_blobs_request, batch_update_blobs_response,
    },
};

use super::{
    blob_name::{BlobName, HashFunction, len, name_of},
    call::{Call, Stop},
    cas::joined,
    compression::{IDENTITY, ZSTD, compress, decompress},
    counts::BatchSize,
    fault::BatchLie,
    hostile::{Asked, Content, Named, named, tell_content, tell_entries},
    plan::Plan,
    read::flipped,
    rpc::Rpc,
    status::GrpcStatus,
};

pub(crate) async fn read(call: &mut Call) -> Result<(), Stop> {
    let request: v2::BatchReadBlobsRequest = call.request().await?;
    let hashes = request.digests.iter().map(|digest| digest.hash.clone()).collect();
    let plan = call.admit(hashes, 0).await?;
    call.check_instance(&request.instance_name)?;
    let function = HashFunction::of_number(request.digest_function)?;
    let mut names = Vec::with_capacity(request.digests.len());
    for digest in &request.digests {
        names.push(BlobName::of_message(function, Some(digest))?);
    }
    let bytes = names.iter().map(|name| name.len_bytes).fold(0, u64::saturating_add);
    check_size(call, Rpc::BatchRead, names.len(), bytes)?;
    let zstd = call.shared.options.zstd && request.acceptable_compressors.contains(&ZSTD);
    let mut responses = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        responses.push(give_one(call, &plan, name, (index, names.len()), zstd));
    }
    if let Some(lie) = &plan.batch {
        arrange(lie, &mut responses);
        if let BatchLie::Disputed { status, is_last } = lie {
            let other = responses.first().cloned().map(|first| {
                let status = Some(status.message());
                batch_read_blobs_response::Response { status, data: Bytes::new(), ..first }
            });
            dispute(&mut responses, other, *is_last);
        }
        let foreign = function.name(b"never asked for").message();
        match (lie, responses.first_mut()) {
            (BatchLie::Foreign, Some(first)) => first.digest = Some(foreign),
            (BatchLie::ShortByOne, Some(first)) => {
                first.data.truncate(first.data.len().saturating_sub(1));
            }
            _ => {}
        }
    }
    tell_entries(&plan.lies, &mut responses, &Named { function, asked: &names });
    let sent = responses.iter().map(|response| response.data.len()).sum();
    call.shared.ledger.went(sent);
    // The link does not count the few bytes of the message around the data.
    call.give(plan, &v2::BatchReadBlobsResponse { responses }).await
}

fn give_one(
    call: &Call,
    plan: &Plan,
    name: &BlobName,
    entry: (usize, usize),
    zstd: bool,
) -> batch_read_blobs_response::Response {
    let mut response = batch_read_blobs_response::Response {
        digest: Some(name.message()),
        data: Bytes::new(),
        compressor: IDENTITY,
        status: None,
    };
    let outcome = failure(plan, entry.0).map_or_else(
        || {
            let pieces = call.cas.pieces(name);
            let pieces = pieces.ok_or_else(|| GrpcStatus::not_found(name.resource()))?;
            let pieces = flipped(pieces, &plan.flipped);
            if zstd { compress(pieces) } else { Ok(joined(pieces)) }
        },
        Err,
    );
    match outcome {
        Ok(data) => {
            let data = lied_of(call, plan, name, entry, zstd).unwrap_or(data);
            call.shared.ledger.served(&name.hash);
            response.data = data;
            response.compressor = if zstd { ZSTD } else { IDENTITY };
            response.status = Some(rpc::Status::default());
        }
        Err(status) => response.status = Some(status.message()),
    }
    response
}

/// The bytes that are sent in place of the blob's own.
fn lied_of(
    call: &Call,
    plan: &Plan,
    name: &BlobName,
    entry: (usize, usize),
    zstd: bool,
) -> Option<Bytes> {
    let blob = joined(call.cas.pieces(name)?);
    let content = Content { start: 0, end: blob.len(), is_packed: zstd, blob };
    tell_content(&plan.lies, Some(entry), &content)
}

pub(crate) async fn update(call: &mut Call) -> Result<(), Stop> {
    let request: v2::BatchUpdateBlobsRequest = call.request().await?;
    let digests = request.requests.iter().filter_map(|request| request.digest.as_ref());
    let hashes = digests.map(|digest| digest.hash.clone()).collect();
    let travelled = request.requests.iter().map(|request| request.data.len()).sum();
    call.shared.link.admit(travelled).await;
    let plan = call.admit(hashes, 0).await?;
    call.check_instance(&request.instance_name)?;
    let function = HashFunction::of_number(request.digest_function)?;
    let digests = request.requests.iter().map(|request| request.digest.as_ref());
    let asked = named(request.digest_function, digests);
    call.asked = Asked::BatchUpdate(asked.clone());
    let bytes = request.requests.iter().map(|request| len(&request.data));
    check_size(call, Rpc::BatchUpdate, request.requests.len(), bytes.sum())?;
    call.shared.ledger.came(travelled);
    let mut responses = Vec::with_capacity(request.requests.len());
    for (index, request) in request.requests.into_iter().enumerate() {
        let digest = request.digest.clone();
        let outcome = match failure(&plan, index) {
            Some(status) => Err(status),
            None => take_one(call, function, &plan, request).await,
        };
        let status = outcome.err().unwrap_or_else(GrpcStatus::ok);
        let status = Some(status.message());
        responses.push(batch_update_blobs_response::Response { digest, status });
    }
    if let Some(lie) = &plan.batch {
        arrange(lie, &mut responses);
        if let BatchLie::Disputed { status, is_last } = lie {
            let other = responses.first().cloned().map(|first| {
                let status = Some(status.message());
                batch_update_blobs_response::Response { status, ..first }
            });
            dispute(&mut responses, other, *is_last);
        }
        if let (BatchLie::Foreign, Some(first)) = (lie, responses.first_mut()) {
            first.digest = Some(function.name(b"never asked for").message());
        }
    }
    tell_entries(&plan.lies, &mut responses, &Named { function, asked: &asked });
    call.give(plan, &v2::BatchUpdateBlobsResponse { responses }).await
}

async fn take_one(
    call: &Call,
    function: HashFunction,
    plan: &Plan,
    request: batch_update_blobs_request::Request,
) -> Result<(), GrpcStatus> {
    let name = BlobName::of_message(function, request.digest.as_ref())?;
    let data = match request.compressor {
        IDENTITY => request.data,
        ZSTD if call.shared.options.zstd => decompress(vec![request.data], name.len_bytes)?,
        other => return Err(GrpcStatus::invalid(format!("unsupported compressor {other}"))),
    };
    take(call, plan, &name, vec![data]).await
}

/// Stores a received blob if its bytes match its name.
pub(crate) async fn take(
    call: &Call,
    plan: &Plan,
    name: &BlobName,
    pieces: Vec<Bytes>,
) -> Result<(), GrpcStatus> {
    let max = call.shared.options.blob_bytes_max;
    if max > 0 && name.len_bytes > max {
        let message = format!("expected a blob of at most {max} bytes, got {}", name.len_bytes);
        return Err(GrpcStatus::invalid(message));
    }
    let actual = if call.shared.options.trusting {
        let len_bytes = pieces.iter().map(|piece| len(piece)).sum();
        BlobName { len_bytes, ..name.clone() }
    } else {
        name_of(name.function, &pieces).await
    };
    if actual != *name {
        let (expected, actual) = (name.resource(), actual.resource());
        return Err(GrpcStatus::invalid(format!("expected {expected}, got {actual}")));
    }
    call.shared.ledger.stored(&name.hash);
    if !plan.forget {
        call.cas.put(name.clone(), pieces);
    }
    Ok(())
}

fn check_size(call: &Call, rpc: Rpc, blobs: usize, bytes: u64) -> Result<(), GrpcStatus> {
    call.shared.ledger.batch(BatchSize { rpc, blobs, bytes });
    let max = call.shared.options.batch_bytes_max;
    if max > 0 && bytes > max {
        let message = format!("expected a batch of at most {max} bytes, got {bytes}");
        return Err(GrpcStatus::invalid(message));
    }
    Ok(())
}

fn failure(plan: &Plan, index: usize) -> Option<GrpcStatus> {
    match &plan.batch {
        Some(BatchLie::FailFirst(status)) if index == 0 => Some(status.clone()),
        _ => None,
    }
}

/// Applies the lies about the set of entries.
fn arrange<T: Clone>(lie: &BatchLie, responses: &mut Vec<T>) {
    match lie {
        BatchLie::Omitted => {
            responses.pop();
        }
        BatchLie::Reversed => responses.reverse(),
        BatchLie::Twice => {
            let first = responses.first().cloned();
            responses.extend(first);
        }
        BatchLie::Foreign
        | BatchLie::ShortByOne
        | BatchLie::FailFirst(_)
        | BatchLie::Disputed { .. } => {}
    }
}

/// Adds an entry before or after the others.
fn dispute<T>(responses: &mut Vec<T>, other: Option<T>, is_last: bool) {
    if let Some(other) = other {
        let place = if is_last { responses.len() } else { 0 };
        responses.insert(place, other);
    }
}
