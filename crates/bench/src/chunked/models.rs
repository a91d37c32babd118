//! Models of how other clients transfer a blob as chunks, over plain calls.
//!
//! Bazel (8.7, 9.1 and later). Down: Split, then one `ByteStream.Read` for each chunk. The next
//! chunk is requested while fewer than 16 lie between the next to be written and the next to be
//! requested. One slow chunk therefore delays all behind it. Up, in stages: cut the whole file and
//! hash its chunks (the file's own digest is known from when the file was made), call
//! `FindMissingBlobs`, then one `ByteStream.Write` for each chunk, 16 in flight and refilled when one
//! ends, then Splice.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_core::Checksummer;
use tidegate_core::chunking::{Chunking, Cutter};
use tidegate_core::digest::{Digest, DigestFunction};

use super::plain::Plain;

/// Bytes that are read, cut and hashed at once.
const PIECE_BYTES: usize = 1 << 20;

/// Down, in order: chunks are requested and written in sequence, with at most `window` of them
/// between the two. Returns the number of chunks.
pub(crate) async fn download_in_order(
    plain: &Plain,
    blob: &Digest,
    target: &Path,
    window: usize,
) -> Result<usize> {
    let chunks = plain.split(blob).await?;
    let file = File::create(target)?;
    let mut hash = Checksummer::new(blob.function.algorithm())?;
    let count = chunks.len();
    let reads = chunks.into_iter().map(|chunk| {
        let plain = plain.clone();
        // A task of its own, so that chunks are hashed on all cores.
        async move { tokio::spawn(async move { plain.read(chunk).await }).await? }
    });
    let mut reads = std::pin::pin!(stream::iter(reads).buffered(window));
    let mut offset = 0;
    while let Some(pieces) = reads.try_next().await? {
        hash_and_write(&file, &pieces, &mut offset, &mut hash)?;
    }
    anyhow::ensure!(hash.finish() == blob.checksum(), "the blob is something else");
    Ok(count)
}

fn hash_and_write(
    file: &File,
    pieces: &[Bytes],
    offset: &mut u64,
    hash: &mut Checksummer,
) -> Result<()> {
    for piece in pieces {
        hash.update(piece);
        file.write_all_at(piece, *offset)?;
        *offset += piece.len() as u64;
    }
    Ok(())
}

/// Up, in stages. Returns the number of chunks.
pub(crate) async fn upload_in_stages(
    plain: &Plain,
    source: &Path,
    blob: &Digest,
    chunking: &Chunking,
    window: usize,
) -> Result<usize> {
    let file = Arc::new(File::open(source)?);
    let chunks = {
        let (file, chunking, function) = (Arc::clone(&file), *chunking, blob.function);
        tokio::task::spawn_blocking(move || cut(&file, &chunking, function)).await??
    };
    let digests: Vec<Digest> = chunks.iter().map(|(_, digest)| *digest).collect();
    let missing: std::collections::HashSet<Digest> =
        plain.missing(&digests).await?.into_iter().collect();
    let writes = chunks.into_iter().filter(|(_, digest)| missing.contains(digest));
    write_any_order(plain, &file, writes.collect(), window).await?;
    plain.splice(blob, &digests).await?;
    Ok(digests.len())
}

/// The file's chunks in order, with their offsets. On one thread.
pub(crate) fn cut(
    file: &File,
    chunking: &Chunking,
    function: DigestFunction,
) -> Result<Vec<(u64, Digest)>> {
    let mut cutter = Cutter::new(chunking);
    let mut chunks = Vec::new();
    // Bytes that were read and are in no chunk yet, and their offset.
    let (mut pending, mut offset) = (Vec::new(), 0_u64);
    let mut reader = file;
    loop {
        let before = pending.len();
        let count = (&mut reader).take(PIECE_BYTES as u64).read_to_end(&mut pending)?;
        let lengths: Vec<u64> = match count {
            0 => cutter.finish().collect(),
            _ => cutter.feed(&pending[before..]).collect(),
        };
        let mut taken = 0;
        for len in lengths {
            let end = taken + usize::try_from(len)?;
            chunks.push((offset, Digest::of(function, &pending[taken..end])));
            (taken, offset) = (end, offset + len);
        }
        pending.drain(..taken);
        if count == 0 {
            return Ok(chunks);
        }
    }
}

async fn write_any_order(
    plain: &Plain,
    file: &Arc<File>,
    chunks: Vec<(u64, Digest)>,
    window: usize,
) -> Result<()> {
    let writes = chunks.into_iter().map(|(offset, chunk)| {
        let (plain, file) = (plain.clone(), Arc::clone(file));
        async move { tokio::spawn(async move { plain.write(chunk, file, offset).await }).await? }
    });
    stream::iter(writes).buffer_unordered(window).try_collect().await
}

/// The limit of the machine, down: chunks that are known beforehand, in any order, each hashed and
/// written to its offset.
pub(crate) async fn read_any_order(
    plain: &Plain,
    chunks: Vec<(u64, Digest)>,
    target: &Path,
    window: usize,
) -> Result<usize> {
    let file = Arc::new(File::create(target)?);
    let count = chunks.len();
    let reads = chunks.into_iter().map(|(mut offset, chunk)| {
        let (plain, file) = (plain.clone(), Arc::clone(&file));
        async move {
            tokio::spawn(async move {
                for piece in plain.read(chunk).await? {
                    file.write_all_at(&piece, offset)?;
                    offset += piece.len() as u64;
                }
                anyhow::Ok(())
            })
            .await?
        }
    });
    stream::iter(reads).buffer_unordered(window).try_collect::<()>().await?;
    Ok(count)
}

/// The same, up.
pub(crate) async fn write_all(
    plain: &Plain,
    source: &Path,
    chunks: Vec<(u64, Digest)>,
    window: usize,
) -> Result<usize> {
    let count = chunks.len();
    write_any_order(plain, &Arc::new(File::open(source)?), chunks, window).await?;
    Ok(count)
}
