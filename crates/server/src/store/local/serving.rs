//! What a server needs in one step: the presence of many blobs, a batch, a blob that arrives in
//! parts. Look-ups in the index and short hashes run on the caller's thread; all that can wait for
//! the disk runs on a blocking thread.

use bytes::Bytes;
use tidegate::{Operation, Result};
use tidegate_core::digest::Digest;
use tokio::task::JoinSet;

use super::LocalStore;
use crate::store::blobs::{BatchEntry, Blobs, Incoming, IncomingPacked, Touch};
use crate::store::core::Op;
use crate::store::error::{StoreError, StoreResult};
use crate::store::options::Level;
use crate::trace::TraceOperation;

/// Bytes that one blocking thread verifies at least: hashing them takes as long as starting it.
const VERIFIED_TOGETHER_BYTES: usize = 256 << 10;

/// Blocking threads that verify one batch at most.
const VERIFIERS_MAX: usize = 8;

/// A blob up to this length is hashed on the caller's thread, which takes some 10 microseconds.
const HASHED_AT_ONCE_BYTES: usize = 16 << 10;

/// A blob as it is read for a batch.
#[derive(Clone, Debug)]
pub(crate) struct ReadEntry {
    /// Its bytes, or a zstd frame of them.
    pub(crate) data: Bytes,
    /// Whether `data` is a zstd frame.
    pub(crate) is_packed: bool,
}

impl LocalStore {
    /// What an acknowledgement means.
    pub(crate) fn level(&self) -> Level {
        self.0.blobs.core.options().level
    }

    /// For each blob, whether it is there. Touches those that are.
    pub(crate) async fn present(&self, digests: Vec<Digest>) -> Result<Vec<bool>> {
        for digest in &digests {
            self.record_blob(TraceOperation::Find, digest);
        }
        self.look_up(digests).await
    }

    /// Whether one blob is there, without a record in the trace.
    pub(crate) async fn has(&self, digest: &Digest) -> Result<bool> {
        Ok(digest.len == 0 || self.look_up(vec![*digest]).await? == [true])
    }

    /// Blobs that the index does not name may exist as chunks or as a slice. Only if it names those
    /// are records read, on another thread. So a question for blobs that were never sent, which is
    /// what most clients ask, changes no thread.
    async fn look_up(&self, digests: Vec<Digest>) -> Result<Vec<bool>> {
        let blobs = &self.0.blobs;
        let is_loaded = blobs.core.is_loaded();
        let mut present =
            if is_loaded { blobs.indexed(&digests) } else { vec![false; digests.len()] };
        for (is_there, digest) in present.iter_mut().zip(&digests) {
            *is_there |= digest.len == 0;
        }
        let is_open = |place: &usize, digest: &Digest| {
            !present[*place] && (!is_loaded || blobs.has_beside(digest))
        };
        let open = digests.into_iter().enumerate().filter(|(place, digest)| is_open(place, digest));
        let (places, unknown): (Vec<usize>, Vec<Digest>) = open.unzip();
        if unknown.is_empty() {
            return Ok(present);
        }
        let looked = self.blocking(Operation::Read, "the index of the store", move |blobs| {
            blobs.present(&unknown, Touch::Now)
        });
        for (place, is_there) in places.into_iter().zip(looked.await?) {
            present[place] = is_there;
        }
        Ok(present)
    }

    /// Stores blobs as one group. The results are in their order.
    pub(crate) async fn put_entries(&self, entries: Vec<BatchEntry>) -> Result<Vec<Result<()>>> {
        for entry in &entries {
            self.record_blob(TraceOperation::Put, &entry.digest);
        }
        let targets: Vec<Digest> = entries.iter().map(|entry| entry.digest).collect();
        let mut ops = Vec::with_capacity(entries.len());
        let mut results: Vec<StoreResult<()>> = Vec::with_capacity(entries.len());
        let mut places = Vec::with_capacity(entries.len());
        for prepared in self.prepare(entries).await? {
            results.push(prepared.map(|op| {
                places.extend(op.is_some().then_some(results.len()));
                ops.extend(op);
            }));
        }
        let committed = self.0.blobs.commit_async(ops).await;
        for (place, result) in places.into_iter().zip(committed) {
            if let Some(slot) = results.get_mut(place) {
                *slot = result;
            }
        }
        let named = results.into_iter().zip(&targets).map(|(result, digest)| {
            result.map_err(|failure| super::error(Operation::Write, &digest.to_string(), failure))
        });
        Ok(named.collect())
    }

    /// Verifies entries, several at once if they are long.
    async fn prepare(&self, mut entries: Vec<BatchEntry>) -> Result<Vec<StoreResult<Option<Op>>>> {
        let bytes: usize = entries.iter().map(|entry| entry.data.len()).sum();
        let is_short = bytes <= HASHED_AT_ONCE_BYTES;
        if is_short && entries.iter().all(|entry| !entry.is_packed) {
            return Ok(entries.iter().map(|entry| self.0.blobs.prepare(entry)).collect());
        }
        let verifiers = (bytes / VERIFIED_TOGETHER_BYTES).clamp(1, VERIFIERS_MAX);
        let each = entries.len().div_ceil(verifiers);
        let mut tasks = JoinSet::new();
        let mut number = 0;
        while !entries.is_empty() {
            let rest = entries.split_off(each.min(entries.len()));
            let (part, blobs) = (std::mem::replace(&mut entries, rest), self.0.blobs.clone());
            let prepare = move |blobs: &Blobs| -> Vec<_> {
                part.iter().map(|entry| blobs.prepare(entry)).collect()
            };
            tasks.spawn_blocking(move || (number, prepare(&blobs)));
            number += 1;
        }
        let mut parts = Vec::with_capacity(number);
        while let Some(part) = tasks.join_next().await {
            parts.push(part.map_err(|error| super::cancelled("a batch", error))?);
        }
        parts.sort_unstable_by_key(|(number, _)| *number);
        Ok(parts.into_iter().flat_map(|(_, prepared)| prepared).collect())
    }

    /// Whole blobs for one message, in the order of `digests`; `None` for those that are missing or
    /// damaged. A blob that is stored compressed is returned so if `allows_packed`.
    pub(crate) async fn get_entries(
        &self,
        digests: Vec<Digest>,
        allows_packed: bool,
    ) -> Result<Vec<Result<Option<ReadEntry>>>> {
        for digest in &digests {
            self.record_blob(TraceOperation::Get, digest);
        }
        let read = self.blocking(Operation::Read, "a batch", move |blobs| {
            let read = |digest: &Digest| match read_entry(blobs, digest, allows_packed) {
                Err(StoreError::Damaged) => Ok(None),
                outcome => outcome
                    .map_err(|failure| super::error(Operation::Read, &digest.to_string(), failure)),
            };
            Ok(digests.iter().map(read).collect())
        });
        read.await
    }

    /// Begins to store a blob that arrives in parts: plain, or as a zstd frame.
    pub(crate) fn begin_blob(&self, digest: &Digest, is_packed: bool) -> Result<BlobWriter> {
        self.record_blob(TraceOperation::Put, digest);
        let blobs = &self.0.blobs;
        let arriving = if is_packed {
            let packed = blobs.receive_packed(digest);
            Arriving::Packed(Box::new(packed.map_err(|failure| failed(digest, failure))?))
        } else {
            Arriving::Plain(Box::new(blobs.receive(digest)))
        };
        Ok(BlobWriter { digest: *digest, arriving })
    }
}

fn read_entry(
    blobs: &Blobs,
    digest: &Digest,
    allows_packed: bool,
) -> StoreResult<Option<ReadEntry>> {
    if allows_packed && let Some(mut reader) = blobs.open_packed(digest)? {
        let mut data = Vec::new();
        while let Some(piece) = reader.next_piece()? {
            data.extend_from_slice(&piece);
        }
        return Ok(Some(ReadEntry { data: data.into(), is_packed: true }));
    }
    let read = super::read_all(blobs, digest)?;
    Ok(read.map(|data| ReadEntry { data, is_packed: false }))
}

/// A blob that arrives in parts. Dropping it keeps nothing. Its methods block.
#[derive(Debug)]
pub(crate) struct BlobWriter {
    digest: Digest,
    arriving: Arriving,
}

#[derive(Debug)]
enum Arriving {
    Plain(Box<Incoming>),
    Packed(Box<IncomingPacked>),
}

impl BlobWriter {
    /// Bytes that were written, as they arrived.
    pub(crate) fn len(&self) -> u64 {
        match &self.arriving {
            Arriving::Plain(incoming) => incoming.len(),
            Arriving::Packed(incoming) => incoming.len(),
        }
    }

    /// The next bytes. Fails with `Integrity` if they are too many, or no zstd frame.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.arriving {
            Arriving::Plain(incoming) => incoming.write(bytes),
            Arriving::Packed(incoming) => incoming.write(bytes),
        };
        written.map_err(|failure| failed(&self.digest, failure))
    }

    /// Names the blob. Fails with `Integrity` if the bytes have another digest.
    pub(crate) fn finish(self) -> Result<()> {
        let finished = match self.arriving {
            Arriving::Plain(incoming) => incoming.finish(),
            Arriving::Packed(incoming) => incoming.finish(),
        };
        finished.map_err(|failure| failed(&self.digest, failure))
    }
}

fn failed(digest: &Digest, failure: StoreError) -> tidegate::Error {
    super::error(Operation::Write, &digest.to_string(), failure)
}
