//! The report of a transfer at its end: lines for people, JSON for programs.
//!
//! The JSON's fields are an interface, described in `docs/command.md`; fields may be added.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use tidegate::{Error, ErrorKind, Form, MirrorReport, Report, Verified};
use tidegate_core::Checksum;
use tidegate_core::printable::escaped;

use crate::present::Present;
use crate::{hint, message, size};

/// The start of engine hints that promise a resume.
const RESUME: &str = "run the same command again";

/// The start of the engine's note about a resume, which counts bytes.
const RESUMED: &str = "resumed: ";

/// A finished transfer of one blob.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Done {
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) bytes: u64,
    /// Present if it was compressed on the way: the bytes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_bytes: Option<u64>,
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
    /// Present if there were mirrors: the source, then the mirrors, in the order given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) mirrors: Vec<Mirror>,
    /// Present if the provider copied the blob: no byte passed through this process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) copied_by_provider: bool,
    /// Whether what was resumed is stored at a remote.
    #[serde(skip)]
    in_parts: bool,
    /// Present if nothing was fetched, because of the target: `exists` or `unchanged`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<&'static str>,
    /// The same for people.
    #[serde(skip)]
    skipped_text: Option<String>,
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

/// What one mirror did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mirror {
    pub(crate) source: String,
    pub(crate) bytes: u64,
    /// Why it was dropped, or why it was not used.
    pub(crate) unused: Option<String>,
}

impl Mirror {
    fn new(report: &MirrorReport) -> Self {
        let MirrorReport { location, bytes, unused, .. } = report.clone();
        Self { source: location, bytes, unused }
    }
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
            source_bytes: report.source_bytes,
            seconds: report.elapsed.as_secs_f64(),
            requests: report.totals.requests,
            restarts: report.totals.restarts,
            resumed_bytes: report.resumed_bytes,
            held_bytes_peak: report.held_bytes_peak,
            version: report.version().map(ToString::to_string),
            checksums: report.checksums.iter().map(by_name).collect(),
            verified: verified_by(&report.verified),
            unverified: report.verified.reason().map(ToString::to_string),
            notes: report.notes.clone(),
            chunks: ChunkCounts::new(report),
            mirrors: report.mirrors.iter().map(Mirror::new).collect(),
            copied_by_provider: report.form == Form::Copied,
            in_parts: report.form == Form::Parts,
            skipped: None,
            skipped_text: None,
        }
    }

    /// The report of a target of `bytes` bytes that is left as it is.
    pub(crate) fn present(source: &str, target: &str, bytes: u64, present: &Present) -> Self {
        let verified = match present {
            Present::Checksums(names) => names.iter().map(ToString::to_string).collect(),
            Present::Exists | Present::Version => Vec::new(),
        };
        Self {
            source: source.to_owned(),
            target: target.to_owned(),
            bytes,
            source_bytes: None,
            seconds: 0.0,
            requests: 0,
            restarts: 0,
            resumed_bytes: 0,
            held_bytes_peak: 0,
            version: None,
            checksums: BTreeMap::new(),
            unverified: verified.is_empty().then(|| present.text()),
            verified,
            notes: Vec::new(),
            chunks: None,
            mirrors: Vec::new(),
            copied_by_provider: false,
            in_parts: false,
            skipped: Some(present.name()),
            skipped_text: Some(present.text()),
        }
    }

    /// One line, and one more for each note; if `verbose`, one with the details.
    ///
    /// `disk.img  10.0 MiB in 0.06 s (167 MiB/s)  verified crc32c`
    pub(crate) fn text(&self, verbose: bool) -> String {
        if let Some(skipped) = &self.skipped_text {
            return format!("{}  {skipped}", escaped(short_name(&self.source, &self.target)));
        }
        let fetched = self.bytes.saturating_sub(self.resumed_bytes);
        let mut text = format!(
            "{}  {}  ",
            escaped(short_name(&self.source, &self.target)),
            pace(self.bytes, fetched, self.seconds),
        );
        if self.copied_by_provider {
            text.push_str("copied by the provider  ");
        }
        if let Some(bytes) = self.source_bytes {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, "compressed from {}  ", size::human(bytes));
        }
        let _ = if self.verified.is_empty() {
            let reason = self.unverified.as_deref().unwrap_or("no checksum is known");
            write!(text, "not verified: {}", escaped(reason))
        } else {
            write!(text, "verified {}", self.verified.join(", "))
        };
        if verbose {
            let _ = write!(text, "\n  {}", self.details());
            for mirror in &self.mirrors {
                let bytes = size::human(mirror.bytes);
                let _ = write!(text, "\n  {}: {bytes}", escaped(&mirror.source));
            }
        }
        for mirror in &self.mirrors {
            if let Some(why) = &mirror.unused {
                let (source, why) = (escaped(&mirror.source), escaped(why));
                let verb = if mirror.bytes > 0 { "was dropped" } else { "was not used" };
                let _ = write!(text, "\nnote: {source} {verb}: {why}");
            }
        }
        for note in self.notes.iter().filter(|note| !note.starts_with(RESUMED)) {
            let _ = write!(text, "\nnote: {}", escaped(note));
        }
        if self.resumed_bytes > 0 {
            let part = size::human_part(self.resumed_bytes, self.bytes);
            let place = if self.in_parts { "stored" } else { "on disk" };
            let _ = write!(text, "\nnote: resumed: {part} already {place}");
        }
        text
    }

    /// `gs://b/k -> k: 3 requests, 1 restart, generation 17`.
    fn details(&self) -> String {
        let mut text = format!(
            "{} -> {}: {}, {}",
            escaped(&self.source),
            escaped(&self.target),
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
            let _ = write!(text, ", {}", escaped(version));
        }
        text
    }
}

/// What people call a transfer: its target, or its source if the target is no file.
pub(crate) fn short_name<'a>(source: &'a str, target: &'a str) -> &'a str {
    match target {
        "-" | "/dev/null" => source.rsplit('/').find(|part| !part.is_empty()).unwrap_or(source),
        path => path.strip_prefix("./").unwrap_or(path),
    }
}

/// `10.0 MiB in 0.06 s (167 MiB/s)`; `moved` bytes took this time.
pub(crate) fn pace(bytes: u64, moved: u64, secs: f64) -> String {
    let rate = size::human_rate(rate(moved, secs));
    format!("{} in {} ({rate})", size::human(bytes), seconds(secs))
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
    /// Among the events of `--progress json`: `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    error: &'a Failure,
}

impl Failure {
    pub(crate) fn new(error: &Error) -> Self {
        Self {
            kind: error.kind().name(),
            message: message::of(error),
            hint: hint::of(error).map(str::to_owned),
            attempts: Some(error.attempts()).filter(|attempts| *attempts > 0),
        }
    }

    pub(crate) fn alone(&self) -> Alone<'_> {
        Alone { event: None, error: self }
    }

    pub(crate) fn as_event(&self) -> Alone<'_> {
        Alone { event: Some("error"), error: self }
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
        s if s < 0.01 => format!("{s:.3} s"),
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
pub(crate) fn verified_by(verified: &Verified) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for checksum in verified.checksums() {
        let name = checksum.algorithm().name();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names.extend(verified.parts_checksum().map(ToString::to_string));
    match verified {
        Verified::ReadBack(checksum) => {
            names.push(format!("{} of the copy, read back", checksum.algorithm()));
        }
        Verified::OnArrival(algorithm) => names.push(format!("{algorithm} on arrival")),
        Verified::Reflink => names.push("reflink, which shares the source's blocks".to_owned()),
        _ => {}
    }
    names
}
