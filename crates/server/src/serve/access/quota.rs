//! [`Quotas`]: bytes that an instance may write in a day.
//!
//! A shared cache evicts by age alone, so one instance that writes without end takes the space of all
//! others. A limit of what is stored would stop an instance for ever, because it cannot choose what is
//! evicted. So the limit is of what is written within 24 hours. It is counted in memory: a restart
//! begins at zero.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Caller;

/// The parts of a day that are counted.
const HOURS: u32 = 24;
const HOUR: Duration = Duration::from_hours(1);

/// What an instance may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The instance; empty for requests that name none.
    pub instance: String,
    /// Bytes in 24 hours, of each tenant.
    pub bytes_per_day: u64,
}

/// An instance has written what it may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instance {instance:?} may write {bytes_max} bytes in 24 hours; retry in {} minutes", .retry_after.as_secs().div_ceil(60))]
pub struct QuotaUsed {
    /// The instance.
    pub instance: String,
    /// What it may write.
    pub bytes_max: u64,
    /// When some of it is free again.
    pub retry_after: Duration,
}

/// The quotas of a server.
#[derive(Debug)]
pub(in super::super) struct Quotas {
    limits: HashMap<String, u64>,
    /// By tenant and instance. Only instances with a quota are here, so their number is bounded by
    /// tenants times quotas.
    written: Mutex<HashMap<(String, String), Written>>,
    begun: Instant,
}

/// Bytes of each of the last hours.
#[derive(Clone, Debug, Default)]
struct Written {
    hours: [u64; HOURS as usize],
    /// The last hour that was written to, counted from the start.
    last: u64,
}

impl Quotas {
    pub(in super::super) fn new(quotas: &[Quota]) -> Self {
        let limits = quotas.iter().map(|one| (one.instance.clone(), one.bytes_per_day)).collect();
        Self { limits, written: Mutex::default(), begun: Instant::now() }
    }

    /// Whether the instance may write `bytes` more now.
    pub(in super::super) fn check(
        &self,
        caller: &Caller,
        instance: &str,
        bytes: u64,
    ) -> Result<(), QuotaUsed> {
        self.check_at(caller, instance, bytes, Instant::now())
    }

    /// Counts bytes that were written.
    pub(in super::super) fn count(&self, caller: &Caller, instance: &str, bytes: u64) {
        self.count_at(caller, instance, bytes, Instant::now());
    }

    fn check_at(
        &self,
        caller: &Caller,
        instance: &str,
        bytes: u64,
        now: Instant,
    ) -> Result<(), QuotaUsed> {
        let instance = instance.strip_prefix('/').unwrap_or(instance);
        let Some(bytes_max) = self.limits.get(instance).copied() else { return Ok(()) };
        let hour = self.hour(now);
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let written = all.entry(key(caller, instance)).or_default();
        written.forget(hour);
        let used: u64 = written.hours.iter().sum();
        if used.saturating_add(bytes) <= bytes_max {
            return Ok(());
        }
        let until = written.free_in(hour);
        let elapsed = now.saturating_duration_since(self.begun);
        let into_hour = Duration::from_secs(elapsed.as_secs() % HOUR.as_secs());
        let retry_after = (HOUR * until).saturating_sub(into_hour);
        Err(QuotaUsed { instance: instance.into(), bytes_max, retry_after })
    }

    fn count_at(&self, caller: &Caller, instance: &str, bytes: u64, now: Instant) {
        let instance = instance.strip_prefix('/').unwrap_or(instance);
        if !self.limits.contains_key(instance) {
            return;
        }
        let hour = self.hour(now);
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let written = all.entry(key(caller, instance)).or_default();
        written.forget(hour);
        if let Some(slot) = written.hours.get_mut(place(hour)) {
            *slot = slot.saturating_add(bytes);
        }
    }

    fn hour(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begun).as_secs() / HOUR.as_secs()
    }
}

impl Written {
    /// Forgets what is older than a day.
    fn forget(&mut self, hour: u64) {
        for passed in self.last + 1..=hour.min(self.last + u64::from(HOURS)) {
            if let Some(slot) = self.hours.get_mut(place(passed)) {
                *slot = 0;
            }
        }
        self.last = self.last.max(hour);
    }

    /// After how many hours the oldest bytes are forgotten.
    fn free_in(&self, hour: u64) -> u32 {
        // The hour after this one takes the place of the oldest.
        (1..=HOURS)
            .find(|after| self.hours.get(place(hour + u64::from(*after))) != Some(&0))
            .unwrap_or(HOURS)
    }
}

fn key(caller: &Caller, instance: &str) -> (String, String) {
    (caller.tenant().name().to_owned(), instance.to_owned())
}

fn place(hour: u64) -> usize {
    usize::try_from(hour % u64::from(HOURS)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::Tenant;
    use super::*;

    #[test]
    fn bytes_count_for_a_day_and_for_their_tenant() {
        let quotas = Quotas::new(&[Quota { instance: "a".into(), bytes_per_day: 100 }]);
        let caller = |tenant: &str| Caller::anyone(Tenant::new(tenant).unwrap());
        let (own, other) = (caller(""), caller("b"));
        let at = |hours: u64| quotas.begun + HOUR * u32::try_from(hours).unwrap();
        let check = |caller: &Caller, name: &str, bytes, hours| {
            quotas.check_at(caller, name, bytes, at(hours))
        };
        assert!(check(&own, "a", 100, 0).is_ok());
        assert!(check(&own, "a", 101, 0).is_err());
        quotas.count_at(&own, "a", 60, at(0));
        quotas.count_at(&own, "/a", 40, at(5));
        quotas.count_at(&own, "free", 1 << 40, at(5));
        let used = check(&own, "a", 1, 6).unwrap_err();
        assert_eq!(used.retry_after, HOUR * 18);
        assert!(check(&own, "free", 1 << 40, 6).is_ok());
        assert!(check(&other, "a", 100, 6).is_ok());
        assert!(check(&own, "a", 1, 23).is_err());
        assert!(check(&own, "a", 60, 24).is_ok());
        assert!(check(&own, "a", 61, 24).is_err());
        assert!(check(&own, "a", 100, 29).is_ok());
        assert!(check(&own, "a", 100, 1000).is_ok());
    }
}
