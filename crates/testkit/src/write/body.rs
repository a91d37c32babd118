//! The body of one request, read in pieces, with the faults of its treatment.
//!
//! A handler pulls the pieces, so a body of any length needs the memory of one piece. A request that
//! expects `100 Continue` gets it with the first pull. A handler that answers without a pull
//! therefore saves the client the body.

use std::io;

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    log::Entry,
    network::Pacer,
    request::Request,
    treatment::{Ending, RequestFaults},
    wire::Wire,
};

/// Bytes read at once. Larger reads gain nothing on loopback.
const PIECE_BYTES: usize = 64 * 1024;
/// The longest line of a chunked body: a size, its extensions, or a trailer.
const LINE_BYTES_MAX: usize = 8 * 1024;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The reason why a body did not arrive whole.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The client or the connection is gone.
    Gone(io::Error),
    /// A fault ended the request.
    Fault(Ending),
    /// The framing violates HTTP.
    Malformed,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// How many bytes follow.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// Of the body.
    Length(u64),
    /// A line with the size of a chunk is next.
    ChunkSize,
    /// Of the chunk.
    Chunk(u64),
    /// The line break after a chunk is next.
    ChunkEnd,
    Nothing,
}

/// See the module docs.
#[derive(Debug)]
pub(crate) struct RequestBody<'a> {
    pub(crate) wire: &'a mut Wire,
    /// Bytes of the connection that were read and not yet used.
    pub(crate) buffer: &'a mut BytesMut,
    pub(crate) pacer: &'a mut Pacer,
    entry: &'a Entry,
    faults: &'a RequestFaults,
    left: Left,
    declared_bytes: Option<u64>,
    expects_continue: bool,
    received_bytes: u64,
}

impl<'a> RequestBody<'a> {
    pub(crate) fn new(
        request: &Request,
        faults: &'a RequestFaults,
        entry: &'a Entry,
        (wire, buffer, pacer): (&'a mut Wire, &'a mut BytesMut, &'a mut Pacer),
    ) -> Result<Self, Broken> {
        let chunked = request.field("transfer-encoding");
        let declared_bytes = request.field("content-length").map(str::parse).transpose();
        let (left, declared_bytes) = match (chunked, declared_bytes) {
            (Some(coding), Ok(None)) if coding.eq_ignore_ascii_case("chunked") => {
                (Left::ChunkSize, None)
            }
            (None, Ok(length)) => {
                let length = length.unwrap_or(0);
                (Left::Length(length), Some(length))
            }
            _ => return Err(Broken::Malformed),
        };
        let expects_continue =
            request.field("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
        let received_bytes = 0;
        Ok(Self {
            wire,
            buffer,
            pacer,
            entry,
            faults,
            left,
            declared_bytes,
            expects_continue,
            received_bytes,
        })
    }

    /// The length that the head promised.
    pub(crate) fn declared_bytes(&self) -> Option<u64> {
        self.declared_bytes
    }

    /// Whether the whole body was read, so that another request may follow.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.left, Left::Nothing | Left::Length(0))
    }

    /// The next piece, or `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        self.stop_if_due().await?;
        let run = self.run().await?;
        if run == 0 {
            return Ok(None);
        }
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        let here = usize::try_from(run).map_or(self.buffer.len(), |run| run.min(self.buffer.len()));
        let until_stop = self.faults.stop_after().map(|at| at.saturating_sub(self.received_bytes));
        let here = until_stop.map_or(here, |n| usize::try_from(n).map_or(here, |n| n.min(here)));
        let mut piece = self.buffer.split_to(here);
        let count = u64::try_from(here).unwrap_or(u64::MAX);
        let flipped = self.faults.flip.and_then(|at| at.checked_sub(self.received_bytes));
        if let Some(byte) = flipped.and_then(|at| usize::try_from(at).ok())
            && let Some(byte) = piece.get_mut(byte)
        {
            *byte ^= 1;
        }
        self.pacer.admit(count).await;
        self.received_bytes += count;
        self.entry.edit(|logged| logged.body_bytes_received = self.received_bytes);
        self.left = match self.left {
            Left::Chunk(left) if left == count => Left::ChunkEnd,
            Left::Chunk(left) => Left::Chunk(left - count),
            Left::Length(left) => Left::Length(left - count),
            other => other,
        };
        Ok(Some(piece.freeze()))
    }

    /// Reads the rest of the body and drops it.
    pub(crate) async fn drop_rest(&mut self) -> Result<(), Broken> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// The whole body, which is a document of at most `bytes_max` bytes.
    pub(crate) async fn document(&mut self, bytes_max: usize) -> Result<Bytes, Broken> {
        let mut document = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if document.len() + piece.len() > bytes_max {
                return Err(Broken::Malformed);
            }
            document.extend_from_slice(&piece);
        }
        Ok(document.freeze())
    }

    /// Performs a fault that is due at this byte of the body.
    async fn stop_if_due(&mut self) -> Result<(), Broken> {
        if self.faults.cut_after == Some(self.received_bytes) {
            return Err(Broken::Fault(Ending::Reset));
        }
        if self.faults.stall_after == Some(self.received_bytes) {
            // The server reads no more, so the client's writes block when the buffers are full.
            self.wire.hung_up().await;
            return Err(Broken::Fault(Ending::Reset));
        }
        Ok(())
    }

    /// Bytes of data until the next framing; 0 after the end.
    async fn run(&mut self) -> Result<u64, Broken> {
        loop {
            match self.left {
                Left::Length(left) | Left::Chunk(left) => return Ok(left),
                Left::Nothing => return Ok(0),
                Left::ChunkEnd => {
                    self.line().await?;
                    self.left = Left::ChunkSize;
                }
                Left::ChunkSize => {
                    let line = self.line().await?;
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    let size = u64::from_str_radix(digits, 16);
                    let size = size.map_err(|_not_a_number| Broken::Malformed)?;
                    if size > 0 {
                        self.left = Left::Chunk(size);
                        continue;
                    }
                    // Trailers end with an empty line. This server uses none of them.
                    while !self.line().await?.is_empty() {}
                    self.left = Left::Nothing;
                }
            }
        }
    }

    /// The next line of the framing, without its end.
    async fn line(&mut self) -> Result<String, Broken> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer.split_to(end);
                self.buffer.advance(2);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(Broken::Malformed);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), Broken> {
        if std::mem::take(&mut self.expects_continue) && self.buffer.is_empty() {
            self.wire.write_all(CONTINUE).await?;
            self.wire.flush().await?;
        }
        self.buffer.reserve(PIECE_BYTES);
        if self.wire.read(self.buffer).await? == 0 {
            return Err(Broken::Gone(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }
}
