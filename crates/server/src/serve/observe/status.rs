//! `/status`: the snapshot as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::call::MissReason;
use super::counters::{CallTotals, KindTotals};
use super::failures::Failure;
use super::invocations::InvocationStatus;
use super::largest::{ShownBlob, kind_name};
use super::outcome::Outcome;
use super::series::SeriesStatus;
use super::snapshot::{BudgetUse, Snapshot};
use super::time::unix_seconds;
use crate::store::{
    AGE_BOUNDS_SECONDS, ActivityCounts, COMMIT_OPERATIONS_BOUNDS, EVICTION_AGE_BOUNDS_SECONDS,
    HistogramCounts, StoreSurvey,
};

/// The document.
#[derive(Serialize)]
struct Status<'a> {
    /// moon asks this path whether the server is there.
    #[serde(rename = "status")]
    health: &'static str,
    version: &'static str,
    /// Seconds since 1970.
    now: u64,
    begun: u64,
    uptime_seconds: u64,
    connections: u64,
    requests_in_flight: u64,
    hits: u64,
    misses: u64,
    received_bytes: u64,
    sent_bytes: u64,
    budget: BudgetUse,
    store: StoreStatus,
    kinds: BTreeMap<&'static str, KindStatus>,
    calls: Vec<CallStatus>,
    refusals: BTreeMap<&'static str, u64>,
    hour: &'a SeriesStatus,
    invocations: &'a [InvocationStatus],
    hottest: &'a [ShownBlob],
    failures: &'a [Failure],
    /// Absent while the index of the store is being loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<StoredStatus>,
}

/// What is stored.
#[derive(Serialize)]
struct StoredStatus {
    values: u64,
    bytes: u64,
    file_values: u64,
    file_bytes: u64,
    /// Estimated from a sample of this many values.
    sampled_values: u64,
    kinds: BTreeMap<&'static str, SumStatus>,
    /// By the seconds since the last use; the last class has no bound.
    ages: Vec<AgeStatus>,
    largest: Vec<ShownBlob>,
}

#[derive(Serialize)]
struct SumStatus {
    values: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct AgeStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    below_seconds: Option<u64>,
    values: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct KindStatus {
    hits: u64,
    misses: BTreeMap<&'static str, u64>,
    present: u64,
    absent: u64,
}

#[derive(Serialize)]
struct CallStatus {
    protocol: &'static str,
    call: &'static str,
    requests: u64,
    received_bytes: u64,
    sent_bytes: u64,
    /// Upper bounds in microseconds; absent beyond a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_us: Option<u64>,
    codes: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct StoreStatus {
    /// `process` or `power`.
    level: &'static str,
    used_bytes: u64,
    max_bytes: u64,
    values: u64,
    is_loaded: bool,
    packs_used: u64,
    packs_free: u64,
    written_bytes: WrittenStatus,
    has_damaged_snapshot: bool,
    damaged_values: u64,
    commits: HistogramStatus,
    committed_bytes: u64,
    evictions_by_age_seconds: HistogramStatus,
    evicted_bytes: u64,
    scrubs: u64,
    scrubbed_values: u64,
    scrubbed_bytes: u64,
}

#[derive(Serialize)]
struct WrittenStatus {
    values: u64,
    moved: u64,
    checkpoints: u64,
}

#[derive(Serialize)]
struct HistogramStatus {
    /// Upper bounds of all buckets but the last one.
    bounds: Vec<u64>,
    counts: Vec<u64>,
    sum: u64,
}

impl HistogramStatus {
    fn of<const BUCKETS: usize>(bounds: &[u64], histogram: &HistogramCounts<BUCKETS>) -> Self {
        let counts = histogram.counts.to_vec();
        Self { bounds: bounds.to_vec(), counts, sum: histogram.sum }
    }
}

/// The text of a snapshot.
pub(super) fn encode(snapshot: &Snapshot) -> Vec<u8> {
    let calls = snapshot.calls.iter().filter(|call| call.count() > 0);
    let refusals = snapshot.refusals.iter();
    let status = Status {
        health: "ok",
        version: env!("CARGO_PKG_VERSION"),
        now: unix_seconds(),
        begun: snapshot.begun_unix,
        uptime_seconds: snapshot.uptime_seconds,
        connections: snapshot.connections,
        requests_in_flight: snapshot.in_flight,
        hits: snapshot.sums.hits,
        misses: snapshot.sums.misses,
        received_bytes: snapshot.sums.received_bytes,
        sent_bytes: snapshot.sums.sent_bytes,
        budget: snapshot.budget,
        store: store(snapshot, &snapshot.activity),
        kinds: snapshot.kinds.iter().map(|kind| (kind.kind.name(), of_kind(kind))).collect(),
        calls: calls.map(of_call).collect(),
        refusals: refusals.map(|(reason, count)| (reason.name(), *count)).collect(),
        hour: &snapshot.hour,
        invocations: &snapshot.invocations,
        hottest: &snapshot.hot,
        failures: &snapshot.failures,
        stored: snapshot.survey.as_deref().map(stored),
    };
    // It has no map with keys that are no text, so it has a JSON form.
    serde_json::to_vec(&status).unwrap_or_default()
}

fn stored(survey: &StoreSurvey) -> StoredStatus {
    let kinds = survey
        .kinds
        .iter()
        .map(|(kind, sum)| (kind_name(*kind), SumStatus { values: sum.values, bytes: sum.bytes }));
    let bounds = AGE_BOUNDS_SECONDS.into_iter().map(Some).chain([None]);
    let ages = bounds.zip(&survey.ages).map(|(below_seconds, sum)| AgeStatus {
        below_seconds,
        values: sum.values,
        bytes: sum.bytes,
    });
    StoredStatus {
        values: survey.all.values,
        bytes: survey.all.bytes,
        file_values: survey.files.values,
        file_bytes: survey.files.bytes,
        sampled_values: survey.sampled,
        kinds: kinds.collect(),
        ages: ages.collect(),
        largest: survey.largest.iter().map(ShownBlob::large).collect(),
    }
}

fn of_kind(kind: &KindTotals) -> KindStatus {
    let misses = MissReason::ALL.into_iter().zip(kind.misses);
    KindStatus {
        hits: kind.hits,
        misses: misses.map(|(reason, count)| (reason.name(), count)).collect(),
        present: kind.present,
        absent: kind.absent,
    }
}

fn of_call(call: &CallTotals) -> CallStatus {
    let outcomes = call.outcomes.iter().enumerate().filter(|(_, count)| **count > 0);
    CallStatus {
        protocol: call.name.protocol(),
        call: call.name.name(),
        requests: call.count(),
        received_bytes: call.received_bytes,
        sent_bytes: call.sent_bytes,
        p50_us: call.quantile_us(0.5),
        p99_us: call.quantile_us(0.99),
        codes: outcomes.map(|(index, count)| (Outcome::name(index), *count)).collect(),
    }
}

fn store(snapshot: &Snapshot, activity: &ActivityCounts) -> StoreStatus {
    let counts = &snapshot.store;
    StoreStatus {
        level: snapshot.level.name(),
        used_bytes: counts.used_bytes,
        max_bytes: snapshot.store_bytes_max,
        values: counts.values,
        is_loaded: counts.is_loaded,
        packs_used: counts.packs_used,
        packs_free: counts.packs_free,
        written_bytes: WrittenStatus {
            values: counts.value_bytes_written,
            moved: counts.moved_bytes_written,
            checkpoints: counts.checkpoint_bytes_written,
        },
        has_damaged_snapshot: counts.has_damaged_snapshot,
        damaged_values: activity.damaged_values,
        commits: HistogramStatus::of(&COMMIT_OPERATIONS_BOUNDS, &activity.commits),
        committed_bytes: activity.committed_bytes,
        evictions_by_age_seconds: HistogramStatus::of(
            &EVICTION_AGE_BOUNDS_SECONDS,
            &activity.evictions,
        ),
        evicted_bytes: activity.evicted_bytes,
        scrubs: activity.scrubs,
        scrubbed_values: activity.scrubbed_values,
        scrubbed_bytes: activity.scrubbed_bytes,
    }
}
