//! `SplitBlob` and `SpliceBlob`.

use std::sync::Arc;

use tidegate_reapi::v2;

use super::{
    blob_name::{BlobName, HashFunction, len, name_of},
    call::{Call, Stop},
    cas::Chunks,
    chunk_function::ChunkFunction,
    fault::SplitLie,
    hostile::{Asked, Lie, Named, Spliced, named, tell_digest, tell_digests},
    options::{ReapiOptions, SplicedAgain},
    split_lie,
    status::{Code, GrpcStatus},
};

pub(crate) async fn split(call: &mut Call) -> Result<(), Stop> {
    let request: v2::SplitBlobRequest = call.request().await?;
    let hash = request.blob_digest.as_ref().map(|digest| digest.hash.clone());
    let plan = call.admit(hash.into_iter().collect(), 0).await?;
    call.check_instance(&request.instance_name)?;
    if !call.shared.options.split {
        return Err(GrpcStatus::new(Code::Unimplemented, "blobs are not split here").into());
    }
    let function = HashFunction::of_number(request.digest_function)?;
    let name = BlobName::of_message(function, request.blob_digest.as_ref())?;
    let cut = cut_by(&call.shared.options, request.chunking_function, plan.split.as_ref());
    let chunks = chunks(call, &name, cut)?;
    let mut answer = v2::SplitBlobResponse {
        chunk_digests: chunks.names.iter().map(BlobName::message).collect(),
        chunking_function: chunks.function,
    };
    if let Some(lie) = &plan.split {
        split_lie::tell(lie, &mut answer, &call.cas, &name);
    }
    tell_digests(&plan.lies, &mut answer.chunk_digests, &Named { function, asked: &[name] });
    for lie in &plan.lies {
        if let Lie::Chunking(number) = lie {
            answer.chunking_function = *number;
        }
    }
    call.give(plan, &answer).await
}

/// The chunking function: the requested one if it is advertised, else the server's own choice.
fn cut_by(options: &ReapiOptions, asked: i32, lie: Option<&SplitLie>) -> Option<ChunkFunction> {
    let functions = &options.chunk_functions;
    let asked = functions.iter().find(|function| function.number() == asked);
    let chosen = asked.or_else(|| functions.first()).copied();
    match (lie, chosen) {
        (Some(SplitLie::OtherFunction), Some(ChunkFunction::FastCdc2020 { .. })) => {
            Some(ChunkFunction::REP_MAX_CDC)
        }
        (Some(SplitLie::OtherFunction), _) => Some(ChunkFunction::FAST_CDC_2020),
        _ => chosen,
    }
}

fn chunks(call: &Call, name: &BlobName, cut: Option<ChunkFunction>) -> Result<Chunks, GrpcStatus> {
    let cas = &call.cas;
    let missing = || GrpcStatus::not_found(format!("{} is not here", name.resource()));
    match cas.manifest(name) {
        Some(chunks) if chunks.names.iter().all(|chunk| cas.contains(chunk)) => Ok(chunks),
        Some(_) => Err(missing()),
        None if name.len_bytes == 0 => Ok(Chunks { names: Vec::new(), function: 0 }),
        None => cut.and_then(|cut| cas.split(name, cut)).ok_or_else(missing),
    }
}

pub(crate) async fn splice(call: &mut Call) -> Result<(), Stop> {
    let request: v2::SpliceBlobRequest = call.request().await?;
    let hash = request.blob_digest.as_ref().map(|digest| digest.hash.clone());
    call.asked = asked(&request);
    let plan = call.admit(hash.into_iter().collect(), 0).await?;
    call.check_instance(&request.instance_name)?;
    if !call.shared.options.splice {
        return Err(GrpcStatus::new(Code::Unimplemented, "blobs are not spliced here").into());
    }
    let function = HashFunction::of_number(request.digest_function)?;
    let name = BlobName::of_message(function, request.blob_digest.as_ref())?;
    let mut names = Vec::with_capacity(request.chunk_digests.len());
    for digest in &request.chunk_digests {
        names.push(BlobName::of_message(function, Some(digest))?);
    }
    if call.cas.contains(&name) {
        match call.shared.options.spliced_again {
            SplicedAgain::Extended => {}
            SplicedAgain::AlreadyExists => {
                let message = format!("{} is here already", name.resource());
                return Err(GrpcStatus::new(Code::AlreadyExists, message).into());
            }
        }
    } else {
        // The work stops when the client no longer waits for it.
        let (shared, cas) = (Arc::clone(&call.shared), Arc::clone(&call.cas));
        call.answer.or_gone(verify(&cas, &shared.options, &name, &names)).await??;
        call.shared.ledger.stored(&name.hash);
        if !plan.forget {
            let chunks = Chunks { names, function: request.chunking_function };
            call.cas.put_manifest(name.clone(), chunks);
        }
    }
    let mut blob_digest = Some(name.message());
    tell_digest(&plan.lies, &mut blob_digest, &Named { function, asked: &[name] });
    call.give(plan, &v2::SpliceBlobResponse { blob_digest }).await
}

/// The blobs that the response can acknowledge, for any end of the call.
fn asked(request: &v2::SpliceBlobRequest) -> Asked {
    let blob = named(request.digest_function, [request.blob_digest.as_ref()].into_iter());
    let chunks = named(request.digest_function, request.chunk_digests.iter().map(Some));
    match blob.into_iter().next() {
        Some(blob) => Asked::Splice(Spliced { blob, chunks }),
        None => Asked::Nothing,
    }
}

/// Whether these chunks exist and make up the blob.
async fn verify(
    cas: &super::cas::Cas,
    options: &ReapiOptions,
    name: &BlobName,
    chunks: &[BlobName],
) -> Result<(), GrpcStatus> {
    let mut pieces = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let Some(found) = cas.pieces(chunk) else {
            return Err(GrpcStatus::not_found(format!("{} is not here", chunk.resource())));
        };
        pieces.extend(found);
    }
    let actual = if options.trusting {
        let len_bytes = pieces.iter().map(|piece| len(piece)).sum();
        BlobName { len_bytes, ..name.clone() }
    } else {
        name_of(name.function, &pieces).await
    };
    if actual == *name {
        return Ok(());
    }
    let (expected, actual) = (name.resource(), actual.resource());
    Err(GrpcStatus::invalid(format!("expected {expected}, got {actual}")))
}
