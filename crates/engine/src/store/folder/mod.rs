//! [`FolderStore`]: blobs in a folder, one file each, and manifests next to them.
//!
//! | file | idea |
//! |---|---|
//! | `disk` | paths, and reading and writing the files |
//! | `incoming` | a file that is being written |
//! | `manifest_file` | manifests as text |
//!
//! Invariants:
//! - A file has a blob's name only after all its bytes were written and compared with the digest. A
//!   process that is killed leaves files in `.incoming` only; the next [`FolderStore::open`]
//!   removes them.
//! - `get` compares a blob's file with its digest before it delivers the first byte, so it never
//!   delivers wrong bytes. A file of more than 256 KiB is read twice for that, the second time
//!   mostly from the page cache. A damaged file is removed, so that the blob can be put again.
//! - A manifest has a blob's name only after its chunks' bytes were compared with the blob's
//!   digest.
//! - The store never flushes files to the disk: a blob that was put survives `kill -9`. A power
//!   failure may lose the last blobs, and the comparison detects those that it damaged.
//! - The runtime's threads access no file.
//!
//! The store evicts nothing. Several processes may have one folder open.

mod disk;
mod incoming;
mod manifest_file;

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

use self::disk::{Checked, Disk, MANIFEST_BYTES_MAX};
use super::verify::Verifier;
use super::{
    BlobStore, ChunkStore, Manifest, PutRequest, Registered, StoreProfile, body, failed, not_found,
};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::Body;

/// Blobs in a folder. Clones are the same store.
///
/// A blob that was registered as a manifest takes no space in addition to its chunks, which other
/// blobs may share. So versions of a file share the space of their common chunks.
#[derive(Clone, Debug)]
pub struct FolderStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    disk: Disk,
    identity: String,
    profile: Arc<StoreProfile>,
}

impl FolderStore {
    /// Opens the store in the folder `root`. Creates the folder if it does not exist. Removes the
    /// files that killed processes left.
    ///
    /// Fails with `Storage` if the folder cannot be created or read.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let target = root.display().to_string();
        let opened = offload(Operation::Locate, &target, move || Ok(Disk::open(&root))).await?;
        let disk = opened.map_err(|error| {
            let message = "the folder cannot be used as a store";
            Error::new(ErrorKind::Storage, Operation::Locate, target, message).caused_by(error)
        })?;
        let identity = format!("folder {}", disk.root().display());
        let profile = Arc::new(StoreProfile::local());
        Ok(Self(Arc::new(Inner { disk, identity, profile })))
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        self.0.disk.root()
    }

    /// Runs `work` on a blocking thread. Dropping the future does not stop work that has started.
    async fn blocking<T: Send + 'static>(
        &self,
        digest: &Digest,
        work: impl FnOnce(&Disk) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.0);
        offload(Operation::Read, &digest.to_string(), move || work(&inner.disk)).await
    }

    /// The bytes of a blob's own file from `offset` on, after the whole file was verified; `None`
    /// if it has no file.
    async fn file_body(&self, digest: Digest, offset: u64) -> Result<Option<Body>> {
        let begun = self.blocking(&digest, move |disk| disk.begin_check(&digest));
        let Some(mut checking) = begun.await? else { return Ok(None) };
        loop {
            // CANCEL: only a file under verification is closed.
            let checked = self.blocking(&digest, move |disk| disk.check(&digest, checking)).await?;
            checking = match checked {
                Checked::More(checking) => checking,
                Checked::Right(_, Some(bytes)) => return Ok(Some(body(bytes, offset))),
                Checked::Right(file, None) => {
                    return Ok(Some(self.frames(digest, file, offset.min(digest.len))));
                }
            };
        }
    }

    /// The frames of a verified file.
    fn frames(&self, digest: Digest, file: File, offset: u64) -> Body {
        let state = (self.clone(), Arc::new(file), offset);
        Box::pin(stream::try_unfold(state, move |(store, file, offset)| async move {
            if offset == digest.len {
                return Ok(None);
            }
            let theirs = Arc::clone(&file);
            let read = store.blocking(&digest, move |disk| disk.read(&digest, &theirs, offset));
            let frame: Bytes = read.await?;
            let next = offset + frame.len() as u64;
            Ok(Some((frame, (store, file, next))))
        }))
    }

    /// The bytes of a blob with a manifest, from `offset` on, chunk by chunk.
    fn chunks_body(&self, manifest: &Manifest, offset: u64) -> Body {
        let chunks: Vec<(Digest, u64)> = (manifest.offsets())
            .filter(|(start, chunk)| start + chunk.len > offset)
            .map(|(start, chunk)| (*chunk, offset.saturating_sub(start)))
            .collect();
        let store = self.clone();
        let bodies = stream::iter(chunks).then(move |(chunk, skipped)| {
            let store = store.clone();
            async move {
                let found = store.file_body(chunk, skipped).await?;
                found.ok_or_else(|| not_found(&chunk))
            }
        });
        Box::pin(bodies.try_flatten())
    }

    async fn read_manifest(&self, digest: Digest, budget: &Budget) -> Result<Option<Manifest>> {
        let opened = self.blocking(&digest, move |disk| disk.open_manifest(&digest)).await?;
        let Some(opened) = opened else { return Ok(None) };
        // A chunk takes less memory than two lines of the text, also while the list grows.
        let bytes = opened.len().saturating_mul(2);
        let permit = if bytes > budget.limits().bytes { None } else { budget.try_bytes(bytes) };
        let Some(permit) = permit else {
            let message = format!("its manifest takes {bytes} bytes of memory, which are in use");
            return Err(failed(ErrorKind::Unsupported, Operation::Read, &digest, message)
                .with_hint("allow more memory"));
        };
        let read = self.blocking(&digest, move |disk| disk.read_manifest(&digest, &opened)).await;
        drop(permit);
        read.map(Some)
    }

    /// Hashes the chunks' bytes, in order, for the comparison with the blob's digest; `None` if a
    /// chunk is missing.
    async fn hash(&self, manifest: &Manifest) -> Result<Option<Verifier>> {
        let mut whole = Verifier::new(manifest.blob());
        for chunk in manifest.chunks() {
            let chunk = *chunk;
            let added = self.blocking(&chunk, move |disk| {
                let is_there = disk.add_chunk(&chunk, &mut whole)?;
                Ok(is_there.then_some(whole))
            });
            match added.await? {
                Some(hashed) => whole = hashed,
                None => return Ok(None),
            }
        }
        Ok(Some(whole))
    }

    /// Verifies the chunks, up to the first damaged or missing one; a damaged one is removed.
    /// Returns whether there was one.
    async fn lacks_chunk(&self, manifest: &Manifest) -> Result<bool> {
        for chunk in manifest.chunks() {
            match self.file_body(*chunk, 0).await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Integrity => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

#[async_trait]
impl BlobStore for FolderStore {
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        let mut missing = digests.to_vec();
        let Some(first) = missing.first().copied() else { return Ok(missing) };
        let looked = self.blocking(&first, move |disk| {
            let mut failure = None;
            missing.retain(|digest| match disk.has(digest) {
                Ok(is_there) => !is_there,
                Err(error) => {
                    failure = Some(error);
                    true
                }
            });
            failure.map_or(Ok(missing), Err)
        });
        looked.await
    }

    async fn get(&self, digest: &Digest, offset: u64, budget: &Budget) -> Result<Body> {
        if digest.len == 0 {
            return Ok(body(Bytes::new(), 0));
        }
        if let Some(body) = self.file_body(*digest, offset).await? {
            return Ok(body);
        }
        match self.read_manifest(*digest, budget).await? {
            Some(manifest) => Ok(self.chunks_body(&manifest, offset)),
            None => Err(not_found(digest)),
        }
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        let digest = request.digest;
        let begun = self.blocking(&digest, move |disk| {
            if digest.len > 0 && disk.has_file(&digest) {
                return Ok(None);
            }
            Ok(Some(disk.create(&digest)?))
        });
        let Some(mut incoming) = begun.await? else { return Ok(()) };
        let mut verifier = Verifier::new(&digest);
        // CANCEL: dropping `incoming` removes the file.
        while let Some(piece) = request.read_piece(verifier.seen_bytes()).await? {
            let written = self.blocking(&digest, move |disk| {
                verifier.update(&piece);
                disk.write(&digest, &mut incoming, &piece)?;
                Ok((verifier, incoming))
            });
            (verifier, incoming) = written.await?;
        }
        self.blocking(&digest, move |disk| {
            verifier.finish().map_err(|message| {
                failed(ErrorKind::Integrity, Operation::Write, &digest, message)
            })?;
            if digest.len > 0 { disk.commit(&digest, incoming) } else { Ok(()) }
        })
        .await
    }

    fn identity(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.identity)
    }
}

#[async_trait]
impl ChunkStore for FolderStore {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::clone(&self.0.profile))
    }

    async fn manifest(
        &self,
        digest: &Digest,
        _: Option<&Chunking>,
        budget: &Budget,
    ) -> Result<Option<Manifest>> {
        let Some(manifest) = self.read_manifest(*digest, budget).await? else { return Ok(None) };
        let chunks = manifest.chunks().to_vec();
        let has_all = move |disk: &Disk| Ok(chunks.iter().all(|chunk| disk.has_file(chunk)));
        let is_whole = self.blocking(digest, has_all).await?;
        Ok(is_whole.then_some(manifest))
    }

    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        let blob = *manifest.blob();
        let text = manifest_file::encode(manifest);
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            let message = format!(
                "expected a manifest of at most {MANIFEST_BYTES_MAX} bytes, got {}",
                text.len()
            );
            return Err(failed(ErrorKind::Unsupported, Operation::Write, &blob, message));
        }
        let Some(hashed) = self.hash(manifest).await? else {
            let is_there = self.blocking(&blob, move |disk| disk.has(&blob)).await?;
            return Ok(if is_there { Registered::Done } else { Registered::ChunkMissing });
        };
        if let Err(message) = hashed.finish() {
            if self.lacks_chunk(manifest).await? {
                return Ok(Registered::ChunkMissing);
            }
            return Err(failed(ErrorKind::Integrity, Operation::Write, &blob, message));
        }
        self.blocking(&blob, move |disk| disk.write_manifest(&blob, &text)).await?;
        Ok(Registered::Done)
    }
}
