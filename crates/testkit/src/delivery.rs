//! Sends one response, with the faults of its treatment.
//!
//! The body is sent in steps. A step ends at each event: a rate's step, a flipped bit, a change of
//! content, a hold, the cut. In-memory content is written without a copy. A file is read into one
//! bounded buffer on a blocking thread.

use std::{io, ops::Range, sync::Arc, time::Duration};

use crate::{
    blob::{Content, READ_BYTES, slice},
    log::Entry,
    network::Pacer,
    options::Framing,
    origin::Origin,
    respond::{Answer, Body},
    treatment::{Ending, Opening, Stop, Treatment},
    wire::Wire,
};

/// A garbage head: the start of a TLS record, then text.
const GARBAGE: &[u8] = b"\x16\x03\x01\x02\x00this is no HTTP\r\n\r\n";

/// One response that is being sent.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) wire: &'a mut Wire,
    pub(crate) pacer: &'a mut Pacer,
    pub(crate) entry: &'a Entry,
    pub(crate) treatment: &'a Treatment,
    /// The path at which a change during the body replaces the blob.
    pub(crate) path: &'a str,
    pub(crate) framing: Framing,
    /// Whether it is a response to HEAD.
    pub(crate) head_only: bool,
    /// Whether another request may follow.
    pub(crate) keep_alive: bool,
}

impl Delivery<'_> {
    /// Sends `answer` and returns how the connection continues.
    pub(crate) async fn send(&mut self, mut answer: Answer) -> io::Result<Ending> {
        if self.treatment.opening == Opening::Nothing {
            return Ok(Ending::Fin);
        }
        let framing = self.frame(&mut answer);
        if !self.open(&answer).await? {
            return Ok(Ending::Fin);
        }
        let complete = match (self.head_only, answer.body) {
            (true, _) | (_, Body::None) => true,
            (_, Body::Text(text)) => self.text(&text).await?,
            (_, Body::Blob(blob, range) | Body::Unmeasured(blob, range)) => {
                self.blob(&blob.content, range, framing).await?
            }
        };
        self.wire.flush().await?;
        let polite = self.keep_alive && framing != Framing::UntilClose;
        Ok(match self.treatment.ending {
            Ending::KeepAlive if !complete => Ending::Fin,
            Ending::KeepAlive if !polite => Ending::Close,
            ending => ending,
        })
    }

    /// Adds the fields that frame the body to the head.
    fn frame(&self, answer: &mut Answer) -> Framing {
        let framing = match answer.body {
            Body::Blob(..) => self.framing,
            Body::Unmeasured(..) if self.framing == Framing::UntilClose => Framing::UntilClose,
            Body::Unmeasured(..) => Framing::Chunked,
            Body::None | Body::Text(_) => Framing::ContentLength,
        };
        match (framing, answer.body.promised_bytes()) {
            (Framing::ContentLength, Some(bytes)) => {
                answer.head.add("Content-Length", bytes.to_string());
            }
            (Framing::Chunked, Some(_)) => answer.head.add("Transfer-Encoding", "chunked"),
            _ => {}
        }
        if !self.keep_alive || framing == Framing::UntilClose {
            answer.head.add("Connection", "close");
        }
        framing
    }

    /// Sends the bytes before the body; `false` if nothing may follow.
    async fn open(&mut self, answer: &Answer) -> io::Result<bool> {
        let head = answer.head.encode();
        let (bytes, goes_on) = match self.treatment.opening {
            Opening::Garbage => (GARBAGE, false),
            Opening::HalfAHead => (slice(&head, 0, half(head.len())), false),
            Opening::Head | Opening::Nothing => (head.as_slice(), true),
        };
        if goes_on {
            self.entry.edit(|logged| logged.status = Some(answer.head.status));
        }
        self.wire.write_all(bytes).await?;
        self.wire.flush().await?;
        Ok(goes_on)
    }

    /// Sends an error document. Its only possible fault is a wrong end. `false` if cut short.
    async fn text(&mut self, text: &[u8]) -> io::Result<bool> {
        let len = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let wanted = self.treatment.stop.bytes(len);
        write(self.wire, self.entry, slice(text, 0, wanted), Framing::ContentLength).await?;
        Ok(self.treatment.stop == Stop::AtEnd)
    }

    /// Sends a range of the blob; `false` if it sent fewer bytes than the head promised.
    async fn blob(
        &mut self,
        content: &Content,
        range: Range<u64>,
        framing: Framing,
    ) -> io::Result<bool> {
        let promised = range.end.saturating_sub(range.start);
        let exists = content.len().min(range.end).saturating_sub(range.start);
        let wanted = self.treatment.stop.bytes(promised).min(exists);
        let mut source = Source::new(content.clone(), range.start);
        let mut sent = 0;
        while sent < wanted {
            self.act_at(sent, &mut source).await?;
            let next = self.step_end(sent, range.start).min(wanted);
            let flip = self.treatment.flip == Some(range.start.saturating_add(sent));
            let piece = source.piece(sent, next).await?;
            if piece.is_empty() {
                // A shorter content replaced this one while it was sent.
                return Ok(false);
            }
            let count = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            let flipped = [piece[0] ^ 1];
            let bytes = if flip { &flipped } else { piece };
            self.pacer.admit(count).await;
            write(self.wire, self.entry, bytes, framing).await?;
            sent += count;
        }
        self.act_at(sent, &mut source).await?;
        let complete = sent == promised && self.treatment.stop == Stop::AtEnd;
        if complete && framing == Framing::Chunked {
            self.wire.write_all(b"0\r\n\r\n").await?;
        }
        Ok(complete)
    }

    /// Performs the events that are due after `sent` bytes of the body.
    async fn act_at(&mut self, sent: u64, source: &mut Source) -> io::Result<()> {
        if let Some((after, blob)) = &self.treatment.swap
            && *after == sent
        {
            self.origin.store.put(self.path, blob.clone());
            source.content = blob.content.clone();
        }
        if let Some((bytes, gate)) = &self.treatment.hold
            && *bytes == sent
        {
            self.wire.flush().await?;
            tokio::select! {
                () = gate.pass() => {}
                () = self.wire.gone() => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        if let Some((_, interval_ms)) = self.treatment.drip
            && sent > 0
        {
            self.wire.flush().await?;
            tokio::time::sleep(Duration::from_millis(interval_ms)).await;
        }
        Ok(())
    }

    /// The end of the step that starts at `sent`: at the latest the next event.
    fn step_end(&self, sent: u64, start: u64) -> u64 {
        let step = self.treatment.drip.map_or(self.pacer.step_bytes(), |(bytes, _)| bytes.max(1));
        let flip = self.treatment.flip.and_then(|offset| offset.checked_sub(start));
        let places = [
            self.treatment.swap.as_ref().map(|(after, _)| *after),
            self.treatment.hold.as_ref().map(|(bytes, _)| *bytes),
            flip,
            flip.map(|at| at.saturating_add(1)),
        ];
        let ahead = places.into_iter().flatten().filter(|place| *place > sent);
        ahead.fold(sent.saturating_add(step), u64::min)
    }
}

fn half(len: usize) -> u64 {
    u64::try_from(len / 2).unwrap_or(0)
}

/// Writes a piece of the body and counts the bytes that the kernel accepts.
async fn write(
    wire: &mut Wire,
    entry: &Entry,
    mut bytes: &[u8],
    framing: Framing,
) -> io::Result<()> {
    if framing == Framing::Chunked {
        wire.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
    }
    while !bytes.is_empty() {
        let count = wire.write(bytes).await?;
        bytes = bytes.get(count..).unwrap_or_default();
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        entry.edit(|logged| logged.bytes_sent = logged.bytes_sent.saturating_add(count));
    }
    if framing == Framing::Chunked {
        wire.write_all(b"\r\n").await?;
    }
    Ok(())
}

/// Content from a start on, piece by piece.
struct Source {
    content: Content,
    start: u64,
    buffer: Vec<u8>,
}

impl Source {
    fn new(content: Content, start: u64) -> Self {
        Self { content, start, buffer: Vec::new() }
    }

    /// Bytes from `from` to `to` after the start, or fewer, but at least one if one exists.
    async fn piece(&mut self, from: u64, to: u64) -> io::Result<&[u8]> {
        let (from, to) = (self.start.saturating_add(from), self.start.saturating_add(to));
        match &self.content {
            Content::Memory(bytes) => Ok(slice(bytes, from, to)),
            // `respond` never gives out such a blob.
            Content::Dropped { .. } => Ok(&[]),
            Content::File { file, len_bytes } => {
                let count = to.min(*len_bytes).saturating_sub(from);
                let count = usize::try_from(count).map_or(READ_BYTES, |n| n.min(READ_BYTES));
                let file = Arc::clone(file);
                let mut buffer = std::mem::take(&mut self.buffer);
                let read = tokio::task::spawn_blocking(move || {
                    buffer.resize(count, 0);
                    std::os::unix::fs::FileExt::read_exact_at(&*file, &mut buffer, from)?;
                    io::Result::Ok(buffer)
                });
                self.buffer = read.await.map_err(io::Error::other)??;
                Ok(&self.buffer)
            }
        }
    }
}
