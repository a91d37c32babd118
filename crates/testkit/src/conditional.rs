//! Conditional requests, RFC 9110 section 13: which precondition decides, and how tags compare.

use std::time::SystemTime;

use crate::request::Request;

/// The validators of the current representation, as the server sends them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validators {
    /// With quotes, and `W/` if weak.
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<SystemTime>,
}

/// The outcome of the preconditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Respond as if there were none.
    Proceed,
    /// 304
    NotModified,
    /// 412
    Failed,
}

/// Evaluates the preconditions in the order of RFC 9110 section 13.2.2.
pub(crate) fn evaluate(request: &Request, current: &Validators) -> Verdict {
    if let Some(tags) = request.field("if-match") {
        if !matches_strongly(tags, current) {
            return Verdict::Failed;
        }
    } else if let Some(since) = request.field("if-unmodified-since").and_then(date)
        && modified_after(current, since)
    {
        return Verdict::Failed;
    }
    if let Some(tags) = request.field("if-none-match") {
        if matches_weakly(tags, current) {
            return Verdict::NotModified;
        }
    } else if let Some(since) = request.field("if-modified-since").and_then(date)
        && current.last_modified.is_some()
        && !modified_after(current, since)
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether the server honours the range of a request: always without `If-Range`, else only if
/// `If-Range` names the current representation by a strong tag or by its exact date (section
/// 13.1.5).
pub(crate) fn range_counts(request: &Request, current: &Validators) -> bool {
    let Some(value) = request.field("if-range") else { return true };
    if value.starts_with('"') || value.starts_with("W/") {
        return !value.contains(',') && value != "*" && matches_strongly(value, current);
    }
    date(value).is_some_and(|asked| current.last_modified.map(seconds) == Some(seconds(asked)))
}

fn matches_strongly(tags: &str, current: &Validators) -> bool {
    if tags == "*" {
        return true;
    }
    let Some(etag) = current.etag.as_deref().filter(|etag| !etag.starts_with("W/")) else {
        return false;
    };
    list(tags).any(|tag| tag == etag)
}

fn matches_weakly(tags: &str, current: &Validators) -> bool {
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    match current.etag.as_deref().map(opaque) {
        _ if tags == "*" => true,
        Some(etag) => list(tags).any(|tag| opaque(tag) == etag),
        None => false,
    }
}

/// The tags of a list. This server creates no tags with a comma inside their quotes.
fn list(tags: &str) -> impl Iterator<Item = &str> {
    tags.split(',').map(str::trim)
}

fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

fn modified_after(current: &Validators, since: SystemTime) -> bool {
    current.last_modified.is_some_and(|time| seconds(time) > seconds(since))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
