//! [`IncomingBatches`]: the messages of a write as batches of bytes.
//!
//! A batch is what has arrived, up to a length. A fast client fills it while the batch before is
//! written, which saves calls of the store. A slow one does not: its bytes are written, and hold no
//! memory while it sends nothing.
//!
//! Each message names the offset of its data, and may repeat the name of the blob. The generated
//! fields come before the data; other orders are read, too, if the data of the first message is
//! short.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tidegate::{Budget, BytesPermit};
use tidegate_reapi::bytestream::WriteRequest;
use tidegate_reapi::deframe::{Deframer, Part};
use tonic::Status;

use super::super::request::{RequestFrames, wait_for_bytes};
use super::super::{Outcome, status};

/// The bytes of one batch.
pub(super) const BATCH_BYTES: usize = 512 << 10;

/// A batch that is less than half full is written when nothing arrived for this time. It is longer
/// than the gaps of a client that sends at 10 MiB/s in frames of 16 KiB.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// The fields of a message beside its data: a name, an offset, a flag. Names with instances and
/// metadata can be long.
const FIELDS_BYTES_MAX: usize = 16 << 10;

/// Bytes of a blob in their order, and the right to hold them.
#[derive(Debug, Default)]
pub(super) struct IncomingBatch {
    pub(super) pieces: Vec<Bytes>,
    pub(super) len: usize,
    /// What the pieces are charged to. The whole call may hold one instead.
    permit: Option<BytesPermit>,
}

/// The first message says what is written.
#[derive(Clone, Debug)]
pub(super) struct WriteHead {
    pub(super) name: String,
    pub(super) offset: i64,
}

/// The messages of a write.
#[derive(Debug)]
pub(super) struct IncomingBatches {
    frames: RequestFrames,
    frame: Bytes,
    deframer: Deframer,
    head: Option<WriteHead>,
    /// The offset of the first message, and the bytes of data since then.
    start: i64,
    received: u64,
    /// Bytes of data in earlier messages.
    before_message: u64,
    is_finished: bool,
    is_ended: bool,
}

impl IncomingBatches {
    pub(super) fn new(frames: RequestFrames) -> Self {
        Self {
            frames,
            frame: Bytes::new(),
            deframer: Deframer::keeping_fields(FIELDS_BYTES_MAX),
            head: None,
            start: 0,
            received: 0,
            before_message: 0,
            is_finished: false,
            is_ended: false,
        }
    }

    /// The client said that the blob is complete.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Refuses the request if nothing arrives for this time.
    pub(super) fn limit_stall(&mut self, time_max: Duration) {
        self.frames.limit_stall(time_max);
    }

    /// What the client writes, and the bytes that came with it.
    pub(super) async fn head(&mut self) -> Outcome<(WriteHead, IncomingBatch)> {
        let mut batch = IncomingBatch::default();
        loop {
            if let Some(head) = &self.head {
                return Ok((head.clone(), batch));
            }
            if !self.step(&mut batch).await? {
                return Err(Status::invalid_argument("expected a message with a resource name"));
            }
            if self.head.is_none() && batch.len > BATCH_BYTES {
                let message = "expected the resource name before the data";
                return Err(Status::invalid_argument(message));
            }
        }
    }

    /// More bytes, with `first` before them; `None` at the end of the request or of the blob. They are
    /// charged to `budget`, unless the caller holds the right to a batch.
    pub(super) async fn next(
        &mut self,
        first: IncomingBatch,
        budget: Option<&Budget>,
    ) -> Outcome<Option<IncomingBatch>> {
        let mut batch = first;
        while batch.len == 0 {
            if self.is_finished || !self.step(&mut batch).await? {
                return Ok(None);
            }
        }
        if let Some(budget) = budget {
            // More may arrive while this call waits; the connection's window limits it.
            batch.permit = Some(wait_for_bytes(budget, BATCH_BYTES as u64).await?);
        }
        Ok(Some(batch))
    }

    /// Adds what arrives to a batch until it is full or the client pauses, and releases what the
    /// batch does not use.
    pub(super) async fn fill(&mut self, mut batch: IncomingBatch) -> Outcome<IncomingBatch> {
        while batch.len < BATCH_BYTES && !self.is_finished {
            if self.step_ready(&mut batch)? {
                continue;
            }
            if batch.len >= BATCH_BYTES / 2 {
                break;
            }
            match tokio::time::timeout(PAUSE_MAX, self.step(&mut batch)).await {
                Ok(Ok(true)) => {}
                Ok(Err(status)) => return Err(status),
                Ok(Ok(false)) | Err(_) => break,
            }
        }
        if let Some(permit) = &mut batch.permit {
            permit.shrink(batch.len as u64);
        }
        Ok(batch)
    }

    /// Checks that nothing follows the last message. The request may still be open.
    pub(super) fn check_end(&mut self) -> Outcome<()> {
        let mut rest = IncomingBatch::default();
        while self.step_ready(&mut rest)? {}
        if rest.len > 0 { Err(after_finish()) } else { Ok(()) }
    }

    /// Takes what comes next; `false` at the end of the request. Cancel-safe.
    async fn step(&mut self, batch: &mut IncomingBatch) -> Outcome<bool> {
        if self.take_part(batch)? {
            return Ok(true);
        }
        let next = self.frames.next().await?;
        self.feed(next)
    }

    /// As [`Self::step`]; `false` also if nothing has arrived.
    fn step_ready(&mut self, batch: &mut IncomingBatch) -> Outcome<bool> {
        if self.take_part(batch)? {
            return Ok(true);
        }
        match self.frames.next_ready() {
            None => Ok(false),
            Some(next) => self.feed(next?),
        }
    }

    fn feed(&mut self, next: Option<Bytes>) -> Outcome<bool> {
        match next {
            Some(frame) => {
                self.frame = frame;
                Ok(true)
            }
            None if self.deframer.is_between_messages() => {
                self.is_ended = true;
                Ok(false)
            }
            None => Err(Status::invalid_argument("the request ended within a message")),
        }
    }

    /// Takes the next part of the frame; `false` if there is none.
    fn take_part(&mut self, batch: &mut IncomingBatch) -> Outcome<bool> {
        let part = self.deframer.next_part(&mut self.frame);
        match part.map_err(|error| status::invalid(&error))? {
            None => return Ok(false),
            Some(Part::Data(piece)) => {
                if self.is_finished {
                    return Err(after_finish());
                }
                self.note_head()?;
                self.received += piece.len() as u64;
                batch.len += piece.len();
                batch.pieces.push(piece);
            }
            Some(Part::End) => self.end_message()?,
        }
        Ok(true)
    }

    /// Keeps the name and the offset of the first message, if they have arrived.
    fn note_head(&mut self) -> Outcome<()> {
        if self.head.is_some() {
            return Ok(());
        }
        let fields = fields(self.deframer.fields())?;
        if !fields.resource_name.is_empty() {
            self.start = fields.write_offset;
            self.head = Some(WriteHead { name: fields.resource_name, offset: fields.write_offset });
        }
        Ok(())
    }

    fn end_message(&mut self) -> Outcome<()> {
        if self.is_finished {
            return Err(after_finish());
        }
        self.note_head()?;
        let fields = fields(self.deframer.fields())?;
        let Some(head) = &self.head else {
            return Err(Status::invalid_argument("the first message has no resource name"));
        };
        if !fields.resource_name.is_empty() && fields.resource_name != head.name {
            return Err(Status::invalid_argument("a later message has another resource name"));
        }
        let expected = i64::try_from(self.before_message).unwrap_or(i64::MAX);
        let expected = self.start.saturating_add(expected);
        if fields.write_offset != expected {
            let offset = fields.write_offset;
            let message = format!("expected data at offset {expected}, got offset {offset}");
            return Err(Status::invalid_argument(message));
        }
        self.before_message = self.received;
        self.is_finished = fields.finish_write;
        Ok(())
    }
}

fn after_finish() -> Status {
    Status::invalid_argument("a message follows the one with finish_write")
}

fn fields(bytes: &[u8]) -> Outcome<WriteRequest> {
    WriteRequest::decode(bytes).map_err(|error| status::invalid(&error.into()))
}
