//! A response before it is sent, with its deviations.

use std::fmt::Write as _;
use std::ops::Range;

use super::manners::Framing;

/// The state of the connection after the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The next request.
    KeepAlive,
    /// The end of the connection.
    Close,
    /// A reset of the connection.
    Reset,
    /// Silence until the client leaves.
    Silence,
}

/// The first bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Head,
    Nothing,
    Garbage,
    HalfAHead,
    /// An interim response with this status before the final one.
    Interim(u16),
}

/// The value of `Content-Length`, if it delimits the body or is sent in addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LengthField {
    Right,
    /// Each of these, one field each.
    Says(Vec<String>),
}

/// How a chunked body is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkFlaw {
    BadSize,
    NoLastChunk,
    /// A trailer with the checksum of something else.
    Trailer,
    /// The body is not chunked.
    Bare,
}

/// See the module docs.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'static str, String)>,
    /// `A` or `B`, if the body is of the blob.
    pub(crate) label: Option<char>,
    /// The range of the blob that is sent.
    pub(crate) range: Range<u64>,
    /// The length of the blob.
    pub(crate) total: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) is_head: bool,
    pub(crate) framing: Framing,
    pub(crate) length: LengthField,
    /// Replaces `chunked`. A body that is not framed by chunks also gets the field.
    pub(crate) coding: Option<&'static str>,
    /// A chunked body also has `Content-Length`.
    pub(crate) both: bool,
    pub(crate) flaw: Option<ChunkFlaw>,
    pub(crate) is_old_http: bool,
    /// Bytes of the body that are sent before the ending.
    pub(crate) stop: Option<u64>,
    pub(crate) ending: Ending,
    pub(crate) opening: Opening,
}

/// The bytes for the wire.
#[derive(Debug, Clone)]
pub(crate) struct Wired {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) ending: Ending,
}

impl Draft {
    /// A response without a body.
    pub(crate) fn new(status: u16) -> Self {
        Self {
            status,
            fields: Vec::new(),
            label: None,
            range: 0..0,
            total: 0,
            body: Vec::new(),
            is_head: false,
            framing: Framing::Length,
            length: LengthField::Right,
            coding: None,
            both: false,
            flaw: None,
            is_old_http: false,
            stop: None,
            ending: Ending::KeepAlive,
            opening: Opening::Head,
        }
    }

    pub(crate) fn add(&mut self, name: &'static str, value: impl Into<String>) {
        self.fields.push((name, value.into()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.fields.retain(|(field, _)| !field.eq_ignore_ascii_case(name));
    }

    /// Replaces the value of the field, if the field is present.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.remove(name);
        self.add(name, value);
    }

    pub(crate) fn is_ranged(&self) -> bool {
        self.status == 206
    }

    pub(crate) fn wired(&self) -> Wired {
        let head = match self.opening {
            Opening::Nothing => Vec::new(),
            Opening::Garbage => b"\x16\x03\x01\x02\x00this is no HTTP\r\n\r\n".to_vec(),
            Opening::HalfAHead => {
                let head = self.head();
                head[..head.len() / 2].to_vec()
            }
            Opening::Interim(status) => {
                let interim = format!("HTTP/1.1 {status} Interim\r\nETag: \"interim\"\r\n\r\n");
                [interim.into_bytes(), self.head()].concat()
            }
            Opening::Head => self.head(),
        };
        let goes_on = matches!(self.opening, Opening::Head | Opening::Interim(_));
        if !goes_on {
            let ending = if self.ending == Ending::Reset { Ending::Reset } else { Ending::Close };
            return Wired { head, body: Vec::new(), ending };
        }
        let body = if self.is_head { Vec::new() } else { self.framed() };
        Wired { head, body, ending: self.ended() }
    }

    fn head(&self) -> Vec<u8> {
        let version = if self.is_old_http { "1.0" } else { "1.1" };
        let mut text = format!("HTTP/{version} {} Status\r\n", self.status);
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{name}: {value}\r\n");
        };
        for (name, value) in &self.fields {
            line(name, value);
        }
        let chunked = self.framing == Framing::Chunked;
        if let Some(coding) = self.coding.or(chunked.then_some("chunked")) {
            line("Transfer-Encoding", coding);
        }
        if self.framing == Framing::Length || self.both {
            let right = [self.body.len().to_string()];
            let values = match &self.length {
                LengthField::Right => &right[..],
                LengthField::Says(values) => values,
            };
            for value in values {
                line("Content-Length", value);
            }
        }
        if self.ended() == Ending::Close {
            line("Connection", "close");
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// A body that does not match its framing ends its connection: later bytes would belong to no
    /// response.
    fn ended(&self) -> Ending {
        let is_regular = self.framing != Framing::Close
            && self.length == LengthField::Right
            && self.coding.is_none()
            && self.flaw.is_none()
            && !self.is_old_http
            && self.stop.is_none();
        match self.ending {
            Ending::KeepAlive if !is_regular => Ending::Close,
            ending => ending,
        }
    }

    fn framed(&self) -> Vec<u8> {
        let stop = self.stop.map_or(usize::MAX, |stop| usize::try_from(stop).unwrap_or(usize::MAX));
        let cut = &self.body[..stop.min(self.body.len())];
        let is_cut = stop < self.body.len();
        if self.framing != Framing::Chunked || self.flaw == Some(ChunkFlaw::Bare) {
            return cut.to_vec();
        }
        let mut wire = Vec::new();
        // A few chunks, so that sizes and data alternate.
        for chunk in cut.chunks((self.body.len() / 3).max(1)) {
            let bad = self.flaw == Some(ChunkFlaw::BadSize) && !wire.is_empty();
            let size = if bad { "zz".to_owned() } else { format!("{:x}", chunk.len()) };
            wire.extend_from_slice(format!("{size}\r\n").as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
        match self.flaw {
            _ if is_cut => {}
            Some(ChunkFlaw::NoLastChunk) => {}
            Some(ChunkFlaw::Trailer) => {
                let trailer = "0\r\nx-goog-hash: crc32c=AAAAAA==\r\nETag: \"trailer\"\r\n\r\n";
                wire.extend_from_slice(trailer.as_bytes());
            }
            _ => wire.extend_from_slice(b"0\r\n\r\n"),
        }
        wire
    }
}
