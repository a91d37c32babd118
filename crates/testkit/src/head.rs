//! The head of a response: status line and header fields, in order, before it goes on the wire.

use std::{borrow::Cow, fmt::Write as _};

/// A status and header fields. Names may repeat, as `x-goog-hash` does.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    fields: Vec<(Cow<'static, str>, String)>,
}

impl Head {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, fields: Vec::with_capacity(16) }
    }

    pub(crate) fn add(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.fields.push((name.into(), value.into()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.fields.retain(|(field, _)| *field != name);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.fields {
            // Writing to a String cannot fail.
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        499 => "Client Closed Request",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}
