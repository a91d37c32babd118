//! Cases for stores of chunks: batches of chunks, and manifests that make blobs of them.

use bytes::Bytes;
use tidegate::chunked::{Chunking, FastCdc2020Params};
use tidegate::store::{ChunkStore, Manifest, Registered, SendProgress};
use tidegate::{Digest, ErrorKind};
use tidegate_core::chunking::cuts;

use super::bed::Bed;
use super::{Outcome, ensure};

/// Chunks in one batch here: every store that takes batches takes this count and these bytes.
const BATCH_COUNT: usize = 20;
const BATCH_CHUNK_BYTES: usize = 1_000;

pub(super) async fn profile(store: &dyn ChunkStore) -> Outcome {
    let profile = store.profile().await.map_err(|error| error.chain())?;
    let again = store.profile().await.map_err(|error| error.chain())?;
    ensure(profile == again, || format!("it was {profile:?}, and is {again:?}"))?;
    ensure(!profile.digest_functions.is_empty(), || "it names no digest function".to_owned())
}

/// Puts a batch; `None` if the store takes no batches.
async fn put_batch(
    bed: &Bed<'_, dyn ChunkStore + '_>,
    chunks: &[(Digest, Bytes)],
) -> Result<Option<Vec<tidegate::Result<()>>>, String> {
    let profile = bed.store.profile().await.map_err(|error| error.chain())?;
    match bed.store.put_batch(chunks, &SendProgress::default()).await {
        Err(error) if profile.batch.is_none() && error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error.chain()),
        Ok(answers) if answers.len() == chunks.len() => Ok(Some(answers)),
        Ok(answers) => Err(format!("expected {} answers, got {}", chunks.len(), answers.len())),
    }
}

async fn get_batch(
    bed: &Bed<'_, dyn ChunkStore + '_>,
    digests: &[Digest],
) -> Result<Vec<tidegate::Result<Option<Bytes>>>, String> {
    let answers = bed.store.get_batch(digests, &bed.budget).await.map_err(|error| error.chain())?;
    let count = answers.len();
    ensure(count == digests.len(), || format!("expected {} answers, got {count}", digests.len()))?;
    Ok(answers)
}

pub(super) async fn batch(bed: &Bed<'_, dyn ChunkStore + '_>) -> Outcome {
    let chunks: Vec<_> = (0..BATCH_COUNT).map(|_| bed.blob(BATCH_CHUNK_BYTES)).collect();
    let Some(answers) = put_batch(bed, &chunks).await? else { return Ok(()) };
    for answer in answers {
        answer.map_err(|error| error.chain())?;
    }
    let digests: Vec<Digest> = chunks.iter().map(|(digest, _)| *digest).collect();
    for (answer, (digest, bytes)) in get_batch(bed, &digests).await?.into_iter().zip(&chunks) {
        let got = answer.map_err(|error| error.chain())?;
        ensure(got.as_ref() == Some(bytes), || format!("{digest}: got other bytes"))?;
        bed.expect(digest, bytes).await?;
    }
    Ok(())
}

pub(super) async fn mixed_batch(bed: &Bed<'_, dyn ChunkStore + '_>) -> Outcome {
    let mut chunks: Vec<_> = (0..BATCH_COUNT).map(|_| bed.blob(BATCH_CHUNK_BYTES)).collect();
    let (_, other) = bed.blob(BATCH_CHUNK_BYTES);
    let wrong = BATCH_COUNT / 2;
    if let Some(chunk) = chunks.get_mut(wrong) {
        chunk.1 = other;
    }
    let Some(answers) = put_batch(bed, &chunks).await? else { return Ok(()) };
    for (index, answer) in answers.iter().enumerate() {
        let message = || format!("chunk {index}, where chunk {wrong} is wrong: {answer:?}");
        ensure(answer.is_ok() == (index != wrong), message)?;
    }
    let digests: Vec<Digest> = chunks.iter().map(|(digest, _)| *digest).collect();
    let answers = get_batch(bed, &digests).await?;
    for (index, (answer, (digest, bytes))) in answers.into_iter().zip(&chunks).enumerate() {
        let got = answer.map_err(|error| error.chain())?;
        let expected = (index != wrong).then_some(bytes);
        ensure(got.as_ref() == expected, || format!("{digest}: got {got:?}"))?;
    }
    Ok(())
}

/// A blob, cut with the store's chunking.
struct CutBlob {
    digest: Digest,
    bytes: Bytes,
    chunks: Vec<(Digest, Bytes)>,
    manifest: Manifest,
}

/// A blob of some chunks; `None` if the store takes no manifests.
async fn cut_blob(bed: &Bed<'_, dyn ChunkStore + '_>) -> Result<Option<CutBlob>, String> {
    let profile = bed.store.profile().await.map_err(|error| error.chain())?;
    if !profile.can_splice {
        return Ok(None);
    }
    let named = profile.chunkings.first().copied();
    let default = || FastCdc2020Params::new(64 << 10, 0).map(Chunking::FastCdc2020);
    let chunking = named.map_or_else(default, Ok).map_err(|error| error.to_string())?;
    // At least three chunks.
    let len = usize::try_from(chunking.chunk_bytes_max() * 5 / 2).unwrap_or(8 << 20);
    let (digest, bytes) = bed.blob(len);
    let mut rest = bytes.clone();
    let chunks: Vec<(Digest, Bytes)> = cuts(&chunking, &bytes)
        .map(|len| {
            let chunk = rest.split_to(len);
            (bed.digest(&chunk), chunk)
        })
        .collect();
    let digests = chunks.iter().map(|(digest, _)| *digest).collect();
    let manifest = Manifest::new(digest, digests, named).map_err(|error| error.to_string())?;
    Ok(Some(CutBlob { digest, bytes, chunks, manifest }))
}

async fn register(
    bed: &Bed<'_, dyn ChunkStore + '_>,
    manifest: &Manifest,
    expected: Registered,
) -> Outcome {
    let registered = bed.store.register(manifest).await.map_err(|error| error.chain())?;
    ensure(registered == expected, || format!("expected {expected:?}, got {registered:?}"))
}

pub(super) async fn round_trip(bed: &Bed<'_, dyn ChunkStore + '_>) -> Outcome {
    let Some(blob) = cut_blob(bed).await? else { return Ok(()) };
    for (digest, bytes) in &blob.chunks {
        bed.put(*digest, bytes).await?;
    }
    bed.expect_none(&blob.digest).await?;
    register(bed, &blob.manifest, Registered::Done).await?;
    bed.expect(&blob.digest, &blob.bytes).await?;
    // To register it again also succeeds.
    register(bed, &blob.manifest, Registered::Done).await?;
    let second = blob.chunks.first().map_or(0, |(digest, _)| digest.len);
    for offset in [1, second - 1, second, second + 1, blob.digest.len - 1, blob.digest.len] {
        let got = bed.get(&blob.digest, offset).await.map_err(|error| error.chain())?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let is_right = got == blob.bytes.slice(start..);
        ensure(is_right, || format!("from offset {offset}: got other bytes"))?;
    }
    given_manifest(bed, &blob).await
}

/// Checks the manifest that the store returns: it is of this blob, and the store has its chunks.
async fn given_manifest(bed: &Bed<'_, dyn ChunkStore + '_>, blob: &CutBlob) -> Outcome {
    let profile = bed.store.profile().await.map_err(|error| error.chain())?;
    if !profile.can_split {
        return Ok(());
    }
    let chunking = profile.chunkings.first();
    let manifest = bed.store.manifest(&blob.digest, chunking, &bed.budget).await;
    let manifest = manifest.map_err(|error| error.chain())?;
    let manifest = manifest.ok_or_else(|| "it has none, and was given one".to_owned())?;
    ensure(*manifest.blob() == blob.digest, || "it is of another blob".to_owned())?;
    let mut rest = blob.bytes.clone();
    for chunk in manifest.chunks() {
        let got = bed.get(chunk, 0).await.map_err(|error| error.chain())?;
        let expected = rest.split_to(rest.len().min(got.len()));
        let is_right = got == expected && got.len() as u64 == chunk.len;
        ensure(is_right, || format!("chunk {chunk}: got other bytes"))?;
    }
    ensure(rest.is_empty(), || "its chunks do not add up to the blob".to_owned())
}

pub(super) async fn chunk_missing(bed: &Bed<'_, dyn ChunkStore + '_>) -> Outcome {
    let Some(blob) = cut_blob(bed).await? else { return Ok(()) };
    for (digest, bytes) in blob.chunks.iter().skip(1) {
        bed.put(*digest, bytes).await?;
    }
    register(bed, &blob.manifest, Registered::ChunkMissing).await?;
    bed.expect_none(&blob.digest).await?;
    if let Some((digest, bytes)) = blob.chunks.first() {
        bed.put(*digest, bytes).await?;
    }
    register(bed, &blob.manifest, Registered::Done).await?;
    bed.expect(&blob.digest, &blob.bytes).await
}

pub(super) async fn wrong_manifest(bed: &Bed<'_, dyn ChunkStore + '_>) -> Outcome {
    let Some(blob) = cut_blob(bed).await? else { return Ok(()) };
    for (digest, bytes) in &blob.chunks {
        bed.put(*digest, bytes).await?;
    }
    // The store has all chunks, and their total length is right, but they are in another order.
    let mut digests = blob.manifest.chunks().to_vec();
    digests.reverse();
    let chunking = blob.manifest.chunking().copied();
    let wrong = Manifest::new(blob.digest, digests, chunking).map_err(|error| error.to_string())?;
    let registered = bed.store.register(&wrong).await;
    ensure(!matches!(registered, Ok(Registered::Done)), || "it was taken".to_owned())?;
    bed.expect_none(&blob.digest).await
}

pub(super) async fn unknown(bed: &Bed<'_, dyn ChunkStore + '_>) -> Outcome {
    let (digest, _) = bed.blob(3_000_000);
    match bed.store.manifest(&digest, None, &bed.budget).await {
        Ok(None) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Ok(Some(_)) => Err("got a manifest of an unknown blob".to_owned()),
        Err(error) => Err(error.chain()),
    }
}
