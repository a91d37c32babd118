//! One response as the most careful client reads it: the offsets of its bytes, their version and
//! checksums, or the reason why the client must not use it.

use std::ops::Range;

use super::framing;
use super::head::{Head, Name};
use crate::Flavour;
use crate::hostile::exchange::Exchange;
use crate::hostile::sum::Sum;

/// See the module docs.
#[derive(Debug)]
pub(super) struct Reading {
    /// Its index among all exchanges.
    pub(super) index: usize,
    pub(super) head: Head,
    pub(super) is_head: bool,
    /// It is a response to `HEAD`, which a client sends in addition to the first part: S3 sends
    /// checksums in no other way.
    pub(super) is_beside_first: bool,
    /// The offsets of its bytes by its head, without an end if the head has none.
    pub(super) place: Range<u64>,
    pub(super) data: Vec<u8>,
    /// The length of the blob by its head.
    pub(super) total: Option<u64>,
    /// It is the whole blob without a length, and the client saw its end.
    pub(super) is_whole: bool,
    pub(super) names: Vec<Name>,
    pub(super) sums: Vec<(Sum, Vec<u8>)>,
}

impl Reading {
    pub(super) fn of(
        index: usize,
        exchange: &Exchange,
        flavour: Flavour,
    ) -> Result<Self, &'static str> {
        let head = Head::parse(&exchange.head).ok_or("no head")?;
        let is_head = exchange.method == "HEAD";
        // Facts are of what is stored in any case.
        if !is_head && head.is_decompressed() {
            return Err("decompressed on the way");
        }
        let mut reading = Self {
            index,
            is_head,
            is_beside_first: is_head && flavour == Flavour::S3,
            place: 0..u64::MAX,
            data: Vec::new(),
            total: None,
            is_whole: false,
            names: head.names(flavour),
            sums: head.sums(),
            head,
        };
        match reading.head.status {
            200 if is_head => reading.total = reading.head.one("content-length").and_then(number),
            206 if is_head => {}
            200 => reading.whole(exchange, flavour)?,
            206 => reading.part(exchange)?,
            416 if !is_head => reading.refusal()?,
            _ => return Err("a status without the blob's bytes"),
        }
        Ok(reading)
    }

    fn whole(&mut self, exchange: &Exchange, flavour: Flavour) -> Result<(), &'static str> {
        let body = framing::body(&self.head, exchange)?;
        let stored = self.head.one("x-goog-stored-content-length");
        let stored = stored.filter(|_| flavour == Flavour::Gcs).and_then(|text| text.parse().ok());
        self.total = body.promised.or(stored);
        let len = body.data.len() as u64;
        if self.total.is_some_and(|total| len > total) {
            return Err("more bytes than the store says that it keeps");
        }
        self.place = 0..self.total.unwrap_or(u64::MAX);
        self.is_whole = self.total.is_none() && body.is_ended;
        self.data = body.data;
        Ok(())
    }

    fn part(&mut self, exchange: &Exchange) -> Result<(), &'static str> {
        let text = self.head.one("content-range").ok_or("no Content-Range, or two")?;
        let (range, total) = content_range(text).ok_or("a Content-Range that is none")?;
        if !is_what_was_asked(exchange.range.as_deref(), &range, total) {
            return Err("another range than was asked for");
        }
        let body = framing::body(&self.head, exchange)?;
        let (len, given) = (range.end - range.start, body.data.len() as u64);
        if body.promised.is_some_and(|promised| promised != len) {
            return Err("Content-Length contradicts Content-Range");
        }
        // A body that ends early may have been cut: only the received bytes are usable.
        if given > len {
            return Err("the body is longer than Content-Range says");
        }
        self.data = body.data;
        self.place = range;
        self.total = total;
        Ok(())
    }

    /// The blob's length from a refused range.
    fn refusal(&mut self) -> Result<(), &'static str> {
        let text = self.head.one("content-range").ok_or("no Content-Range, or two")?;
        let total = text.strip_prefix("bytes */").and_then(number);
        let total = total.ok_or("a Content-Range that tells no length")?;
        self.place = total..total;
        self.total = Some(total);
        Ok(())
    }

    /// The byte that it contains for this offset of the blob.
    pub(super) fn byte(&self, offset: u64) -> Option<u8> {
        let at = usize::try_from(offset.checked_sub(self.place.start)?).ok()?;
        self.data.get(at).copied()
    }

    /// The offset after its last byte.
    pub(super) fn end(&self) -> u64 {
        self.place.start + self.data.len() as u64
    }

    /// Whether it refuses a range and does not contradict this version.
    pub(super) fn is_refusal(&self, pin: Option<&Name>) -> bool {
        let is_of_it = self.names.is_empty() || pin.is_some_and(|pin| self.head.is_of(pin));
        self.head.status == 416 && is_of_it
    }

    /// The values of its checksums. Two different values of one algorithm do not count.
    fn clear_sums(&self) -> impl Iterator<Item = &(Sum, Vec<u8>)> {
        self.sums.iter().filter(|(sum, value)| {
            self.sums.iter().all(|(other, another)| other != sum || another == value)
        })
    }

    /// Whether one of its checksums differs from that of `bytes`.
    pub(super) fn refutes(&self, bytes: &[u8]) -> bool {
        self.clear_sums().any(|(sum, value)| sum.of(bytes) != *value)
    }

    /// Whether one of its checksums differs from that of `first`.
    pub(super) fn contradicts(&self, first: &Self) -> bool {
        let differs = |sum: &Sum, value: &[u8]| {
            first.clear_sums().any(|(other, another)| other == sum && another != value)
        };
        self.clear_sums().any(|(sum, value)| differs(sum, value))
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// `bytes 0-9/10` or `bytes 0-9/*`.
fn content_range(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let total = if total == "*" { None } else { Some(number(total)?) };
    let is_sound = first <= last && total.is_none_or(|total| last < total);
    is_sound.then(|| (first..last.saturating_add(1), total))
}

/// Whether a part begins at the requested offset and ends no later than the requested end.
fn is_what_was_asked(asked: Option<&str>, given: &Range<u64>, total: Option<u64>) -> bool {
    let Some(asked) = asked else { return true };
    let Some((first, last)) = asked.strip_prefix("bytes=").and_then(|text| text.split_once('-'))
    else {
        return false;
    };
    match (number(first), number(last)) {
        (None, Some(count)) => {
            total.is_some_and(|total| given.start == total.saturating_sub(count))
        }
        (Some(first), None) => given.start == first,
        (Some(first), Some(last)) => given.start == first && given.end <= last.saturating_add(1),
        (None, None) => false,
    }
}
