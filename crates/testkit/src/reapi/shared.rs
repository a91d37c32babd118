//! The state that all connections of a server share.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    cas::Cas, counts::Ledger, fault::ReapiFault, hostile::Acknowledged, link::Link,
    options::ReapiOptions, rpc::Rpc, script::Facts, script::ReapiScript,
};
use crate::random::{GOLDEN, mix};

pub(crate) struct Shared {
    pub(crate) options: ReapiOptions,
    pub(crate) cas: Arc<Cas>,
    /// The parts of other callers, by their tokens.
    pub(crate) tenants: Vec<(String, Arc<Cas>)>,
    pub(crate) script: ReapiScript,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) link: Link,
    pub(crate) connections: AtomicU64,
    pub(crate) acknowledged: Mutex<Acknowledged>,
    calls: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(options: ReapiOptions) -> Self {
        Self {
            cas: Arc::default(),
            tenants: options.tenants.iter().map(|token| (token.clone(), Arc::default())).collect(),
            script: ReapiScript::default(),
            ledger: Arc::default(),
            link: Link::new(options.bytes_per_second),
            connections: AtomicU64::new(0),
            acknowledged: Mutex::default(),
            calls: AtomicU64::new(0),
            options,
        }
    }

    /// The delay of the response to the call that has just arrived.
    pub(crate) fn delay(&self) -> Duration {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let random = mix(mix(self.options.seed ^ GOLDEN).wrapping_add(call.wrapping_mul(GOLDEN)));
        let latency_us = self.options.latency.pick_us(random);
        let in_flight = self.ledger.in_flight();
        let load_us = self.options.congestion.map_or(0, |load| load.delay_us(in_flight));
        Duration::from_micros(latency_us.saturating_add(load_us))
    }

    pub(crate) fn decide(&self, rpc: Rpc, hashes: &[String]) -> Vec<ReapiFault> {
        self.script.decide(&Facts { rpc, hashes })
    }
}
