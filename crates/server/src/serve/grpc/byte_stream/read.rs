//! `ByteStream.Read`: a blob from an offset on, plain or as a zstd frame.
//!
//! A piece is read from the disk when the connection can send it, and is charged to the budget until
//! the connection has sent it. So a slow client holds few bytes.

use bytes::Bytes;
use futures_util::stream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use tidegate::remote::Body;
use tidegate::store::BlobStore as _;
use tidegate::{Budget, BytesPermit, ErrorKind};
use tidegate_core::digest::Digest;
use tidegate_reapi::resource::{Compressor, ReadName};
use tidegate_reapi::{bytestream, pieces};
use tokio::time::Instant;
use tonic::Status;

use super::super::reply::Reply;
use super::super::request::{RequestMessage, wait_for_bytes};
use super::super::{Api, Outcome, deadline, decode, status};
use crate::serve::observe::{MissReason, StatusMark};

/// The longest piece of a blob: what the store reads at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// The memory of a compressor at the lowest level, and of a piece before and after it.
const DEFLATER_BYTES: u64 = 2 << 20;

/// A piece shorter than this is copied behind the bytes of its message, which costs less than a
/// frame of its own.
const COPIED_BELOW_BYTES: usize = 16 << 10;

/// Bytes that are charged until the connection has sent them.
struct ChargedBytes {
    bytes: Bytes,
    _permit: BytesPermit,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The rest of a blob.
struct BlobRest {
    body: Body,
    /// Bytes that the client wants at most.
    left: u64,
    budget: Budget,
    /// What the piece in flight is charged to.
    permit: Option<BytesPermit>,
    /// The bytes of one piece.
    piece_bytes: u64,
    deadline: Option<Instant>,
    /// Held until the stream ends, if it is compressed.
    deflater: Option<BytesPermit>,
}

impl Api {
    pub(in super::super) async fn read(
        &self,
        message: RequestMessage,
        deadline: Option<Instant>,
    ) -> Outcome {
        let request: bytestream::ReadRequest = decode(&message)?;
        drop(message);
        let name = ReadName::parse(&request.resource_name);
        let name = name.map_err(|error| status::invalid(&error))?;
        self.check_instance(name.instance)?;
        let digest = name.digest;
        let offset = u64::try_from(request.read_offset).ok().filter(|offset| *offset <= digest.len);
        let offset = offset.ok_or_else(|| {
            let offset = request.read_offset;
            Status::out_of_range(format!("offset {offset} is not within {digest}"))
        })?;
        let limit = u64::try_from(request.read_limit).ok();
        let limit = limit.ok_or_else(|| Status::invalid_argument("the limit is negative"))?;
        let is_packed = name.compressor == Compressor::Zstd;
        if is_packed && limit > 0 {
            return Err(Status::invalid_argument("a compressed read cannot have a limit"));
        }
        let len = digest.len - offset;
        let left = if limit == 0 { len } else { limit.min(len) };
        if left == 0 && !is_packed {
            return self.read_nothing(&digest).await;
        }
        let budget = self.parts.budget.share();
        let piece_bytes = left.min(PIECE_BYTES);
        let memory = if is_packed { DEFLATER_BYTES + PIECE_BYTES } else { piece_bytes };
        // A call that holds bytes does not wait.
        let arriving = self.fill(&digest, offset, is_packed).await?;
        let permit = wait_for_bytes(&budget, memory).await?;
        let body = if is_packed {
            let body = self.store.get_packed_from(&digest, offset).await;
            body.map_err(|error| status::of(&error))?.ok_or_else(|| self.missing(&digest))?
        } else if let Some(arriving) = arriving {
            arriving
        } else {
            let body = self.store.get(&digest, offset, &budget).await;
            body.map_err(|error| match error.kind() {
                ErrorKind::NotFound => self.missing(&digest),
                _ => status::of(&error),
            })?
        };
        let (permit, deflater) =
            if is_packed { (None, Some(permit)) } else { (Some(permit), None) };
        let left = if is_packed { u64::MAX } else { left };
        self.parts.observer.read(&digest);
        let rest = BlobRest { body, left, budget, permit, piece_bytes, deadline, deflater };
        Ok(Reply::stream(Box::pin(messages(rest))))
    }

    /// A blob that the store lacks, while it arrives from the upstream. A compressed read waits for
    /// its end.
    async fn fill(&self, digest: &Digest, offset: u64, is_packed: bool) -> Outcome<Option<Body>> {
        let Some(upstream) = &self.parts.upstream else { return Ok(None) };
        if self.store.has(digest).await.map_err(|error| status::of(&error))? {
            return Ok(None);
        }
        if is_packed {
            upstream.fill(digest).await;
            return Ok(None);
        }
        Ok(upstream.open(digest, offset).await)
    }

    /// A range without bytes, of a blob that must be there.
    async fn read_nothing(&self, digest: &Digest) -> Outcome {
        if self.store.has(digest).await.map_err(|error| status::of(&error))? {
            return Ok(Reply::pieces([], None));
        }
        Err(self.missing(digest))
    }

    fn missing(&self, digest: &Digest) -> Status {
        let reason = MissReason::of_loss(self.store.take_loss_of_blob(digest));
        let status = Status::not_found(format!("the cache does not have {digest}"));
        StatusMark::Miss(reason).on(status)
    }
}

/// The framed messages of a blob.
fn messages(rest: BlobRest) -> impl futures_util::Stream<Item = Outcome<Vec<Bytes>>> + Send {
    let pieces = stream::try_unfold(rest, |mut rest| async move {
        Ok::<_, Status>(rest.piece().await?.map(|piece| (piece, rest)))
    });
    pieces.and_then(|piece| async move { framed(piece) }).boxed()
}

impl BlobRest {
    async fn piece(&mut self) -> Outcome<Option<Bytes>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(deadline) = self.deadline else { return self.next().await };
        let next = tokio::time::timeout_at(deadline, self.next()).await;
        next.unwrap_or_else(|_| Err(deadline::exceeded()))
    }

    async fn next(&mut self) -> Outcome<Option<Bytes>> {
        let is_packed = self.deflater.is_some();
        if self.permit.is_none() && !is_packed {
            self.permit = Some(wait_for_bytes(&self.budget, self.piece_bytes).await?);
        }
        let Some(piece) = self.body.next().await else { return Ok(None) };
        let mut piece = piece.map_err(|error| status::of(&error))?;
        piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= piece.len() as u64;
        let Some(mut permit) = self.permit.take() else { return Ok(Some(piece)) };
        permit.shrink(piece.len() as u64);
        Ok(Some(Bytes::from_owner(ChargedBytes { bytes: piece, _permit: permit })))
    }
}

/// One message with a piece of the blob.
fn framed(piece: Bytes) -> Outcome<Vec<Bytes>> {
    let framed = pieces::read(bytestream::ReadResponse { data: piece });
    let framed = framed.map_err(|error| status::invalid(&error))?;
    if framed[1].len() < COPIED_BELOW_BYTES {
        return Ok(vec![framed.concat().into()]);
    }
    Ok(framed.into())
}
