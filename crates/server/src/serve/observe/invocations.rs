//! [`Invocations`]: the last builds, by the identifiers that their tools send, with their hit rates.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::counters::Ended;
use super::metadata::Metadata;
use super::time::unix_seconds;

/// Invocations that are kept: a page of them.
const COUNT_MAX: usize = 50;

/// The characters of a text of a client that are kept.
pub(super) const TEXT_MAX: usize = 128;

/// A build.
#[derive(Debug)]
pub(super) struct Invocation {
    id: String,
    tool: String,
    begun: u64,
    last: AtomicU64,
    requests: AtomicU64,
    errors: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Invocation {
    fn new(metadata: &Metadata<'_>, now: u64) -> Self {
        let tool = format!("{} {}", shortened(metadata.tool), shortened(metadata.tool_version));
        Self {
            id: shortened(metadata.invocation).to_owned(),
            tool: tool.trim().to_owned(),
            begun: now,
            last: AtomicU64::new(now),
            requests: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }

    /// The identifier.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The tool and its version.
    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    /// Counts a request.
    pub(super) fn count(&self, ended: &Ended) {
        let add = |counter: &AtomicU64, more: u64| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.requests, 1);
        add(&self.errors, u64::from(ended.outcome.is_error(ended.name)));
        if !ended.name.only_asks() {
            add(&self.hits, ended.lookups.hits);
            add(&self.misses, ended.lookups.misses);
        }
        add(&self.received_bytes, ended.received_bytes);
        add(&self.sent_bytes, ended.sent_bytes);
        self.last.store(unix_seconds(), Ordering::Relaxed);
    }
}

/// An invocation as it is shown.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct InvocationStatus {
    id: String,
    tool: String,
    /// Seconds since 1970.
    begun: u64,
    last_request: u64,
    requests: u64,
    errors: u64,
    hits: u64,
    misses: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

/// The last invocations. When there are too many, the one goes that sent no request for longest.
#[derive(Debug, Default)]
pub(super) struct Invocations(Mutex<VecDeque<Arc<Invocation>>>);

impl Invocations {
    /// The invocation of a request; `None` if it names none.
    pub(super) fn find(&self, metadata: &Metadata<'_>) -> Option<Arc<Invocation>> {
        let id = shortened(metadata.invocation);
        if id.is_empty() {
            return None;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.iter().find(|one| one.id == id) {
            return Some(Arc::clone(found));
        }
        if all.len() == COUNT_MAX {
            let last = |one: &Arc<Invocation>| one.last.load(Ordering::Relaxed);
            // Of those with the same time, the one that began first.
            let oldest = (0..all.len()).rev().min_by_key(|at| last(&all[*at]));
            oldest.and_then(|at| all.remove(at));
        }
        let invocation = Arc::new(Invocation::new(metadata, unix_seconds()));
        all.push_front(Arc::clone(&invocation));
        Some(invocation)
    }

    /// All of them; the one that began last comes first.
    pub(super) fn status(&self) -> Vec<InvocationStatus> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shown = all.iter().map(|one| InvocationStatus {
            id: one.id.clone(),
            tool: one.tool.clone(),
            begun: one.begun,
            last_request: read(&one.last),
            requests: read(&one.requests),
            errors: read(&one.errors),
            hits: read(&one.hits),
            misses: read(&one.misses),
            received_bytes: read(&one.received_bytes),
            sent_bytes: read(&one.sent_bytes),
        });
        shown.collect()
    }
}

/// The first characters of a text of a client.
pub(super) fn shortened(text: &str) -> &str {
    text.char_indices().nth(TEXT_MAX).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(invocation: &str) -> Metadata<'_> {
        Metadata { invocation, tool: "bazel", tool_version: "8", ..Metadata::default() }
    }

    #[test]
    fn an_invocation_is_found_again() {
        let all = Invocations::default();
        assert!(all.find(&metadata("")).is_none());
        let one = all.find(&metadata("a")).unwrap();
        assert!(Arc::ptr_eq(&one, &all.find(&metadata("a")).unwrap()));
        assert!(!Arc::ptr_eq(&one, &all.find(&metadata("b")).unwrap()));
        assert_eq!((one.id(), one.tool()), ("a", "bazel 8"));
    }

    #[test]
    fn their_number_and_their_texts_are_bounded() {
        let all = Invocations::default();
        for number in 0..3 * COUNT_MAX {
            let long = format!("{number}{}", "\u{e9}".repeat(1000));
            let _ = all.find(&metadata(&long));
        }
        let status = all.status();
        assert_eq!(status.len(), COUNT_MAX);
        assert!(status.iter().all(|one| one.id.chars().count() == TEXT_MAX));
        assert!(status[0].id.starts_with("149"), "{}", status[0].id);
    }

    #[test]
    fn the_one_without_requests_for_longest_goes_first() {
        let all = Invocations::default();
        let found: Vec<_> =
            (0..COUNT_MAX).map(|n| all.find(&metadata(&n.to_string())).unwrap()).collect();
        found[7].last.store(1, Ordering::Relaxed);
        let _ = all.find(&metadata("new"));
        assert!(all.status().iter().all(|one| one.id != "7"));
        assert!(all.status().iter().any(|one| one.id == "0"));
    }
}
