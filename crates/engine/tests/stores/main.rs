//! The stores in memory and in a folder. `tidegate-conformance` tests what all stores have in
//! common.
//!
//! | promise | test |
//! |---|---|
//! | a client uploads to them and downloads from them; versions share chunks | `transfers` |
//! | a full memory store refuses, and releases what it reserved | `memory` |
//! | a damaged file is never delivered, and can be put again | `damage` |
//! | a killed process leaves no wrong blob, and the next open removes its leftovers | `kill` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod damage;
mod kill;
mod memory;
mod transfers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use tidegate::store::{BlobStore, PutRequest};
use tidegate::{Budget, Digest, DigestFunction, Result};
use tidegate_testkit::pseudo_random;

/// Bytes that do not repeat, and their digest.
fn noise(len: usize, seed: u64) -> (Digest, Bytes) {
    let bytes = pseudo_random(len, seed);
    (Digest::of(DigestFunction::Sha256, &bytes), bytes)
}

async fn put(store: &dyn BlobStore, digest: Digest, bytes: &Bytes) -> Result<()> {
    store.put(&PutRequest::new(digest, Arc::new(bytes.clone()))).await
}

async fn get(store: &dyn BlobStore, digest: &Digest) -> Result<Bytes> {
    let body = store.get(digest, 0, &Budget::default()).await?;
    let all = body.try_fold(BytesMut::new(), |mut all, frame| async move {
        all.extend_from_slice(&frame);
        Ok(all)
    });
    Ok(all.await?.freeze())
}

async fn is_missing(store: &dyn BlobStore, digest: &Digest) -> bool {
    !store.missing(&[*digest]).await.unwrap().is_empty()
}

/// All files below a folder except hidden ones.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
        if path.is_dir() && !is_hidden {
            files.extend(self::files(&path));
        } else if !is_hidden {
            files.push(path);
        }
    }
    files
}
