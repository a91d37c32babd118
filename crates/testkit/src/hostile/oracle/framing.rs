//! The end of a body, by RFC 9112 section 6.3, from the bytes on the wire.

use super::head::Head;
use crate::hostile::draft::Ending;
use crate::hostile::exchange::Exchange;

/// A body without its framing.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) data: Vec<u8>,
    /// Whether the client may know that this is the whole body.
    pub(super) is_ended: bool,
    /// The length in its head, if that frames the body.
    pub(super) promised: Option<u64>,
}

/// The body of an exchange; an error if no client may use it.
pub(super) fn body(head: &Head, exchange: &Exchange) -> Result<Body, &'static str> {
    let wire = exchange.body_seen();
    let codings = head.all("transfer-encoding");
    if !codings.is_empty() {
        if codings.len() > 1 || !codings[0].trim().eq_ignore_ascii_case("chunked") {
            return Err("a transfer coding other than chunked");
        }
        if head.is_old {
            return Err("a transfer coding in HTTP/1.0");
        }
        let (data, is_ended) = dechunked(wire);
        return Ok(Body { data, is_ended, promised: None });
    }
    let Some(promised) = promised(head)? else {
        let is_ended = exchange.is_read_through() && exchange.ending == Ending::Close;
        return Ok(Body { data: wire.to_vec(), is_ended, promised: None });
    };
    let len = usize::try_from(promised).unwrap_or(usize::MAX);
    let data = wire[..len.min(wire.len())].to_vec();
    let is_ended = data.len() == len;
    Ok(Body { data, is_ended, promised: Some(promised) })
}

fn promised(head: &Head) -> Result<Option<u64>, &'static str> {
    let mut found = None;
    for value in head.all("content-length").iter().flat_map(|value| value.split(',')) {
        let value = value.trim();
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse::<u64>().ok().filter(|_| is_number);
        let Some(number) = number else { return Err("a Content-Length that is no number") };
        if found.is_some_and(|found| found != number) {
            return Err("two lengths in Content-Length");
        }
        found = Some(number);
    }
    Ok(found)
}

/// The data of a chunked body up to the last well-formed chunk, and whether the final chunk
/// arrived.
fn dechunked(mut wire: &[u8]) -> (Vec<u8>, bool) {
    let mut data = Vec::new();
    loop {
        let Some(end) = wire.windows(2).position(|pair| pair == b"\r\n") else {
            return (data, false);
        };
        let size = std::str::from_utf8(&wire[..end]).unwrap_or_default();
        let Ok(size) = usize::from_str_radix(size, 16) else { return (data, false) };
        wire = &wire[end + 2..];
        if size == 0 {
            // Trailers, then an empty line.
            let is_ended = wire.starts_with(b"\r\n") || wire.ends_with(b"\r\n\r\n");
            return (data, is_ended);
        }
        data.extend_from_slice(&wire[..size.min(wire.len())]);
        if wire.len() < size + 2 {
            return (data, false);
        }
        wire = &wire[size + 2..];
    }
}
