//! `ByteStream.Write` and `QueryWriteStatus`: a blob that arrives.
//!
//! A blob that is there is answered at once: the response ends the stream, and the client stops
//! sending. Short blobs are gathered in memory and share a group of the store; longer ones become a
//! file as they arrive. Nothing has the blob's name before all its bytes were compared with it. When
//! several clients send one blob, the first that is done ends the others: they are answered, too.
//!
//! A plain upload that is interrupted continues at the byte where it stopped. A compressed one
//! starts over: its offsets mix compressed and uncompressed bytes.

use std::time::Duration;

use tidegate::{Budget, BytesPermit};
use tidegate_core::digest::Digest;
use tidegate_reapi::bytestream;
use tidegate_reapi::resource::{Compressor, WriteName};
use tidegate_reapi::zstd::INFLATER_BYTES;
use tonic::{Code, Status};

use super::super::reply::Reply;
use super::super::request::{RequestFrames, RequestMessage, wait_for_bytes};
use super::super::{Api, Outcome, decode, status};
use super::incoming::{BATCH_BYTES, IncomingBatch, IncomingBatches};
use super::uploads::ActiveUpload;
use crate::store::BatchEntry;

/// A blob up to this length is gathered in memory; the store keeps it in its log.
const SHORT_BYTES: u64 = 64 << 10;

/// The memory of a write that decompresses a long stream: it holds it until it ends.
pub(in super::super) const PACKED_WRITE_BYTES: u64 = INFLATER_BYTES + 2 * BATCH_BYTES as u64;

/// How long a write waits for the end of others that decompress.
const INFLATER_WAIT_MAX: Duration = Duration::from_secs(20);

/// A write that decompresses is refused if its client sends nothing for this time. It is half of the
/// time that other writes wait for its memory.
const INFLATER_STALL_MAX: Duration = Duration::from_secs(10);

impl Api {
    pub(in super::super) async fn write(&self, frames: RequestFrames) -> Outcome {
        let mut batches = IncomingBatches::new(frames);
        let (head, first) = batches.head().await?;
        let name = WriteName::parse(&head.name).map_err(|error| status::invalid(&error))?;
        self.check_instance(name.instance)?;
        let is_packed = name.compressor == Compressor::Zstd;
        if self.store.has(&name.digest).await.map_err(|error| status::of(&error))? {
            return present(&name);
        }
        self.check_quota(name.instance, name.digest.len)?;
        let offset = u64::try_from(head.offset).ok();
        let offset = offset.ok_or_else(|| Status::invalid_argument("the offset is negative"))?;
        if offset == 0 && name.digest.len <= SHORT_BYTES {
            return self.write_short(&name, batches, first).await;
        }
        let (inflating, permit, first) = if is_packed {
            // A client that has only declared a blob holds no memory.
            let arrived = batches.next(first, None).await?.unwrap_or_default();
            batches.limit_stall(INFLATER_STALL_MAX);
            let (inflating, permit) = self.inflater().await?;
            (inflating, permit, arrived)
        } else {
            (None, None, first)
        };
        let mut upload = self.upload(&name, offset)?;
        // Compressed streams hold the right to two batches already.
        let share = self.parts.budget.share();
        let budget = permit.is_none().then_some(&share);
        match self.receive(&mut batches, first, budget, &upload, &name.digest).await {
            Ok(Received::Ended) => {}
            Ok(Received::Present) => {
                upload.discard();
                return present(&name);
            }
            Err(status) => {
                // After a cut the client may continue.
                if !matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded) {
                    upload.discard();
                }
                return Err(status);
            }
        }
        if !batches.is_finished() {
            return committed(upload.len());
        }
        let len = upload.len();
        upload.finish().await?;
        self.count_written(name.instance, name.digest.len);
        drop((inflating, permit));
        committed(len)
    }

    /// Gathers a short blob, and stores it with those of other calls.
    async fn write_short(
        &self,
        name: &WriteName<'_>,
        mut batches: IncomingBatches,
        mut first: IncomingBatch,
    ) -> Outcome {
        let is_packed = name.compressor == Compressor::Zstd;
        let len = name.digest.len;
        // What grows by more is no compression.
        let len_max = if is_packed { len + len / 8 + 4096 } else { len };
        let room = usize::try_from(len_max).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        let mut permit = None;
        while let Some(batch) = batches.next(std::mem::take(&mut first), None).await? {
            let batch = batches.fill(batch).await?;
            if batch.len > room - bytes.len() {
                let message = format!("expected at most {len_max} bytes of {}", name.digest);
                return Err(Status::invalid_argument(message));
            }
            if permit.is_none() {
                permit = Some(wait_for_bytes(&self.parts.budget.share(), len_max + len).await?);
                bytes.reserve_exact(room);
            }
            batch.pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
        if !batches.is_finished() {
            // Nothing is kept: the client starts over.
            return committed(0);
        }
        batches.check_end()?;
        let received = bytes.len() as u64;
        let entry = BatchEntry { digest: name.digest, data: bytes.into(), is_packed };
        let results = self.store.put_entries(vec![entry]).await;
        let stored = results.and_then(|results| results.into_iter().collect::<Result<(), _>>());
        stored.map_err(|error| status::of(&error))?;
        self.count_written(name.instance, name.digest.len);
        committed(received)
    }

    /// The upload that a write continues or begins.
    fn upload(&self, name: &WriteName<'_>, offset: u64) -> Outcome<ActiveUpload> {
        let is_packed = name.compressor == Compressor::Zstd;
        let key = (!is_packed).then(|| self.caller.own_name(&name.to_string()).into_owned());
        let writer = if offset == 0 {
            let begun = self.store.begin_blob(&name.digest, is_packed);
            begun.map_err(|error| status::of(&error))?
        } else {
            let waiting = key.as_deref().and_then(|key| self.parts.uploads.take(key, offset));
            waiting.ok_or_else(|| {
                let committed = key.as_deref().and_then(|key| self.parts.uploads.committed(key));
                let committed = committed.unwrap_or(0);
                let message = format!("the upload continues at offset {committed}, not {offset}");
                Status::invalid_argument(message)
            })?
        };
        Ok(ActiveUpload::new(&self.parts.uploads, key, writer))
    }

    /// Writes batches until the request or the blob ends, or another write has stored the blob. A
    /// batch arrives while the one before is written. Its wait for memory ends, because a write that
    /// holds memory waits for nothing.
    async fn receive(
        &self,
        batches: &mut IncomingBatches,
        first: IncomingBatch,
        budget: Option<&Budget>,
        upload: &ActiveUpload,
        digest: &Digest,
    ) -> Outcome<Received> {
        let mut next = batches.next(first, budget).await?;
        while let Some(batch) = next {
            let batch = batches.fill(batch).await?;
            let arriving = batches.next(IncomingBatch::default(), budget);
            let (written, arrived) = tokio::join!(upload.write(batch), arriving);
            written?;
            next = arrived?;
            let is_more = next.is_some();
            if is_more && self.store.has(digest).await.map_err(|error| status::of(&error))? {
                return Ok(Received::Present);
            }
        }
        if batches.is_finished() {
            batches.check_end()?;
        }
        Ok(Received::Ended)
    }

    /// The right to decompress a stream.
    async fn inflater(
        &self,
    ) -> Outcome<(Option<tokio::sync::SemaphorePermit<'_>>, Option<BytesPermit>)> {
        let waited = tokio::time::timeout(INFLATER_WAIT_MAX, self.parts.inflaters.acquire()).await;
        let slot = waited.ok().ok_or_else(|| status::no_memory(PACKED_WRITE_BYTES))?;
        let permit = wait_for_bytes(&self.parts.budget.share(), PACKED_WRITE_BYTES).await?;
        // The semaphore is never closed.
        Ok((slot.ok(), Some(permit)))
    }

    pub(in super::super) async fn query_write_status(&self, message: RequestMessage) -> Outcome {
        let request: bytestream::QueryWriteStatusRequest = decode(&message)?;
        let name = WriteName::parse(&request.resource_name);
        let name = name.map_err(|error| status::invalid(&error))?;
        self.check_instance(name.instance)?;
        let is_there = self.store.has(&name.digest).await;
        let complete = is_there.map_err(|error| status::of(&error))?;
        let committed = match (complete, name.compressor) {
            (true, _) => name.digest.len,
            (false, Compressor::Zstd) => 0,
            (false, _) => {
                let name = name.to_string();
                self.parts.uploads.committed(&self.caller.own_name(&name)).unwrap_or(0)
            }
        };
        Reply::message(&bytestream::QueryWriteStatusResponse {
            committed_size: i64::try_from(committed).unwrap_or(i64::MAX),
            complete,
        })
    }
}

/// Why no more batches are written.
enum Received {
    /// The request or the blob has ended.
    Ended,
    /// Another write has stored the blob.
    Present,
}

/// The response for a blob that is there, whatever was sent.
fn present(name: &WriteName<'_>) -> Outcome {
    let committed_size = match name.compressor {
        Compressor::Zstd => -1,
        Compressor::Identity => i64::try_from(name.digest.len).unwrap_or(i64::MAX),
    };
    Reply::message(&bytestream::WriteResponse { committed_size })
}

fn committed(bytes: u64) -> Outcome {
    let committed_size = i64::try_from(bytes).unwrap_or(i64::MAX);
    Reply::message(&bytestream::WriteResponse { committed_size })
}
