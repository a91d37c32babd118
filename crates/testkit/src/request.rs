//! One request's head, parsed and decoded.

use percent_encoding::percent_decode_str;

/// The longest head that is read; real clients stay far below.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
const FIELDS_MAX: usize = 100;

/// A parsed request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// As sent.
    pub(crate) path_and_query: String,
    /// Percent-decoded, without the query, and without the scheme and host of an absolute form.
    pub(crate) path: String,
    query: Vec<(String, String)>,
    pub(crate) fields: Vec<(String, String)>,
    /// HTTP/1.1 or later.
    pub(crate) modern: bool,
}

/// The result of parsing a buffer.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A request and the length of its head in bytes.
    Request(Box<Request>, usize),
    /// More bytes are needed.
    Partial,
    /// Not HTTP.
    Malformed,
}

/// Parses the first head in `buffer`.
pub(crate) fn parse(buffer: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut raw = httparse::Request::new(&mut fields);
    match raw.parse(buffer) {
        Ok(httparse::Status::Complete(used)) => match Request::from_raw(&raw) {
            Some(request) => Parsed::Request(Box::new(request), used),
            None => Parsed::Malformed,
        },
        Ok(httparse::Status::Partial) if buffer.len() < HEAD_BYTES_MAX => Parsed::Partial,
        Ok(httparse::Status::Partial) | Err(_) => Parsed::Malformed,
    }
}

impl Request {
    fn from_raw(raw: &httparse::Request<'_, '_>) -> Option<Self> {
        let target = raw.path?;
        let local = target.find("://").map_or(target, |scheme| {
            let rest = &target[scheme + 3..];
            rest.find('/').map_or("/", |slash| &rest[slash..])
        });
        let (path, query) = local.split_once('?').unwrap_or((local, ""));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(Self {
            method: raw.method?.to_owned(),
            path_and_query: local.to_owned(),
            path: decode(path),
            query: query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect(),
            fields: raw.headers.iter().map(|f| (f.name.to_owned(), text(f.value))).collect(),
            modern: raw.version == Some(1),
        })
    }

    /// The query as sent, without the question mark.
    pub(crate) fn query_text(&self) -> &str {
        self.path_and_query.split_once('?').map_or("", |(_, query)| query)
    }

    /// The first field of this name, in any case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The first query parameter of this name, in any case.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut query = self.query.iter();
        query.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether the client wants to keep the connection.
    pub(crate) fn keeps_alive(&self) -> bool {
        match self.field("connection") {
            Some(value) if value.eq_ignore_ascii_case("close") => false,
            Some(value) if value.eq_ignore_ascii_case("keep-alive") => true,
            _ => self.modern,
        }
    }

    /// Length of the request's body; `None` if it is not known or is not a number.
    pub(crate) fn body_bytes(&self) -> Option<usize> {
        if self.field("transfer-encoding").is_some() {
            return None;
        }
        self.field("content-length").map_or(Some(0), |value| value.parse().ok())
    }
}

fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decode(name), decode(value))
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
