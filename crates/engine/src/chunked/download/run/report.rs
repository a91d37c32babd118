//! The report of a chunked download.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Job;
use crate::remote::BlobInfo;
use crate::report::{ChunkReport, ChunkTotals, Form, Report};
use crate::transfer::checks::Proof;
use crate::transfer::destination::Committed;

impl Job<'_> {
    pub(super) fn report(self, committed: Committed, elapsed: Duration) -> Report {
        let Self { fetcher, blob, options, outcome, .. } = self;
        let totals = |chunks: &AtomicU64, bytes: &AtomicU64| ChunkTotals {
            chunks: chunks.load(Ordering::Relaxed),
            bytes: bytes.load(Ordering::Relaxed),
        };
        let counts = &fetcher.counts;
        let moved = totals(&counts.fetched_chunks, &counts.fetched_bytes);
        let shared = totals(&counts.shared_chunks, &counts.shared_bytes);
        let reused = ChunkTotals { chunks: outcome.copied_chunks, bytes: outcome.copied_bytes };
        let (mut all, mut distinct) = (ChunkTotals::default(), ChunkTotals::default());
        if outcome.chunks > 0 {
            all = ChunkTotals { chunks: outcome.chunks, bytes: blob.len };
            distinct = moved + shared + reused;
        }
        let Committed { proof: Proof { computed, verified }, memory, .. } = committed;
        let window = u32::try_from(fetcher.window.limit()).unwrap_or(u32::MAX);
        let chunks =
            ChunkReport { all, distinct, moved, shared, reused, window, ..ChunkReport::default() };
        Report {
            bytes: blob.len,
            resumed_bytes: outcome.resumed_bytes,
            elapsed,
            totals: options.progress.stats().totals(),
            held_bytes_peak: options.budget.held_bytes_peak(),
            info: BlobInfo::of_digest(&blob),
            checksums: computed,
            verified,
            digest: Some(blob),
            form: if outcome.whole { Form::Whole } else { Form::Chunks },
            chunks: Some(chunks),
            notes: outcome.notes,
            source_bytes: None,
            mirrors: Vec::new(),
            memory,
        }
    }
}
