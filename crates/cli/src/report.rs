//! The report of a transfer at its end: lines for people, JSON for programs.
//!
//! The JSON's fields are an interface, described in `docs/command.md`; fields may be added.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use tidegate::{Error, ErrorKind, Form, Report, Verified};
use tidegate_core::Checksum;
use tidegate_core::printable::escaped;

use crate::{hint, size};

/// The start of engine hints that promise a resume.
const RESUME: &str = "run the same command again";

/// A finished transfer of one blob.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Done {
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) restarts: u64,
    pub(crate) resumed_bytes: u64,
    pub(crate) held_bytes_peak: u64,
    pub(crate) version: Option<String>,
    pub(crate) checksums: BTreeMap<&'static str, String>,
    pub(crate) verified: Vec<String>,
    pub(crate) unverified: Option<String>,
    pub(crate) notes: Vec<String>,
    /// Present if it came as chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chunks: Option<ChunkCounts>,
}

/// The sources of a blob's chunks. A chunk that occurs several times counts each time, except that
/// it is fetched once.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ChunkCounts {
    pub(crate) count: u64,
    pub(crate) fetched: u64,
    pub(crate) fetched_bytes: u64,
    pub(crate) copied: u64,
    pub(crate) copied_bytes: u64,
    /// The blob, or the rest of it, was fetched as a whole instead.
    pub(crate) whole: bool,
}

impl ChunkCounts {
    fn new(report: &Report) -> Option<Self> {
        let chunks = report.chunks?;
        Some(Self {
            count: chunks.all.chunks,
            fetched: chunks.moved.chunks + chunks.shared.chunks,
            fetched_bytes: chunks.moved.bytes + chunks.shared.bytes,
            copied: chunks.reused.chunks,
            copied_bytes: chunks.reused.bytes,
            whole: report.form == Form::Whole,
        })
    }
}

impl Done {
    pub(crate) fn new(source: &str, target: &str, report: &Report) -> Self {
        Self {
            source: source.to_owned(),
            target: target.to_owned(),
            bytes: report.bytes,
            seconds: report.elapsed.as_secs_f64(),
            requests: report.totals.requests,
            restarts: report.totals.restarts,
            resumed_bytes: report.resumed_bytes,
            held_bytes_peak: report.held_bytes_peak,
            version: report.version().map(ToString::to_string),
            checksums: report.checksums.iter().map(by_name).collect(),
            verified: names(&report.verified),
            unverified: report.verified.reason().map(ToString::to_string),
            notes: report.notes.clone(),
            chunks: ChunkCounts::new(report),
        }
    }

    /// One line, and one more for each note.
    pub(crate) fn text(&self) -> String {
        let fetched = self.bytes.saturating_sub(self.resumed_bytes);
        let mut text = format!(
            "{} -> {}: {} in {}, {}, {}, {}",
            escaped(&self.source),
            escaped(&self.target),
            size::human(self.bytes),
            seconds(self.seconds),
            size::human_rate(rate(fetched, self.seconds)),
            count(self.requests, "request"),
            count(self.restarts, "restart"),
        );
        if let Some(chunks) = self.chunks.filter(|chunks| chunks.count > 0) {
            let _ = write!(
                text,
                ", {}: {} fetched, {} copied",
                count(chunks.count, "chunk"),
                size::human(chunks.fetched_bytes),
                size::human(chunks.copied_bytes),
            );
        }
        // The stamp of a local file is of no use to people, and a digest is in the URL already.
        let tells = |text: &&String| !text.starts_with("file ") && !text.starts_with("digest ");
        if let Some(version) = self.version.as_ref().filter(tells) {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, ", {}", escaped(version));
        }
        if self.verified.is_empty() {
            let reason = self.unverified.as_deref().unwrap_or("no checksum is known");
            let _ = write!(text, ", not verified: {}", escaped(reason));
        } else {
            let _ = write!(text, ", verified by {}", self.verified.join(" and "));
        }
        for note in &self.notes {
            let _ = write!(text, "\nnote: {}", escaped(note));
        }
        text
    }
}

/// Why something failed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failure {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<u32>,
}

/// A failure as an object of its own.
#[derive(Debug, Serialize)]
pub(crate) struct Alone<'a> {
    error: &'a Failure,
}

impl Failure {
    pub(crate) fn new(error: &Error) -> Self {
        Self {
            kind: error.kind().name(),
            message: error.chain(),
            hint: hint::of(error).map(str::to_owned),
            attempts: Some(error.attempts()).filter(|attempts| *attempts > 0),
        }
    }

    pub(crate) fn alone(&self) -> Alone<'_> {
        Alone { error: self }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}", self.message);
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\nhint: {hint}");
        }
        text
    }
}

/// The hint if a transfer has no saved progress.
pub(crate) const STARTS_OVER: &str = "run the same command again; it starts from the beginning";
/// The hint if there is nothing to transfer.
pub(crate) const ASK_AGAIN: &str = "run the same command again";

/// The same error for a transfer without saved progress: a hint that promises a resume becomes
/// `instead`.
pub(crate) fn without_resume(error: Error, instead: &str) -> Error {
    let promises = error.hint().is_some_and(|hint| hint.starts_with(RESUME));
    match error.kind() {
        ErrorKind::Changed | ErrorKind::Integrity => error,
        _ if promises => error.with_hint(instead),
        _ => error,
    }
}

/// `3 requests`, `1 request`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// `0.004 s`, `1.23 s`, `75.2 s`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{s:.3} s"),
        s if s < 10.0 => format!("{s:.2} s"),
        s => format!("{s:.1} s"),
    }
}

/// Bytes a second.
pub(crate) fn rate(bytes: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "only three digits are shown")]
    let bytes = bytes as f64;
    bytes / seconds.max(1e-6)
}

fn by_name(checksum: &Checksum) -> (&'static str, String) {
    (checksum.algorithm().name(), checksum.hex())
}

/// Each algorithm once: the remote and the user may both name the same one.
fn names(verified: &Verified) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for checksum in verified.checksums() {
        let name = checksum.algorithm().name();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names.extend(verified.parts_checksum().map(ToString::to_string));
    if let Verified::ReadBack(checksum) = verified {
        names.push(format!("{} of the copy, read back", checksum.algorithm()));
    }
    names
}
