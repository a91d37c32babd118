//! The message of a call, charged to the budget as it arrives, and the frames of a stream.
//!
//! A length is only a claim, so memory is taken for bytes that have arrived. The first bytes of a
//! message wait for the budget while the call holds nothing. Later bytes do not wait: two calls could
//! wait for each other. If the budget has none, the call is refused, and its client may retry.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use tidegate::{Budget, BytesPermit};
use tidegate_reapi::framing::{PREFIX_BYTES, message_len};
use tonic::Status;

use super::status;
use crate::serve::observe::{RequestBody, RequestBodyError};

/// How long a call waits for memory before it is refused.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(20);

/// The first memory of a message that comes in several frames: 500 messages that stall after a byte
/// hold 8 MiB. It doubles from there, so a message of 64 MiB is moved at most twelve times, and each
/// byte about once.
const FIRST_BYTES: usize = 16 << 10;

/// A whole message and the right to hold it.
#[derive(Debug)]
pub(super) struct RequestMessage {
    pub(super) bytes: Bytes,
    _permits: Vec<BytesPermit>,
}

/// The frames of a request.
#[derive(Debug)]
pub(super) struct RequestFrames {
    body: RequestBody,
}

/// A wait for the client, until it is dropped.
struct ClientWait<'a>(&'a mut RequestBody);

impl Drop for ClientWait<'_> {
    fn drop(&mut self) {
        self.0.pause();
    }
}

impl RequestFrames {
    pub(super) fn new(body: RequestBody) -> Self {
        Self { body }
    }

    /// Refuses the request if its client stalls for this time.
    pub(super) fn limit_stall(&mut self, time_max: Duration) {
        self.body.limit_stall(time_max);
    }

    /// The next data; `None` at the end. Fails if the client cut the stream, or sends too little for
    /// too long.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if let Some(ready) = self.next_ready() {
            return ready;
        }
        let wait = ClientWait(&mut self.body);
        next_data(wait.0).await
    }

    /// As [`Self::next`]; `None` if nothing has arrived.
    pub(super) fn next_ready(&mut self) -> Option<Result<Option<Bytes>, Status>> {
        let wait = ClientWait(&mut self.body);
        next_data(wait.0).now_or_never()
    }

    /// The one message of the call.
    pub(super) async fn message(
        mut self,
        budget: &Budget,
        bytes_max: u64,
    ) -> Result<RequestMessage, Status> {
        let (len, mut frame) = self.prefix(bytes_max).await?;
        let mut permits = Vec::with_capacity(1);
        if frame.len() >= len {
            permits.push(wait_for_bytes(budget, len as u64).await?);
            let bytes = frame.split_to(len);
            self.end(&frame).await?;
            return Ok(RequestMessage { bytes, _permits: permits });
        }
        let mut message = BytesMut::new();
        let mut room = 0;
        loop {
            let needed = (message.len() + frame.len()).min(len);
            if needed > room {
                let next = needed.max(room * 2).max(FIRST_BYTES).min(len);
                let more = (next - room) as u64;
                permits.push(if permits.is_empty() {
                    wait_for_bytes(budget, more).await?
                } else {
                    budget.try_bytes(more).ok_or_else(|| status::no_memory(more))?
                });
                message = grown(&message, next);
                room = next;
            }
            let part = frame.split_to(frame.len().min(len - message.len()));
            message.extend_from_slice(&part);
            if message.len() == len {
                break;
            }
            frame = self.next().await?.ok_or_else(cut)?;
        }
        self.end(&frame).await?;
        Ok(RequestMessage { bytes: message.freeze(), _permits: permits })
    }

    /// The length in the prefix of the message, and the bytes that came with it.
    async fn prefix(&mut self, bytes_max: u64) -> Result<(usize, Bytes), Status> {
        let mut prefix = [0; PREFIX_BYTES];
        let mut filled = 0;
        loop {
            let mut frame = self.next().await?.ok_or_else(cut)?;
            let part = frame.len().min(PREFIX_BYTES - filled);
            prefix[filled..filled + part].copy_from_slice(&frame[..part]);
            filled += part;
            frame.advance(part);
            if filled == PREFIX_BYTES {
                let len =
                    message_len(prefix, bytes_max).map_err(|error| status::invalid(&error))?;
                return Ok((usize::try_from(len).unwrap_or(usize::MAX), frame));
            }
        }
    }

    /// Checks that nothing follows the message.
    async fn end(&mut self, rest: &Bytes) -> Result<(), Status> {
        if rest.is_empty() && self.next().await?.is_none() {
            return Ok(());
        }
        Err(Status::invalid_argument("expected one message, got more"))
    }
}

/// The next data of a body that is not empty.
async fn next_data(body: &mut RequestBody) -> Result<Option<Bytes>, Status> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error @ RequestBodyError::Stalled { .. })) => {
                return Err(Status::deadline_exceeded(error.to_string()));
            }
            Some(Err(error @ RequestBodyError::Cut(_))) => {
                return Err(Status::cancelled(error.to_string()));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                // Trailers of a request mean nothing.
                _ => {}
            },
        }
    }
}

fn cut() -> Status {
    Status::invalid_argument("the request ended within a message")
}

/// Waits for bytes of the budget. The caller must hold none.
pub(super) async fn wait_for_bytes(budget: &Budget, bytes: u64) -> Result<BytesPermit, Status> {
    if let Some(permit) = budget.try_bytes(bytes) {
        return Ok(permit);
    }
    let waited = tokio::time::timeout(MEMORY_WAIT_MAX, budget.bytes(bytes)).await;
    waited.ok().ok_or_else(|| status::no_memory(bytes))
}

/// The same bytes with this capacity: what is charged is what is allocated.
fn grown(message: &BytesMut, room: usize) -> BytesMut {
    let mut grown = BytesMut::with_capacity(room);
    grown.extend_from_slice(message);
    grown
}
