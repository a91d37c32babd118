//! One request and the part of its response that the client has read. The oracle judges exchanges.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::deviation::Deviation;
use super::draft::Ending;
use super::scenario::{Asked, Reply};

/// The state of one connection that both sides share.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Bytes that the client has read.
    read: AtomicU64,
    /// Whether the stream ends with a reset.
    reset: AtomicBool,
}

impl Line {
    pub(crate) fn count(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }
}

/// See the module docs.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub(crate) run: usize,
    pub(crate) port: u16,
    pub(crate) method: String,
    /// The `Range` of the request.
    pub(crate) range: Option<String>,
    pub(crate) conditions: Vec<(String, String)>,
    /// The head as it was sent, whole or not.
    pub(crate) head: Vec<u8>,
    body: Vec<u8>,
    /// Offset of the body in the bytes of the connection. `None` if the connection is encrypted:
    /// bytes cannot be counted there.
    body_at: Option<u64>,
    line: Arc<Line>,
    pub(crate) ending: Ending,
    /// The response was held after this many bytes of its body were sent.
    pub(crate) held: Option<usize>,
    label: Option<char>,
    deviations: Vec<Deviation>,
}

impl Exchange {
    pub(crate) fn new(
        asked: &Asked,
        reply: &Reply,
        held: Option<usize>,
        line: &Arc<Line>,
        written: Option<u64>,
    ) -> Self {
        let request = &asked.request;
        let field = request.field("x-ms-range").or_else(|| request.field("range"));
        let is_condition = |name: &str| name.to_ascii_lowercase().starts_with("if-");
        let body_at = written.map(|written| written + reply.wired.head.len() as u64);
        Self {
            run: asked.run,
            port: asked.port,
            method: request.method.clone(),
            range: field.map(str::to_owned),
            conditions: request.fields.iter().filter(|(n, _)| is_condition(n)).cloned().collect(),
            head: reply.wired.head.clone(),
            body: reply.wired.body.clone(),
            body_at,
            line: Arc::clone(line),
            ending: reply.wired.ending,
            held,
            label: reply.draft.label,
            deviations: reply.deviations.clone(),
        }
    }

    /// The bytes on the wire after the head, as far as the client has read them.
    pub(crate) fn body_seen(&self) -> &[u8] {
        let sent = self.held.unwrap_or(self.body.len()).min(self.body.len());
        let Some(at) = self.body_at else { return &self.body[..sent] };
        let read = self.line.read.load(Ordering::Relaxed).saturating_sub(at);
        &self.body[..usize::try_from(read).unwrap_or(usize::MAX).min(sent)]
    }

    /// Whether the client has read the whole body and may know how it ended.
    pub(crate) fn is_read_through(&self) -> bool {
        self.held.is_none() && self.body_seen().len() == self.body.len()
    }
}

/// Plain words, a line each.
impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, port, method, .. } = self;
        write!(f, "run {run}, port {port}: {method} {}", self.range.as_deref().unwrap_or("all"))?;
        for (name, value) in &self.conditions {
            write!(f, ", {name}: {value}")?;
        }
        let head = String::from_utf8_lossy(&self.head);
        let head: Vec<&str> = head.trim_end().lines().collect();
        write!(f, "\n    -> {}", head.join(" | "))?;
        let of = self.label.map_or("of nothing".to_owned(), |label| format!("of {label}"));
        let (seen, all) = (self.body_seen().len(), self.body.len());
        write!(f, "\n    body {of}: {all} bytes on the wire, {seen} read")?;
        if let Some(held) = self.held {
            write!(f, ", held after {held}")?;
        }
        write!(f, ", then {:?}", self.ending)?;
        if !self.deviations.is_empty() {
            write!(f, "; deviates: {:?}", self.deviations)?;
        }
        Ok(())
    }
}
