//! A file has the same chunks as its bytes, with any number of threads. Failures are errors.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams, cuts};
use tidegate_core::digest::{Digest, DigestFunction};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::budget::BudgetOptions;
use crate::error::{ErrorKind, Result};

fn bytes(len: usize) -> Vec<u8> {
    let noise = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 29).wrapping_mul(n | 1) >> 23;
    (0..len as u64).map(|n| u8::try_from(noise(n) & 0xff).unwrap()).collect()
}

fn file(bytes: &[u8]) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file)
}

fn chunkings() -> [Chunking; 3] {
    [
        Chunking::FastCdc2020(FastCdc2020Params::new(1 << 10, 0).unwrap()),
        Chunking::FastCdc2020(FastCdc2020Params::new(1 << 19, 0).unwrap()),
        Chunking::RepMaxCdc(RepMaxCdcParams::new(4096, 32768).unwrap()),
    ]
}

fn options(len: usize, chunking: Chunking) -> CutOptions {
    CutOptions {
        chunking,
        digest_function: DigestFunction::Sha256,
        whole: false,
        len: len as u64,
        name: "a file".to_owned(),
        budget: Budget::default(),
        cancel: CancellationToken::new(),
    }
}

/// The chunks that the stream must return.
fn expected(bytes: &[u8], options: &CutOptions) -> Vec<CutChunk> {
    let mut offset = 0;
    let chunk = |len| {
        let digest = Digest::of(options.digest_function, &bytes[offset..offset + len]);
        let chunk = CutChunk { offset: offset as u64, digest };
        offset += len;
        chunk
    };
    cuts(&options.chunking, bytes).map(chunk).collect()
}

async fn chunks(stream: &mut CutStream) -> Result<Vec<CutChunk>> {
    let mut chunks = Vec::new();
    while let Some(chunk) = stream.next().await {
        chunks.push(chunk?);
    }
    Ok(chunks)
}

#[tokio::test]
async fn a_file_has_the_chunks_of_its_bytes() {
    for len in [0, 1, 300, 1 << 20, (5 << 20) + 7] {
        let bytes = bytes(len);
        let file = file(&bytes);
        for chunking in chunkings() {
            for digest_function in [DigestFunction::Sha256, DigestFunction::Blake3] {
                for whole in [false, true] {
                    let options = CutOptions { digest_function, whole, ..options(len, chunking) };
                    let expected_chunks = expected(&bytes, &options);
                    let expected_whole = whole.then(|| Digest::of(digest_function, &bytes));
                    let mut stream = cut_file(Arc::clone(&file), options);
                    assert_eq!(chunks(&mut stream).await.unwrap(), expected_chunks);
                    assert_eq!(stream.finish().await.unwrap(), expected_whole);
                }
            }
        }
    }
}

#[tokio::test]
async fn the_whole_may_be_had_without_the_chunks() {
    let bytes = bytes(9 << 20);
    let options = CutOptions { whole: true, ..options(bytes.len(), chunkings()[0]) };
    let stream = cut_file(file(&bytes), options);
    let whole = Digest::of(DigestFunction::Sha256, &bytes);
    assert_eq!(stream.finish().await.unwrap(), Some(whole));
}

/// A slow caller does not block the threads for ever, and finds the budget free.
#[tokio::test]
async fn no_waiting_thread_holds_the_budget() {
    let bytes = bytes(20 << 20);
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 64 << 10 });
    let options = CutOptions { budget: budget.clone(), ..options(bytes.len(), chunkings()[0]) };
    let expected = expected(&bytes, &options);
    let mut stream = cut_file(file(&bytes), options);
    let mut found = Vec::new();
    while let Some(chunk) = stream.next().await {
        if found.len() % 1000 == 0 {
            // Requests the whole budget: it is granted only when every thread has released its
            // permit.
            drop(budget.bytes(u64::MAX).await);
        }
        found.push(chunk.unwrap());
    }
    assert_eq!(found, expected);
    drop(stream);
    assert_eq!(budget.limits().bytes, budget.bytes(u64::MAX).await.bytes());
}

#[tokio::test]
async fn a_file_that_ends_early_is_an_error() {
    let bytes = bytes(3 << 20);
    let mut stream = cut_file(file(&bytes), options(bytes.len() + 1, chunkings()[1]));
    let error = chunks(&mut stream).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert!(error.to_string().contains("expected 3145729 bytes"), "{error}");
    assert!(stream.next().await.is_none(), "nothing comes after an error");
    assert_eq!(stream.finish().await.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(File::open(folder.path()).unwrap());
    let error = chunks(&mut cut_file(file, options(10, chunkings()[0]))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
}

#[tokio::test]
async fn it_can_be_cancelled() {
    let bytes = bytes(4 << 20);
    let options = options(bytes.len(), chunkings()[0]);
    let cancel = options.cancel.clone();
    let mut stream = cut_file(file(&bytes), options);
    stream.next().await.unwrap().unwrap();
    cancel.cancel();
    assert_eq!(chunks(&mut stream).await.unwrap_err().kind(), ErrorKind::Cancelled);
}
