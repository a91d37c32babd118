//! [`Reply`]: a response as data, from its head to its end.

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::super::{messages::PREFIX_BYTES, status::GrpcStatus};
use super::digests::place;
use super::lie::{EndLie, HeadLie, Lie, MessageLie, Part};

/// Bytes that are not a protobuf.
const GARBAGE: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

/// A response before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) http: u16,
    pub(crate) head: HeaderMap,
    pub(crate) messages: Vec<Framed>,
    /// This many bytes of one more message.
    pub(crate) dangling: u8,
    /// The maximum number of bytes of one `DATA`.
    pub(crate) data_bytes_max: usize,
    pub(crate) end: End,
    pub(crate) goes_away: bool,
    pub(crate) late: Vec<(Part, u64)>,
}

/// A message with its prefix.
#[derive(Debug, Clone)]
pub(crate) struct Framed {
    pub(crate) flag: u8,
    /// The claimed length minus the true one.
    pub(crate) excess: i32,
    pub(crate) body: Bytes,
}

/// How a response ends.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Trailers(HeaderMap),
    Silent,
    Reset(u32),
    Close,
    Silence,
    Never,
}

impl Framed {
    fn of(body: impl Into<Bytes>) -> Self {
        Self { flag: 0, excess: 0, body: body.into() }
    }

    /// Whether the length in its prefix is right.
    pub(crate) fn is_framed(&self) -> bool {
        usize::try_from(self.claimed()) == Ok(self.body.len())
    }

    /// The length in its prefix.
    pub(crate) fn claimed(&self) -> u32 {
        u32::try_from(self.body.len()).unwrap_or(u32::MAX).saturating_add_signed(self.excess)
    }
}

/// The bytes of a blob in each message of a `Read`.
pub(crate) fn pieces_bytes(lies: &[Lie], usual: usize) -> usize {
    let said = lies.iter().find_map(|lie| match lie {
        Lie::Message(MessageLie::Pieces(bytes)) => Some(usize::from(*bytes)),
        _ => None,
    });
    said.unwrap_or(usual).max(1)
}

impl Reply {
    /// The honest response.
    pub(crate) fn honest(messages: Vec<Bytes>, status: &GrpcStatus) -> Self {
        let mut head = HeaderMap::new();
        set(&mut head, "content-type", b"application/grpc+proto");
        Self {
            http: 200,
            head,
            messages: messages.into_iter().map(Framed::of).collect(),
            dangling: 0,
            data_bytes_max: usize::MAX,
            end: End::Trailers(status.trailers()),
            goes_away: false,
            late: Vec::new(),
        }
    }

    /// Applies the lies that do not depend on the meaning of a message.
    pub(crate) fn tell(&mut self, lies: &[Lie]) {
        for lie in lies {
            match lie {
                Lie::Late(part, ms) => self.late.push((*part, *ms)),
                Lie::Head(lie) => self.head(*lie),
                Lie::Message(lie) => self.message(*lie),
                Lie::End(lie) => self.end(*lie),
                _ => {}
            }
        }
    }

    /// A message as it is sent.
    pub(crate) fn framed(of: &Framed) -> Bytes {
        let mut framed = BytesMut::with_capacity(PREFIX_BYTES + of.body.len());
        framed.put_u8(of.flag);
        framed.put_u32(of.claimed());
        framed.put_slice(&of.body);
        framed.freeze()
    }

    fn head(&mut self, lie: HeadLie) {
        match lie {
            HeadLie::Http(status) => self.http = status,
            HeadLie::ContentType(None) => {
                self.head.remove(header::CONTENT_TYPE);
            }
            HeadLie::ContentType(Some(kind)) => {
                set(&mut self.head, "content-type", kind.as_bytes());
            }
            HeadLie::Encoding(name) => set(&mut self.head, "grpc-encoding", name.as_bytes()),
            HeadLie::Status(code) => {
                add(&mut self.head, "grpc-status", code.to_string().as_bytes());
            }
            HeadLie::Length(bytes) => {
                set(&mut self.head, "content-length", bytes.to_string().as_bytes());
            }
        }
    }

    fn message(&mut self, lie: MessageLie) {
        let count = self.messages.len();
        let at = |position| place(position, count);
        match lie {
            MessageLie::Omit(position) => {
                if let Some(at) = at(position) {
                    self.messages.remove(at);
                }
            }
            MessageLie::Repeat(position) => {
                if let Some(at) = at(position) {
                    self.messages.insert(at, self.messages[at].clone());
                }
            }
            MessageLie::Swap(one, other) => {
                if let (Some(one), Some(other)) = (at(one), at(other)) {
                    self.messages.swap(one, other);
                }
            }
            MessageLie::Empty(position) => self.insert(position, Bytes::new()),
            MessageLie::Garbage(position) => self.insert(position, Bytes::from_static(GARBAGE)),
            MessageLie::Flag(position, flag) => {
                if let Some(at) = at(position) {
                    self.messages[at].flag = flag;
                }
            }
            MessageLie::Length(position, excess) => {
                if let Some(at) = at(position) {
                    self.messages[at].excess = excess;
                }
            }
            MessageLie::Cut(position, bytes) => {
                if let Some(at) = at(position) {
                    let body = &mut self.messages[at].body;
                    body.truncate(body.len().saturating_sub(usize::from(bytes)));
                }
            }
            MessageLie::Append(position, pattern, times) => {
                if let Some(at) = at(position) {
                    let times = usize::try_from(times).unwrap_or(usize::MAX);
                    let mut body = BytesMut::from(&self.messages[at].body[..]);
                    body.extend_from_slice(&pattern.repeat(times));
                    self.messages[at].body = body.freeze();
                }
            }
            MessageLie::Dangling(bytes) => self.dangling = bytes,
            MessageLie::Data(bytes) => self.data_bytes_max = usize::from(bytes).max(1),
            MessageLie::Pieces(_) => {}
        }
    }

    fn insert(&mut self, position: u8, body: Bytes) {
        let at = usize::from(position) % (self.messages.len() + 1);
        self.messages.insert(at, Framed::of(body));
    }

    fn end(&mut self, lie: EndLie) {
        match lie {
            EndLie::Status(code) => self.status(&[code]),
            EndLie::Twice(first, second) => self.status(&[first, second]),
            EndLie::Word(word) => self.trailer("grpc-status", word.as_bytes()),
            EndLie::NoStatus => {
                if let End::Trailers(trailers) = &mut self.end {
                    trailers.remove("grpc-status");
                    set(trailers, "x-extra", b"1");
                }
            }
            EndLie::Message(text) => self.trailer("grpc-message", text.as_bytes()),
            EndLie::Details(text) => self.trailer("grpc-status-details-bin", text.as_bytes()),
            EndLie::RetryAfter(ms) => {
                let status = super::super::status::Code::Unavailable;
                let status = GrpcStatus::new(status, "come again").retry_after_ms(ms);
                self.end = End::Trailers(status.trailers());
            }
            EndLie::NoTrailers => self.end = End::Silent,
            EndLie::Reset(code) => self.end = End::Reset(code),
            EndLie::Close => self.end = End::Close,
            EndLie::Silence => self.end = End::Silence,
            EndLie::Never => self.end = End::Never,
            EndLie::GoAway => self.goes_away = true,
        }
    }

    fn status(&mut self, codes: &[i32]) {
        if let End::Trailers(trailers) = &mut self.end {
            trailers.remove("grpc-status");
            for code in codes {
                add(trailers, "grpc-status", code.to_string().as_bytes());
            }
        }
    }

    fn trailer(&mut self, name: &'static str, value: &[u8]) {
        if let End::Trailers(trailers) = &mut self.end {
            set(trailers, name, value);
        }
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &[u8]) {
    headers.remove(name);
    add(headers, name, value);
}

fn add(headers: &mut HeaderMap, name: &'static str, value: &[u8]) {
    // Values that HTTP/2 cannot represent are left out.
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.append(HeaderName::from_static(name), value);
    }
}
