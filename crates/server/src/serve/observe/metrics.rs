//! `/metrics`: the snapshot as text of `OpenMetrics`, which Prometheus reads.
//!
//! `prometheus-client` writes the text. The counters are our own: a histogram of the library takes a lock
//! for each observation.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::call::MissReason;
use super::counters::{CallTotals, LATENCY_BOUNDS_US};
use super::outcome::Outcome;
use super::snapshot::Snapshot;
use crate::store::{COMMIT_OPERATIONS_BOUNDS, EVICTION_AGE_BOUNDS_SECONDS};

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text of a snapshot.
pub(super) fn encode(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix("tidegate");
    registry.register_collector(Box::new(Collected(snapshot)));
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// Names and values of labels.
type Labels = Vec<(&'static str, &'static str)>;

/// The metrics of one answer.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn family<T: EncodeMetric>(
        &mut self,
        (name, help): (&str, &str),
        kind: MetricType,
        rows: impl IntoIterator<Item = (Labels, T)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in rows {
            value.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn counters(
        &mut self,
        about: (&str, &str),
        rows: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        let rows = rows.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
        self.family(about, MetricType::Counter, rows)
    }

    fn counter(&mut self, (name, help): (&str, &str), value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    fn gauge(&mut self, (name, help): (&str, &str), value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(encoder)
    }

    fn histogram(
        &mut self,
        (name, help): (&str, &str),
        bounds: &[u64],
        (counts, sum): (&[u64], u64),
    ) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        histogram(encoder, bounds, (counts, sum), 1.0)
    }
}

/// A histogram whose bounds and sum are divided by `unit`.
#[expect(clippy::cast_precision_loss, reason = "the bounds are small, and a sum is an estimate")]
fn histogram(
    mut encoder: MetricEncoder<'_>,
    bounds: &[u64],
    (counts, sum): (&[u64], u64),
    unit: f64,
) -> fmt::Result {
    let bounds = bounds.iter().map(|bound| *bound as f64 / unit).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
    let count = counts.iter().sum();
    encoder.encode_histogram::<NoLabelSet>(sum as f64 / unit, count, &buckets, None)
}

#[derive(Debug)]
struct Collected(Snapshot);

impl Collector for Collected {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer(encoder);
        self.server(&mut writer)?;
        self.requests(&mut writer)?;
        self.lookups(&mut writer)?;
        self.store(&mut writer)?;
        self.maintenance(&mut writer)
    }
}

fn labels(call: &CallTotals) -> Labels {
    vec![("protocol", call.name.protocol()), ("call", call.name.name())]
}

impl Collected {
    fn server(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let Snapshot { budget, .. } = &self.0;
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        let info = [(version, ConstGauge::new(1_i64))];
        writer.family(("build_info", "The version of the server"), MetricType::Gauge, info)?;
        let uptime = ("uptime_seconds", "Seconds since the server began");
        writer.gauge(uptime, self.0.uptime_seconds)?;
        writer.gauge(("connections", "Open connections"), self.0.connections)?;
        let accepted = ("connections_accepted", "Connections since the server began");
        writer.counter(accepted, self.0.connections_accepted)?;
        let refused = ("connections_refused", "Connections beyond the limit of their client");
        writer.counter(refused, self.0.connections_refused)?;
        writer.gauge(("requests_in_flight", "Requests in flight"), self.0.in_flight)?;
        let used = ("budget_used_bytes", "Memory of messages and pieces in use");
        writer.gauge(used, budget.used_bytes)?;
        let peak = ("budget_peak_bytes", "The most memory of messages and pieces ever in use");
        writer.gauge(peak, budget.peak_bytes)?;
        let limit = ("budget_max_bytes", "The limit of the memory of messages and pieces");
        writer.gauge(limit, budget.max_bytes)?;
        let refusals = ("refusals", "Requests that were refused and can be sent again, by reason");
        let rows = self.0.refusals.iter();
        writer.counters(
            refusals,
            rows.map(|(reason, count)| (vec![("reason", reason.name())], *count)),
        )
    }

    fn requests(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let calls = || self.0.calls.iter().filter(|call| call.count() > 0);
        let rows = calls().flat_map(|call| {
            let outcomes = call.outcomes.iter().enumerate().filter(|(_, count)| **count > 0);
            outcomes.map(|(index, count)| {
                let mut labels = labels(call);
                labels.push(("code", Outcome::name(index)));
                (labels, *count)
            })
        });
        let about = ("requests", "Requests that have ended, by call and code of the response");
        writer.counters(about, rows)?;
        let about = ("request_body_bytes", "Bytes of the bodies of requests");
        writer.counters(about, calls().map(|call| (labels(call), call.received_bytes)))?;
        let about = ("response_body_bytes", "Bytes of the bodies of responses");
        writer.counters(about, calls().map(|call| (labels(call), call.sent_bytes)))?;
        let (name, help) = (
            "request_duration_seconds",
            "Seconds from the head of a request to the end of its response",
        );
        let kind = MetricType::Histogram;
        let mut family = writer.0.encode_descriptor(name, help, None, kind)?;
        for call in calls() {
            let labels = labels(call);
            let encoder = family.encode_family(&labels)?;
            let sum_us = call.latency_ns / 1000;
            histogram(encoder, &LATENCY_BOUNDS_US, (&call.latencies, sum_us), 1e6)?;
        }
        Ok(())
    }

    fn lookups(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let kinds = || self.0.kinds.iter();
        let label = |name: &'static str| vec![("kind", name)];
        let about = ("hits", "Values that clients read and that were there, by kind");
        writer.counters(about, kinds().map(|kind| (label(kind.kind.name()), kind.hits)))?;
        let rows = kinds().flat_map(|kind| {
            let misses = MissReason::ALL.into_iter().zip(kind.misses);
            misses.map(|(reason, count)| {
                (vec![("kind", kind.kind.name()), ("reason", reason.name())], count)
            })
        });
        let about = ("misses", "Values that clients wanted and that were not there, by reason");
        writer.counters(about, rows)?;
        let rows = kinds().flat_map(|kind| {
            let rows = [("present", kind.present), ("absent", kind.absent)];
            rows.map(|(found, count)| (vec![("kind", kind.kind.name()), ("found", found)], count))
        });
        let about = ("presence_questions", "Values that clients asked for without reading them");
        writer.counters(about, rows)
    }

    fn store(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let Snapshot { store, .. } = &self.0;
        writer.gauge(("store_used_bytes", "Bytes of the store on the disk"), store.used_bytes)?;
        writer.gauge(("store_max_bytes", "The limit of the store"), self.0.store_bytes_max)?;
        let about = ("store_values", "Values of the store, of those that its index has loaded");
        writer.gauge(about, store.values)?;
        let about = ("store_index_loaded", "1 if the index of the store is loaded");
        writer.gauge(about, u64::from(store.is_loaded))?;
        let packs = [("used", store.packs_used), ("free", store.packs_free)];
        let packs = packs.map(|(state, count)| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            (vec![("state", state)], ConstGauge::new(count))
        });
        writer.family(("store_packs", "Packs of small values"), MetricType::Gauge, packs)?;
        let about = ("store_written_bytes", "Bytes that the store wrote, by what it wrote");
        let rows = [
            ("values", store.value_bytes_written),
            ("moved", store.moved_bytes_written),
            ("checkpoints", store.checkpoint_bytes_written),
        ];
        writer.counters(about, rows.map(|(what, bytes)| (vec![("what", what)], bytes)))?;
        let about = ("store_damaged_snapshot", "1 if a snapshot of the index was damaged");
        writer.gauge(about, u64::from(store.has_damaged_snapshot))
    }

    fn maintenance(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let Snapshot { activity, .. } = &self.0;
        let about = ("store_commit_operations", "Operations of one group of commits");
        let commits = (&activity.commits.counts[..], activity.commits.sum);
        writer.histogram(about, &COMMIT_OPERATIONS_BOUNDS, commits)?;
        let about = ("store_committed_bytes", "Bytes of the records of commits");
        writer.counter(about, activity.committed_bytes)?;
        let about = ("store_eviction_age_seconds", "Seconds from last use to eviction of a value");
        let evictions = (&activity.evictions.counts[..], activity.evictions.sum);
        writer.histogram(about, &EVICTION_AGE_BOUNDS_SECONDS, evictions)?;
        writer
            .counter(("store_evicted_bytes", "Bytes of evicted values"), activity.evicted_bytes)?;
        let about = ("store_damaged_values", "Values that were dropped because they were damaged");
        writer.counter(about, activity.damaged_values)?;
        let about = ("store_scrubbed_values", "Values that the scrub has read");
        writer.counter(about, activity.scrubbed_values)?;
        let about = ("store_scrubbed_bytes", "Bytes that the scrub has read");
        writer.counter(about, activity.scrubbed_bytes)?;
        writer
            .counter(("store_scrubs", "Scrubs of the whole store that have ended"), activity.scrubs)
    }
}
