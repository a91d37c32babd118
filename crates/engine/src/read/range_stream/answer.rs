//! The head of a response: the offset of its bytes, and the check that it belongs to the same blob
//! as the earlier responses.
//!
//! A response whose head contradicts an earlier one is an error before any of its bytes are
//! delivered. The body is checked in `end`.

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryClass;

use super::interruption::NO_VERSION_HINT;
use super::options::coding;
use super::values::contradiction_of;
use super::{Live, Manner, Phase, RangeStream};
use crate::error::{ErrorKind, Operation, Result};
use crate::read::flow::Share;
use crate::read::request::Answered;
use crate::remote::Opened;

impl RangeStream {
    /// Checks the head of a response and starts to read its body. The first response sets the facts
    /// of the stream.
    pub(super) fn accept(&mut self, answered: Answered, span: tracing::Span) -> Result<()> {
        let opened = &answered.opened;
        self.compare(opened)?;
        let range = match &self.info {
            None if !self.begun => Some(self.first_range(opened)?),
            _ => None,
        };
        let next = range.as_ref().map_or(self.next, |(start, _)| *start);
        if opened.start > next {
            // Example: two responses give different lengths, and the range counts from the end.
            let message = format!("expected bytes from {next} on, got some from {}", opened.start);
            return Err(self.error(ErrorKind::Integrity, message).retryable(RetryClass::Now));
        }
        self.len_bytes = self.len_bytes.or(opened.info.len_bytes);
        if self.info.is_some() {
            // The first response may not have given the end of the blob.
            let end = self.end.unwrap_or(u64::MAX);
            self.end = opened.info.len_bytes.map(|len| len.min(end)).or(self.end);
        } else {
            if let Some((start, end)) = range {
                self.next = start;
                self.end = end;
                self.begun = true;
            }
            self.pinned = self.pinned.take().or_else(|| opened.info.version.clone());
            self.manner = Manner {
                ignores_ranges: opened.whole && self.wanted != ByteRange::All,
                encoded_unasked: opened.encoded_unasked,
            };
            self.coding.get_or_insert_with(|| coding(&opened.info).to_owned());
            if self.checksums.is_empty() {
                self.checksums.clone_from(&opened.info.checksums);
            }
            self.info = Some(opened.info.clone());
        }
        self.waited = opened.waited;
        self.stats.answered();
        self.stats.more_requests(opened.requests.saturating_sub(1));
        // If this head claims no end, a length from another source limits the body.
        let end = opened.end.or(self.len_bytes);
        let share = Share::new(&self.flow);
        self.phase = Phase::Live(Live::new(answered, end, share, span));
        Ok(())
    }

    /// Checks the head of a response against the known facts.
    fn compare(&self, opened: &Opened) -> Result<()> {
        let info = &opened.info;
        if let Some(pinned) = &self.pinned {
            pinned.expect(info.version.as_ref(), Operation::Read, self.location.display())?;
        } else if self.delivered_bytes > 0 && opened.end != Some(self.next) {
            let message = "nothing ties more bytes to those that were delivered";
            return Err(self.error(ErrorKind::Transport, message).with_hint(NO_VERSION_HINT));
        }
        let contradiction = |message: String| {
            Err(self.error(ErrorKind::Integrity, message).retryable(RetryClass::Now))
        };
        if let Some((was, is)) = contradiction_of(&self.checksums, &info.checksums) {
            let message = format!("its checksum was {was} and is {is} now");
            // One version cannot have two contents: one of the two responses is wrong.
            return match self.pinned {
                Some(_) => contradiction(message),
                None => Err(self.error(ErrorKind::Changed, message)),
            };
        }
        let is = info.len_bytes;
        if let (Some(was), Some(is)) = (self.len_bytes, is)
            && was != is
        {
            let message = format!("its length was {was} bytes and is {is} now");
            // One version cannot have two lengths: one of the two responses is wrong.
            return match self.pinned {
                Some(_) => contradiction(message),
                None => Err(self.error(ErrorKind::Changed, message)),
            };
        }
        if let Some(end) = is.filter(|end| *end < self.delivered_end) {
            let delivered = self.delivered_end;
            return contradiction(format!("its length is {end}, but {delivered} were delivered"));
        }
        if let (Some(end), Some(len)) = (opened.end, self.len_bytes)
            && end > len
        {
            return contradiction(format!("expected a blob of {len} bytes, got bytes to {end}"));
        }
        match &self.coding {
            Some(was) if !was.eq_ignore_ascii_case(coding(info)) => {
                contradiction(format!("its coding was {was} and is {} now", coding(info)))
            }
            _ => Ok(()),
        }
    }

    /// Start and end of the range, from the first response. The end is `None` if it is unknown.
    fn first_range(&self, opened: &Opened) -> Result<(u64, Option<u64>)> {
        match opened.info.len_bytes.or(self.len_bytes) {
            Some(len) => {
                let range = self.wanted.resolve(len).map_err(|error| {
                    self.error(ErrorKind::OutOfRange, "the range does not fit the blob")
                        .caused_by(error)
                })?;
                Ok((range.start, Some(range.end)))
            }
            None => match &self.wanted {
                ByteRange::All => Ok((0, opened.end)),
                // The response may be shorter than requested, and does not give the blob's end.
                ByteRange::From(start) => Ok((*start, None)),
                ByteRange::Bounded(range) => Ok((range.start, Some(range.end))),
                _ => Err(self.error(
                    ErrorKind::Unsupported,
                    "the remote does not tell the length, so its last bytes cannot be asked for",
                )),
            },
        }
    }
}
