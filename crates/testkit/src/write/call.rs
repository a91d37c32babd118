//! One request to the write side: what a handler sees, and what it gives back.

use std::time::SystemTime;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;

use super::{
    algorithm::{Digests, Hasher, Wanted},
    body::{Broken, RequestBody},
    options::{WriteEtags, WriteOptions},
    verify, xml,
};
use crate::{
    flavour::{Coded, Problem},
    head::Head,
    origin::Origin,
    request::Request,
    respond::{Answer, Body, Refusal},
    treatment::RequestFaults,
    uploaded::hex,
};

/// The longest document that a client may send: a Complete with 10,000 parts has some 2 MiB, a list
/// of 50,000 blocks 6 MiB.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The reason why a handler has no answer.
#[derive(Debug)]
pub(crate) enum Stop {
    Refused(Box<Refusal>),
    Broken(Broken),
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Refusal::from(problem).into()
    }
}

pub(crate) type Outcome = Result<Answer, Stop>;

/// A request that a handler answers.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) request: &'a Request,
    pub(crate) body: RequestBody<'a>,
    pub(crate) faults: &'a RequestFaults,
}

/// A body that arrived whole and has the right checksums.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// `None` if bytes are dropped.
    pub(crate) bytes: Option<Bytes>,
    pub(crate) len_bytes: u64,
    pub(crate) digests: Digests,
    /// The base of the `ETag`: an MD5, or some other 16 bytes.
    pub(crate) tag: Vec<u8>,
    /// When it arrived.
    pub(crate) time: SystemTime,
}

impl Received {
    /// The `ETag` without quotes.
    pub(crate) fn etag(&self) -> String {
        hex(&self.tag)
    }
}

impl<'a> Call<'a> {
    pub(crate) fn options(&self) -> &'a WriteOptions {
        &self.origin.options.writes
    }

    pub(crate) fn path(&self) -> &'a str {
        &self.request.path
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.request.parameter(name)
    }

    pub(crate) fn has(&self, parameter: &str) -> bool {
        self.parameter(parameter).is_some()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&'a str> {
        self.request.field(name)
    }

    /// Takes the whole body as content, and verifies its checksums.
    pub(crate) async fn receive(&mut self) -> Result<Received, Stop> {
        let options = self.options();
        verify::refuse_fields(self)?;
        let bytes_max = options.put_bytes_max;
        let too_large = || refuse(400, "EntityTooLarge", "The body exceeds the maximum size.");
        if self.body.declared_bytes().is_some_and(|bytes| bytes > bytes_max) {
            return Err(too_large());
        }
        let mut hasher = Hasher::new(self.wanted());
        let mut bytes = (!options.discard).then(Vec::new);
        let mut len_bytes = 0_u64;
        while let Some(piece) = self.body.next().await? {
            hasher.update(&piece);
            len_bytes += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if len_bytes > bytes_max {
                return Err(too_large());
            }
            if let Some(bytes) = &mut bytes {
                bytes.extend_from_slice(&piece);
            }
        }
        let digests = hasher.finish();
        verify::verify(self, &digests)?;
        let bytes = bytes.map(Bytes::from);
        Ok(received(bytes, len_bytes, digests, options))
    }

    /// The hashes that this request needs.
    pub(crate) fn wanted(&self) -> Wanted {
        let hashed = self.field("x-goog-hash").is_some_and(|value| value.contains("md5="));
        Wanted {
            md5: self.options().etags == WriteEtags::Md5
                || self.field("content-md5").is_some()
                || self.origin.options.digests.content_md5
                || hashed,
            sha1: self.field("x-amz-checksum-sha1").is_some(),
            sha256: self.field("x-amz-checksum-sha256").is_some()
                || self.origin.options.digests.repr_digest
                || self.field("x-amz-content-sha256").is_some_and(|value| value.len() == 64),
        }
    }

    /// The whole body as the text of a document.
    pub(crate) async fn text(&mut self) -> Result<String, Stop> {
        let bytes = self.body.document(DOCUMENT_BYTES_MAX).await?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_not_utf8| refuse(400, "MalformedXML", "The document is not UTF-8."))
    }

    /// The base64 of a checksum in an answer, which a fault can make wrong.
    pub(crate) fn sum(&self, raw: &[u8]) -> String {
        let mut raw = raw.to_vec();
        if let (true, Some(first)) = (self.faults.lie_checksum, raw.first_mut()) {
            *first ^= 1;
        }
        STANDARD.encode(raw)
    }

    /// The number in a query parameter, or `default`.
    pub(crate) fn count(&self, parameter: &str, default: usize) -> Result<usize, Stop> {
        let invalid =
            |_error| refuse(400, "InvalidArgument", "A number of the query is not valid.");
        self.parameter(parameter).map_or(Ok(default), |text| text.parse().map_err(invalid))
    }

    /// The entries of a page: what the request asks for, and at most what the options allow.
    pub(crate) fn page_len(&self, parameter: &str) -> Result<usize, Stop> {
        Ok(self.count(parameter, usize::MAX)?.min(self.options().page_len))
    }
}

/// A body whose checksums are known. Without MD5s the tag is made of the CRCs.
pub(crate) fn received(
    bytes: Option<Bytes>,
    len_bytes: u64,
    digests: Digests,
    options: &WriteOptions,
) -> Received {
    let md5 = digests.md5.clone().filter(|_| options.etags == WriteEtags::Md5);
    let opaque = || {
        let key = crate::random::mix(digests.crc64_nvme ^ len_bytes);
        [key.to_be_bytes(), crate::random::mix(key).to_be_bytes()].concat()
    };
    let tag = md5.unwrap_or_else(opaque);
    Received { bytes, len_bytes, digests, tag, time: SystemTime::now() }
}

/// An error of the flavour.
pub(crate) fn refuse(status: u16, code: &'static str, message: &'static str) -> Stop {
    Problem::Coded(Coded { status, code, message }).into()
}

/// A response with these fields and no content.
pub(crate) fn empty(status: u16, fields: Vec<(&'static str, String)>) -> Answer {
    let mut head = Head::new(status);
    for (name, value) in fields {
        head.add(name, value);
    }
    let body = if status == 204 { Body::None } else { Body::Text(Bytes::new()) };
    Answer { head, body }
}

/// A response with an XML document.
pub(crate) fn xml_answer(root: &str, children: &str) -> Answer {
    let mut head = Head::new(200);
    head.add("Content-Type", "application/xml");
    Answer { head, body: Body::Text(Bytes::from(xml::document(root, children))) }
}
