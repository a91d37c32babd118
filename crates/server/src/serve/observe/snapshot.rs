//! [`Snapshot`]: everything that an operator can see, at one time. `/metrics` and `/status` show it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tidegate::Budget;

use super::call::{CallName, RefusalReason, ValueKind};
use super::counters::{CallTotals, KindTotals};
use super::failures::Failure;
use super::invocations::InvocationStatus;
use super::largest::ShownBlob;
use super::series::SeriesStatus;
use super::{Observer, Sums};
use crate::store::{ActivityCounts, Level, LocalStore, StoreCounts, StoreSurvey};

/// Everything that an operator can see.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) uptime_seconds: u64,
    pub(super) begun_unix: u64,
    pub(super) calls: Vec<CallTotals>,
    pub(super) kinds: Vec<KindTotals>,
    pub(super) refusals: Vec<(RefusalReason, u64)>,
    pub(super) sums: Sums,
    pub(super) in_flight: u64,
    pub(super) connections: u64,
    pub(super) connections_accepted: u64,
    pub(super) connections_refused: u64,
    pub(super) budget: BudgetUse,
    pub(super) store_bytes_max: u64,
    pub(super) level: Level,
    pub(super) store: StoreCounts,
    pub(super) activity: ActivityCounts,
    pub(super) hour: SeriesStatus,
    pub(super) hot: Vec<ShownBlob>,
    pub(super) invocations: Vec<InvocationStatus>,
    pub(super) failures: Vec<Failure>,
    /// `None` while the index of the store is being loaded, or if the caller did not ask for it.
    pub(super) survey: Option<Arc<StoreSurvey>>,
}

/// The memory of messages and pieces.
#[expect(clippy::struct_field_names, reason = "the names of the document")]
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct BudgetUse {
    pub(super) used_bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) max_bytes: u64,
}

impl Snapshot {
    /// `budgets` are the parts of the memory.
    pub(super) fn take(observer: &Observer, store: &LocalStore, budgets: &[Budget]) -> Self {
        let sums = observer.sums();
        let series = observer.series.lock().unwrap_or_else(PoisonError::into_inner).status(&sums);
        let connections = &observer.connections;
        let refusals = RefusalReason::ALL.into_iter();
        Self {
            uptime_seconds: observer.begun.elapsed().as_secs(),
            begun_unix: observer.begun_unix,
            calls: CallName::all().map(|name| observer.counters.call(name)).collect(),
            kinds: ValueKind::ALL.into_iter().map(|kind| observer.counters.kind(kind)).collect(),
            refusals: refusals.map(|reason| (reason, observer.counters.refusals(reason))).collect(),
            sums,
            in_flight: observer.counters.in_flight(),
            connections: connections.open.load(Ordering::Relaxed),
            connections_accepted: connections.accepted.load(Ordering::Relaxed),
            connections_refused: connections.refused.load(Ordering::Relaxed),
            budget: BudgetUse {
                used_bytes: budgets.iter().map(Budget::held_bytes).sum(),
                peak_bytes: budgets.iter().map(Budget::held_bytes_peak).sum(),
                max_bytes: budgets.iter().map(|budget| budget.limits().bytes).sum(),
            },
            store_bytes_max: store.bytes_max(),
            level: store.level(),
            store: store.counts(),
            activity: store.activity(),
            hour: series,
            hot: observer.hot.status(),
            invocations: observer.invocations.status(),
            failures: observer.failures.all(),
            survey: None,
        }
    }
}
