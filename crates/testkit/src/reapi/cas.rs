//! The server's content: whole blobs, blobs known only by their manifest, and unfinished uploads.
//!
//! A blob that is known only by its manifest exists while all its chunks exist; evicting a chunk
//! makes it missing. This module verifies nothing: callers verify blobs before they put them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use super::{
    blob_name::{BlobName, HashFunction, len},
    chunk_function::ChunkFunction,
};

/// The chunks of a blob, and the number of the function that cut them.
#[derive(Debug, Clone)]
pub(crate) struct Chunks {
    pub(crate) names: Vec<BlobName>,
    pub(crate) function: i32,
}

#[derive(Debug, Clone)]
enum Stored {
    /// In order; no piece is empty.
    Whole(Vec<Bytes>),
    Manifest(Chunks),
}

#[derive(Debug, Default)]
pub(crate) struct Cas {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blobs: HashMap<BlobName, Stored>,
    uploads: HashMap<String, Upload>,
    phantoms: HashSet<String>,
}

/// The received part of a blob.
#[derive(Debug, Default)]
struct Upload {
    pieces: Vec<Bytes>,
    bytes: u64,
    /// The number of the latest opening. Only the latest opener may add pieces.
    turn: u64,
}

impl Cas {
    /// Puts a blob, as one or several pieces.
    pub(crate) fn put(&self, name: BlobName, mut pieces: Vec<Bytes>) {
        pieces.retain(|piece| !piece.is_empty());
        let mut state = self.lock();
        state.phantoms.remove(&name.hash);
        state.blobs.insert(name, Stored::Whole(pieces));
    }

    /// A blob that is its own single chunk is not changed.
    pub(crate) fn put_manifest(&self, name: BlobName, chunks: Chunks) {
        if chunks.names.contains(&name) {
            return;
        }
        let mut state = self.lock();
        state.phantoms.remove(&name.hash);
        state.blobs.insert(name, Stored::Manifest(chunks));
    }

    pub(crate) fn contains(&self, name: &BlobName) -> bool {
        name.len_bytes == 0 || self.lock().contains(name)
    }

    /// The result of `FindMissingBlobs`, phantoms included.
    pub(crate) fn claims(&self, name: &BlobName) -> bool {
        let state = self.lock();
        name.len_bytes == 0 || state.phantoms.contains(&name.hash) || state.contains(name)
    }

    /// The blob's bytes in order, as one or several pieces; none are empty.
    pub(crate) fn pieces(&self, name: &BlobName) -> Option<Vec<Bytes>> {
        if name.len_bytes == 0 {
            return Some(Vec::new());
        }
        self.lock().pieces(name)
    }

    /// The manifest of a blob that is known only by it.
    pub(crate) fn manifest(&self, name: &BlobName) -> Option<Chunks> {
        match self.lock().blobs.get(name) {
            Some(Stored::Manifest(chunks)) => Some(chunks.clone()),
            Some(Stored::Whole(_)) | None => None,
        }
    }

    /// Cuts a blob and also stores its chunks. `None` if the blob does not exist.
    pub(crate) fn split(&self, name: &BlobName, function: ChunkFunction) -> Option<Chunks> {
        let pieces = self.pieces(name)?;
        let whole = joined(pieces);
        let chunks = chunks_of(name.function, function, &whole);
        let names = chunks.iter().map(|(name, _)| name.clone()).collect();
        let mut state = self.lock();
        for (chunk, data) in chunks {
            // A blob of one chunk is its own chunk.
            state.blobs.entry(chunk).or_insert_with(|| Stored::Whole(vec![data]));
        }
        Some(Chunks { names, function: function.number() })
    }

    pub(crate) fn evict(&self, hash: &str) {
        self.lock().blobs.retain(|name, _| name.hash != hash);
    }

    /// Evicts the blob; from now on `FindMissingBlobs` reports that it exists.
    pub(crate) fn haunt(&self, hash: &str) {
        self.evict(hash);
        self.lock().phantoms.insert(hash.to_owned());
    }

    pub(crate) fn names(&self) -> Vec<BlobName> {
        self.lock().blobs.keys().cloned().collect()
    }

    /// Opens an upload at its current end. Earlier openers can add nothing more.
    pub(crate) fn open_upload(&self, resource: &str) -> OpenUpload {
        let mut state = self.lock();
        let upload = state.uploads.entry(resource.to_owned()).or_default();
        upload.turn += 1;
        OpenUpload { bytes: upload.bytes, turn: upload.turn }
    }

    /// Adds to an upload, unless it was opened again since.
    pub(crate) fn add_to_upload(&self, resource: &str, turn: u64, piece: Bytes) -> bool {
        let mut state = self.lock();
        let Some(upload) = state.uploads.get_mut(resource) else { return false };
        if upload.turn == turn {
            upload.bytes += len(&piece);
            upload.pieces.push(piece);
        }
        upload.turn == turn
    }

    /// The received length of an upload, for a client that wants to resume it. Earlier openers can
    /// add nothing more.
    pub(crate) fn upload_bytes(&self, resource: &str) -> Option<u64> {
        let mut state = self.lock();
        let upload = state.uploads.get_mut(resource)?;
        upload.turn += 1;
        Some(upload.bytes)
    }

    /// Ends an upload and returns the received pieces.
    pub(crate) fn take_upload(&self, resource: &str) -> Vec<Bytes> {
        self.lock().uploads.remove(resource).unwrap_or_default().pieces
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn contains(&self, name: &BlobName) -> bool {
        match self.blobs.get(name) {
            Some(Stored::Whole(_)) => true,
            // A chunk may itself be known only by its manifest. No manifest can contain itself: its
            // hash would have to be known before it is computed.
            Some(Stored::Manifest(chunks)) => chunks.names.iter().all(|chunk| self.contains(chunk)),
            None => name.len_bytes == 0,
        }
    }

    fn pieces(&self, name: &BlobName) -> Option<Vec<Bytes>> {
        match self.blobs.get(name)? {
            Stored::Whole(pieces) => Some(pieces.clone()),
            Stored::Manifest(chunks) => {
                let mut pieces = Vec::with_capacity(chunks.names.len());
                for chunk in &chunks.names {
                    pieces.extend(self.pieces(chunk)?);
                }
                Some(pieces)
            }
        }
    }
}

/// An upload that its opener may add to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenUpload {
    /// The length that was received already.
    pub(crate) bytes: u64,
    pub(crate) turn: u64,
}

/// The pieces as one run of bytes; copies only if there are several pieces.
pub(crate) fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() == 1 {
        return pieces.pop().unwrap_or_default();
    }
    pieces.concat().into()
}

/// The chunks of bytes with their names, in order.
pub(crate) fn chunks_of(
    hash_function: HashFunction,
    function: ChunkFunction,
    data: &Bytes,
) -> Vec<(BlobName, Bytes)> {
    let mut start = 0;
    let mut chunks = Vec::new();
    for length in function.cut(data) {
        let chunk = data.slice(start..start + length);
        start += length;
        chunks.push((hash_function.name(&chunk), chunk));
    }
    debug_assert_eq!(chunks.iter().map(|(name, _)| name.len_bytes).sum::<u64>(), len(data));
    chunks
}
