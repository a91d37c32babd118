//! One blob as a stream: `google.bytestream.ByteStream.Write`.
//!
//! A later attempt asks the server how many bytes it has (`QueryWriteStatus`) and sends the rest. A
//! packed stream starts again from the beginning: the API counts its offset partly in packed bytes,
//! and servers differ in how much of it they keep.
//!
//! The server may respond before all bytes are sent, because it already has the blob. Then sending
//! stops. The committed size in the response must be the blob's length. A packed stream has two
//! more valid sizes: -1 if the server already had the blob, or the number of packed bytes once all
//! of them were sent, because some servers count these.
//!
//! Memory: the request body is the source's own memory. The connection holds up to half a MiB of
//! it, and one piece more.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt as _};
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_reapi::bytestream::byte_stream_client::ByteStreamClient;
use tidegate_reapi::bytestream::{QueryWriteStatusRequest, WriteRequest};
use tidegate_reapi::pieces;
use tidegate_reapi::resource::{Compressor, WriteName};
use tidegate_reapi::zstd::{Deflater, SAMPLE_BYTES, pack_if_worth_it};
use tokio::sync::oneshot;
use tonic::Code;
use uuid::Uuid;

use super::cache::answers;
use super::channel::Channel;
use super::outgoing::Carrying;
use super::{Compression, ReapiCache};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::store::{PutRequest, PutSource};

/// Bytes in one message: large enough to make its overhead negligible, and a sixteenth of the limit
/// of gRPC's libraries.
const PIECE_BYTES: usize = 256 << 10;

/// The response to a packed upload of a blob that the server already has
/// (`remote_execution.proto`).
const THERE_ALREADY: i64 = -1;

impl ReapiCache {
    /// Puts one blob; see `ChunkStore::put`.
    pub(super) async fn write(&self, request: &PutRequest) -> Result<()> {
        let digest = &request.digest;
        if digest.len == 0 {
            // The empty blob always exists.
            return Ok(());
        }
        let capabilities = self.capabilities().await?;
        if let Some(max) = capabilities.profile.blob_bytes_max.filter(|max| digest.len > *max) {
            let message = format!("expected at most {max} bytes, got {}", digest.len);
            let target = self.target(Some(digest));
            return Err(Error::new(ErrorKind::Unsupported, Operation::Write, target, message));
        }
        let deflater = if capabilities.zstd { self.deflater(request).await? } else { None };
        let is_packed = deflater.is_some();
        let compressor = if is_packed { Compressor::Zstd } else { Compressor::Identity };
        let upload_id = request.session.upload_name(|| Uuid::new_v4().to_string());
        let name = WriteName { instance: self.instance(), upload_id, compressor, digest: *digest };
        let name = name.to_string();
        let kept = match &deflater {
            None if request.resume => match self.kept(&name, digest).await? {
                Kept::Part(bytes) => bytes,
                Kept::Whole => return Ok(()),
            },
            _ => 0,
        };
        if kept == digest.len {
            // Reports to the source that no more bytes will be read.
            request.source.read(kept, 1).await?;
        }
        let pieces = Pieces::new(request, name, kept, deflater);
        let sent = Arc::clone(&pieces.sent);
        let committed = self.send(request, pieces).await?;
        // This size means that the server has the blob, even if not all bytes were sent.
        if committed == i64::try_from(digest.len).unwrap_or(i64::MAX) {
            return Ok(());
        }
        if is_packed && (committed == THERE_ALREADY || sent.is_all(committed)) {
            return Ok(());
        }
        let message = format!("expected the server to keep {} bytes, got {committed}", digest.len);
        Err(Error::new(ErrorKind::Transport, Operation::Write, self.target(Some(digest)), message)
            .retryable(RetryClass::Now))
    }

    /// The compressor for the blob, if the options ask for one.
    async fn deflater(&self, request: &PutRequest) -> Result<Option<Deflater>> {
        let wished = match self.compression() {
            Compression::Never => false,
            Compression::Always => true,
            Compression::Auto => {
                let sample = request.source.read(0, SAMPLE_BYTES).await?;
                pack_if_worth_it(&sample).is_some()
            }
        };
        let deflater = wished.then(|| Deflater::new(request.digest.len)).transpose();
        deflater.map_err(|error| {
            let target = self.target(Some(&request.digest));
            let message = "the compressor cannot be made";
            Error::new(ErrorKind::Unsupported, Operation::Write, target, message).caused_by(error)
        })
    }

    /// How much of an earlier attempt the server has.
    async fn kept(&self, name: &str, digest: &Digest) -> Result<Kept> {
        let request = QueryWriteStatusRequest { resource_name: name.to_owned() };
        match self.stream().query_write_status(request).await {
            Ok(answer) if answer.get_ref().complete => {
                let committed = answer.get_ref().committed_size;
                if u64::try_from(committed) == Ok(digest.len) {
                    return Ok(Kept::Whole);
                }
                // The server takes no more bytes under this name, and its bytes are not the blob.
                let message =
                    format!("expected a complete upload of {} bytes, got {committed}", digest.len);
                Err(self.wrong(Operation::Write, Some(digest), message))
            }
            // The server may have all bytes without knowing that the upload is complete.
            Ok(answer) => Ok(Kept::Part(
                u64::try_from(answer.get_ref().committed_size)
                    .ok()
                    .filter(|kept| *kept <= digest.len)
                    .unwrap_or(0),
            )),
            Err(status) => {
                let error = self.failed(&status, Operation::Write, Some(digest));
                // The server has no such upload, or does not report it. It will report any error in
                // the upload itself.
                if *error.retry() == RetryClass::Never { Ok(Kept::Part(0)) } else { Err(error) }
            }
        }
    }

    /// Sends the pieces; returns the size that the server committed.
    async fn send(&self, request: &PutRequest, mut pieces: Pieces) -> Result<i64> {
        let (failed, failure) = oneshot::channel();
        pieces.failed = Some(failed);
        // However this ends, reading and sending stop.
        let _stop = Stop(Arc::clone(&pieces.stopped));
        let carrying = Carrying::new(self.channel(), pieces.into_stream(), &request.progress);
        let mut client = ByteStreamClient::with_origin(carrying, self.channel().origin().clone());
        // CANCEL: dropping the future resets the stream.
        let call = pin!(client.write(stream::empty()));
        let failure = pin!(failure);
        let answer = match select(call, failure).await {
            Either::Left((answer, mut failure)) => {
                // The read failure explains more than the server's error about missing bytes.
                if let Ok(error) = failure.try_recv() {
                    return Err(error);
                }
                answer
            }
            Either::Right((Ok(error), _)) => return Err(error),
            // All bytes were read, and only the response is missing.
            Either::Right((Err(_), call)) => call.await,
        };
        match answer {
            Ok(answer) => Ok(answer.get_ref().committed_size),
            // Some servers report an existing blob with this code.
            Err(status) if answers(&status, Code::AlreadyExists) => {
                Ok(i64::try_from(request.digest.len).unwrap_or(i64::MAX))
            }
            Err(status) => Err(self.failed(&status, Operation::Write, Some(&request.digest))),
        }
    }

    fn stream(&self) -> ByteStreamClient<Channel> {
        let channel = self.channel();
        ByteStreamClient::with_origin(channel.clone(), channel.origin().clone())
    }
}

/// How much of an upload a server has.
enum Kept {
    /// The server has this many bytes, and waits for more, or for the end.
    Part(u64),
    Whole,
}

/// How much of an upload has been handed to the connection.
#[derive(Debug, Default)]
struct Sent {
    /// The offset after the last message.
    offset: AtomicI64,
    /// The last message was handed over, too.
    is_finished: AtomicBool,
}

impl Sent {
    /// Whether a server with this committed size has everything.
    fn is_all(&self, committed: i64) -> bool {
        self.is_finished.load(Ordering::Acquire) && self.offset.load(Ordering::Acquire) == committed
    }
}

/// Stops the reading when it is dropped.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The messages of one upload.
struct Pieces {
    source: Arc<dyn PutSource>,
    /// Only the first message contains it.
    name: String,
    len: u64,
    /// The next byte to read.
    next: u64,
    /// The offset of the next message's bytes, as the API counts.
    offset: u64,
    deflater: Option<Deflater>,
    finished: bool,
    sent: Arc<Sent>,
    stopped: Arc<AtomicBool>,
    /// Receives the read failure.
    failed: Option<oneshot::Sender<Error>>,
    target: Digest,
}

impl Pieces {
    fn new(request: &PutRequest, name: String, kept: u64, deflater: Option<Deflater>) -> Self {
        Self {
            source: Arc::clone(&request.source),
            name,
            len: request.digest.len,
            next: kept,
            offset: kept,
            deflater,
            finished: false,
            sent: Arc::default(),
            stopped: Arc::default(),
            failed: None,
            target: request.digest,
        }
    }

    /// The messages; each gives its header and its data as separate pieces.
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        let messages = stream::unfold(self, |mut pieces| async move {
            if pieces.finished || pieces.stopped.load(Ordering::Relaxed) {
                return None;
            }
            match pieces.message().await {
                Ok(message) => Some((message, pieces)),
                Err(error) => {
                    if let Some(failed) = pieces.failed.take() {
                        // There is no receiver if the upload was cancelled.
                        let _ = failed.send(error);
                    }
                    // The stream must not end, because the end would look like a complete upload.
                    std::future::pending().await
                }
            }
        });
        // A message that only ends an upload has no data.
        let pieces = |message: [Bytes; 2]| message.into_iter().filter(|piece| !piece.is_empty());
        messages.flat_map(move |message| stream::iter(pieces(message)))
    }

    async fn message(&mut self) -> Result<[Bytes; 2]> {
        let data = match &self.deflater {
            Some(_) => self.pack().await?,
            // The server has all bytes; only the end is missing.
            None if self.next == self.len => Bytes::new(),
            None => self.piece().await?,
        };
        self.finished = self.next == self.len;
        let message = WriteRequest {
            resource_name: std::mem::take(&mut self.name),
            write_offset: i64::try_from(self.offset).unwrap_or(i64::MAX),
            finish_write: self.finished,
            data,
        };
        self.offset += message.data.len() as u64;
        let offset = i64::try_from(self.offset).unwrap_or(i64::MAX);
        self.sent.offset.store(offset, Ordering::Release);
        self.sent.is_finished.store(self.finished, Ordering::Release);
        pieces::write(message).map_err(|error| {
            self.error(ErrorKind::Unsupported, "it makes no message").caused_by(error)
        })
    }

    async fn piece(&mut self) -> Result<Bytes> {
        let left = usize::try_from(self.len - self.next).unwrap_or(usize::MAX);
        let wanted = left.min(PIECE_BYTES);
        let piece = self.source.read(self.next, wanted).await?;
        if piece.is_empty() || piece.len() > wanted {
            let message = format!("expected {} bytes, got an end at {}", self.len, self.next);
            return Err(self.error(ErrorKind::Changed, &message));
        }
        self.next += piece.len() as u64;
        Ok(piece)
    }

    /// Packs until a message is full, or until all bytes are packed.
    async fn pack(&mut self) -> Result<Bytes> {
        let mut packed = Vec::new();
        while self.next < self.len && packed.len() < PIECE_BYTES {
            let piece = self.piece().await?;
            let pushed = self.deflater.as_mut().map(|deflater| deflater.push(&piece, &mut packed));
            pushed.transpose().map_err(|error| self.unpackable(error))?;
        }
        if self.next == self.len {
            let ended = self.deflater.as_mut().map(|deflater| deflater.finish(&mut packed));
            ended.transpose().map_err(|error| self.unpackable(error))?;
        }
        Ok(packed.into())
    }

    fn unpackable(&self, error: tidegate_reapi::Error) -> Error {
        self.error(ErrorKind::Unsupported, "it cannot be compressed").caused_by(error)
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, Operation::Write, self.target.to_string(), message)
    }
}
