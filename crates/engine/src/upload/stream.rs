//! [`SourceStream`]: a source that is read in order, once, part by part into memory.
//!
//! A part of a stream cannot be read again, so it is held until the remote has stored it. The
//! budget limits how many are held. An upload of a stream cannot be resumed; if it fails, it is
//! aborted.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tidegate_core::checksum::ChecksumAlgorithm;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::encode::EncodedStream;
use super::file::UploadFile;
use super::source::PositionalSource;
use super::sums::{PartSummer, PartSums};
use super::units::StreamFeed;
use super::{Made, Transfer, condition, landed, parted, piece, whole};
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::local::{self, LocalStream};
use crate::remote::{Body, LastPart, PartProfile, WriteWay};
use crate::sink::file::target::storage_error;

/// Bytes that go to a temporary file at once.
const SPOOLED_BYTES: u64 = 4 << 20;

/// One read.
pub(super) const FRAME_BYTES: usize = 256 << 10;

/// See the module docs.
pub(super) struct SourceStream(Kind);

enum Kind {
    Local { stream: LocalStream, name: Arc<str>, cancel: CancellationToken },
    Body { body: Body, rest: Bytes },
    Reader(Box<dyn AsyncRead + Send + Unpin>),
    Encoded { stream: Box<EncodedStream>, rest: Bytes },
}

impl fmt::Debug for SourceStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SourceStream(..)")
    }
}

/// A part in memory.
#[derive(Debug)]
pub(super) struct HeldPart {
    pub(super) frames: Arc<[Bytes]>,
    pub(super) sums: PartSums,
    /// The stream has ended with it.
    pub(super) is_last: bool,
}

impl HeldPart {
    pub(super) fn len(&self) -> u64 {
        self.sums.crc.len()
    }
}

impl SourceStream {
    pub(super) fn of_local(stream: LocalStream, name: Arc<str>, cancel: CancellationToken) -> Self {
        Self(Kind::Local { stream, name, cancel })
    }

    pub(super) fn of_body(body: Body) -> Self {
        Self(Kind::Body { body, rest: Bytes::new() })
    }

    pub(super) fn of_reader(reader: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self(Kind::Reader(reader))
    }

    pub(super) fn of_encoded(stream: EncodedStream) -> Self {
        Self(Kind::Encoded { stream: Box::new(stream), rest: Bytes::new() })
    }

    /// Bytes that the stream itself holds while a part is read.
    fn held_bytes(&self) -> u64 {
        match &self.0 {
            Kind::Encoded { stream, .. } => stream.held_bytes(),
            Kind::Local { .. } | Kind::Body { .. } | Kind::Reader(_) => 0,
        }
    }

    /// Reads the next bytes; none at the end.
    async fn frame(&mut self, max: usize) -> Result<Bytes> {
        match &mut self.0 {
            Kind::Body { body, rest } => {
                while rest.is_empty() {
                    match body.next().await {
                        Some(frame) => *rest = frame?,
                        None => return Ok(Bytes::new()),
                    }
                }
                Ok(rest.split_to(rest.len().min(max)))
            }
            Kind::Reader(reader) => {
                let mut frame = BytesMut::with_capacity(max.min(FRAME_BYTES));
                let mut limited = reader.take(max.min(FRAME_BYTES) as u64);
                while limited.limit() > 0 {
                    let count = limited.read_buf(&mut frame).await;
                    if count.map_err(unread)? == 0 {
                        break;
                    }
                }
                Ok(frame.freeze())
            }
            Kind::Encoded { stream, rest } => {
                if rest.is_empty() {
                    *rest = stream.next().await?.unwrap_or_default();
                }
                Ok(rest.split_to(rest.len().min(max)))
            }
            Kind::Local { .. } => Ok(Bytes::new()),
        }
    }

    /// Reads a part of at most `len` bytes; it is shorter only at the end of the stream.
    pub(super) async fn part(
        self,
        len: u64,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<(HeldPart, Self)> {
        if let Kind::Local { stream, name, cancel } = self.0 {
            return part_of_local(stream, name, cancel, len, algorithm).await;
        }
        let mut this = self;
        let (mut frames, mut left) = (Vec::new(), len);
        let mut summer = PartSummer::new(algorithm);
        while left > 0 {
            let frame = this.frame(usize::try_from(left).unwrap_or(usize::MAX)).await?;
            if frame.is_empty() {
                break;
            }
            summer.update(&frame);
            left -= frame.len() as u64;
            frames.push(frame);
        }
        let part = HeldPart { frames: frames.into(), sums: summer.finish(), is_last: left > 0 };
        Ok((part, this))
    }
}

async fn part_of_local(
    mut stream: LocalStream,
    name: Arc<str>,
    cancel: CancellationToken,
    len: u64,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(HeldPart, SourceStream)> {
    let target = Arc::clone(&name);
    offload(Operation::Upload, &target, move || {
        let (mut frames, mut left) = (Vec::new(), len);
        let mut summer = PartSummer::new(algorithm);
        let mut is_last = false;
        while left > 0 && !is_last {
            let max = usize::try_from(left).unwrap_or(usize::MAX).min(FRAME_BYTES);
            let mut frame = BytesMut::zeroed(max);
            let mut filled = 0;
            while filled < max && !is_last {
                match stream.read(&mut frame[filled..], &cancel) {
                    Ok(Some(0)) => is_last = true,
                    Ok(Some(count)) => filled += count,
                    Ok(None) => {
                        let message = "it was cancelled";
                        return Err(Error::new(
                            ErrorKind::Cancelled,
                            Operation::Upload,
                            &*name,
                            message,
                        ));
                    }
                    Err(error) => return Err(local::failed(&name, Operation::Upload, error)),
                }
            }
            frame.truncate(filled);
            summer.update(&frame);
            left -= filled as u64;
            if filled > 0 {
                frames.push(frame.freeze());
            }
        }
        let part = HeldPart { frames: frames.into(), sums: summer.finish(), is_last };
        Ok((part, SourceStream::of_local(stream, name, cancel)))
    })
    .await
}

/// The error of a reader. One that reads a remote has an error of its own, with its kind.
fn unread(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => local::failed("the reader", Operation::Upload, error),
    }
}

/// Whether the remote takes a blob only whole: then its length must be known.
pub(super) fn needs_length(transfer: &Transfer) -> Result<bool> {
    let profile = transfer.write()?.write_profile(&transfer.options.write.precondition);
    Ok(profile.parts.is_none_or(|parts| parts.last == LastPart::WithComplete))
}

/// Copies a stream to a temporary file, whose length is then known. `first` was read before.
pub(super) async fn spool(
    transfer: &Transfer,
    stream: Option<SourceStream>,
    first: Option<(HeldPart, BytesPermit)>,
) -> Result<PositionalSource> {
    let target = transfer.target.display();
    let file = offload(Operation::Upload, target, || tempfile::tempfile().map_err(unwritten));
    let (file, mut left, mut end) = (Arc::new(file.await?), stream, 0);
    if let Some((part, permit)) = first {
        end += write(transfer, &file, part, end).await?;
        drop(permit);
    }
    while let Some(stream) = left.take() {
        let (permit, part, rest) = read(transfer, stream, SPOOLED_BYTES, None).await?;
        left = Some(rest).filter(|_| !part.is_last);
        end += write(transfer, &file, part, end).await?;
        drop(permit);
    }
    let opened = UploadFile::spooled(file, end).await?;
    Ok(PositionalSource::Spooled(Arc::new(opened)))
}

/// Writes a part at a position, and returns its length.
async fn write(transfer: &Transfer, file: &Arc<File>, part: HeldPart, at: u64) -> Result<u64> {
    let (len, into) = (part.len(), Arc::clone(file));
    offload(Operation::Upload, transfer.target.display(), move || {
        let mut at = at;
        for frame in part.frames.iter() {
            into.write_all_at(frame, at).map_err(unwritten)?;
            at += frame.len() as u64;
        }
        Ok(len)
    })
    .await
}

fn unwritten(error: io::Error) -> Error {
    storage_error(Operation::Upload, "a temporary file", error)
}

/// Uploads a stream: in one request if it ends within the first part.
pub(super) async fn upload(transfer: &Arc<Transfer>, stream: SourceStream) -> Result<Made> {
    let profile = transfer.write()?.write_profile(&transfer.options.write.precondition);
    let algorithm = profile.put_checksums.first().copied();
    let parts = profile.parts.filter(|parts| parts.last == LastPart::Alone);
    let Some(parts) = parts else { return Err(no_length(transfer)) };
    let first = first_part_bytes(transfer, &parts)?;
    condition::check(transfer, &transfer.options.write.precondition).await?;
    let (permit, part, stream) = read(transfer, stream, first, algorithm).await?;
    if part.is_last {
        condition::prove(transfer, WriteWay::Put).await?;
        let options = landed::marked(&transfer.options.write)?;
        let frames = Arc::clone(&part.frames);
        let payload = |sending: &_| {
            let payload = piece::of_frames(&frames, sending);
            match part.sums.sent() {
                Some(checksum) => payload.with_checksum(checksum.clone()),
                None => payload,
            }
        };
        let written = whole::put(transfer, part.len(), &options, payload).await?;
        drop(permit);
        return Ok(Made {
            written,
            options,
            len_bytes: part.len(),
            resumed_bytes: 0,
            checksum: Some(part.sums.crc.to_checksum()),
            parts: 1,
            notes: Vec::new(),
        });
    }
    let feed = StreamFeed::new(stream, first, part, permit);
    parted::upload_stream(transfer, feed).await
}

/// Reads a part, within the budget.
pub(super) async fn read(
    transfer: &Transfer,
    stream: SourceStream,
    len: u64,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(BytesPermit, HeldPart, SourceStream)> {
    let reading = async {
        let mut permit = transfer.budget.bytes(len.saturating_add(stream.held_bytes())).await;
        let (part, stream) = stream.part(len, algorithm).await?;
        permit.shrink(part.len());
        Ok((permit, part, stream))
    };
    transfer.calls.unless_cancelled(reading).await?
}

fn first_part_bytes(transfer: &Transfer, profile: &PartProfile) -> Result<u64> {
    let options = &transfer.options;
    transfer.planned(options.expected_bytes.unwrap_or(0), options.part_bytes, profile)
}

fn no_length(transfer: &Transfer) -> Error {
    let message = "a stream has no length, and the remote takes it only whole";
    transfer
        .error(ErrorKind::Unsupported, message)
        .with_hint("write it to a file first, and upload the file")
}
