//! The head of an answer: where its bytes belong, and whether it is of the blob that was begun.

use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryClass;

use super::{Live, Phase, RangeStream};
use crate::budget::RequestPermit;
use crate::error::{ErrorKind, Result};
use crate::remote::Opened;

impl RangeStream {
    pub(super) fn accept(
        &mut self,
        opened: Opened,
        permit: RequestPermit,
        span: tracing::Span,
    ) -> Result<()> {
        if let (Some(was), Some(is)) = (self.len_bytes, opened.info.len_bytes)
            && was != is
        {
            let message = format!("its length was {was} bytes and is {is} now");
            // The same version cannot have two lengths: one of the two answers is wrong.
            let same = self.pinned.is_some() && self.pinned == opened.info.version;
            return Err(if same {
                self.error(ErrorKind::Integrity, message).retryable(RetryClass::Now)
            } else {
                self.error(ErrorKind::Changed, message)
            });
        }
        let range = match &self.info {
            None if !self.begun => Some(self.first_range(&opened)?),
            _ => None,
        };
        let next = range.as_ref().map_or(self.next, |(start, _)| *start);
        if opened.start > next {
            // As where two answers tell two lengths, and bytes are counted from the end.
            let message = format!("expected bytes from {next} on, got some from {}", opened.start);
            return Err(self.error(ErrorKind::Integrity, message).retryable(RetryClass::Now));
        }
        self.len_bytes = self.len_bytes.or(opened.info.len_bytes);
        if self.info.is_some() {
            // The first answer may not have told where the blob ends.
            let end = self.end.unwrap_or(u64::MAX);
            self.end = opened.info.len_bytes.map(|len| len.min(end)).or(self.end);
        } else {
            if let Some((start, end)) = range {
                self.next = start;
                self.end = end;
                self.begun = true;
            }
            self.pinned = self.pinned.take().or_else(|| opened.info.version.clone());
            self.ignores_ranges = opened.whole && self.wanted != ByteRange::All;
            self.info = Some(opened.info.clone());
        }
        self.waited = opened.waited;
        self.stats.answered();
        self.stats.more_requests(opened.requests.saturating_sub(1));
        let endless = opened.end.is_none() && opened.info.len_bytes.is_none();
        let live = Live::new(opened.body, opened.start, endless, permit, span);
        self.phase = Phase::Live(live.unhurried(opened.unhurried));
        Ok(())
    }

    /// Where the range begins and ends, once the first answer tells the length.
    fn first_range(&self, opened: &Opened) -> Result<(u64, Option<u64>)> {
        match opened.info.len_bytes {
            Some(len) => {
                let range = self.wanted.resolve(len).map_err(|error| {
                    self.error(ErrorKind::OutOfRange, "the range does not fit the blob")
                        .caused_by(error)
                })?;
                Ok((range.start, Some(range.end)))
            }
            None => match &self.wanted {
                ByteRange::All => Ok((0, opened.end)),
                ByteRange::From(start) => Ok((*start, opened.end)),
                ByteRange::Bounded(range) => Ok((range.start, Some(range.end))),
                _ => Err(self.error(
                    ErrorKind::Unsupported,
                    "the remote does not tell the length, so its last bytes cannot be asked for",
                )),
            },
        }
    }
}
