//! Calls in parallel, and their latencies.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tokio::task::JoinSet;

use super::process::{ServerProcess, own_cpu_s};
use crate::figures::{GIB, MIB};

/// When the workers end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// After this number of calls.
    Calls(usize),
    /// After this time.
    Time(Duration),
}

/// The cost of a column's calls.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) wall_s: f64,
    pub(crate) server_cpu_s: f64,
    pub(crate) client_cpu_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) rss_kib: u64,
    pub(crate) rss_kib_max: u64,
}

/// What one call did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

/// Makes calls until the end; `call` gets their numbers. Fails with the first call that fails.
pub(crate) async fn in_parallel<F>(
    workers: usize,
    until: Until,
    call: impl Fn(usize) -> F + Send + Sync + 'static,
) -> Result<(Vec<Duration>, Done)>
where
    F: Future<Output = Result<Done>> + Send,
{
    let (next, call) = (Arc::new(AtomicUsize::new(0)), Arc::new(call));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (next, call) = (Arc::clone(&next), Arc::clone(&call));
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut sum = Done { operations: 0, bytes: 0 };
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let is_over = match until {
                    Until::Calls(calls) => number >= calls,
                    Until::Time(time) => started.elapsed() >= time,
                };
                if is_over {
                    return Ok::<_, anyhow::Error>((latencies, sum));
                }
                let begun = Instant::now();
                let done = call(number).await?;
                latencies.push(begun.elapsed());
                sum.operations += done.operations;
                sum.bytes += done.bytes;
            }
        });
    }
    let (mut latencies, mut sum) = (Vec::new(), Done { operations: 0, bytes: 0 });
    while let Some(ended) = tasks.join_next().await {
        let (some, done) = ended??;
        latencies.extend(some);
        sum.operations += done.operations;
        sum.bytes += done.bytes;
    }
    Ok((latencies, sum))
}

/// As [`in_parallel`], with what the server and this program used meanwhile.
pub(crate) async fn sample<F>(
    server: &ServerProcess,
    workers: usize,
    until: Until,
    call: impl Fn(usize) -> F + Send + Sync + 'static,
) -> Result<Sample>
where
    F: Future<Output = Result<Done>> + Send,
{
    let (before, own) = (server.used()?, own_cpu_s());
    let started = Instant::now();
    let (latencies, done) = in_parallel(workers, until, call).await?;
    let wall_s = started.elapsed().as_secs_f64();
    let (after, own_after) = (server.used()?, own_cpu_s());
    Ok(Sample {
        operations: done.operations,
        bytes: done.bytes,
        wall_s,
        server_cpu_s: after.cpu_s - before.cpu_s,
        client_cpu_s: own_after - own,
        p50_ms: quantile(&latencies, 0.5),
        p99_ms: quantile(&latencies, 0.99),
        rss_kib: after.rss_kib,
        rss_kib_max: after.rss_kib_max,
    })
}

/// A quantile in ms; 0 for none.
pub(crate) fn quantile(latencies: &[Duration], quantile: f64) -> f64 {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a list of latencies"
    )]
    let index = (sorted.len().saturating_sub(1) as f64 * quantile) as usize;
    sorted.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
impl Sample {
    pub(crate) fn mib_per_s(&self) -> f64 {
        self.bytes as f64 / MIB / self.wall_s
    }

    pub(crate) fn per_s(&self) -> f64 {
        self.operations as f64 / self.wall_s
    }

    /// Processor time of the server, in s/GiB.
    pub(crate) fn cpu_s_per_gib(&self) -> f64 {
        self.server_cpu_s / (self.bytes as f64 / GIB)
    }

    /// Processor time of the server for an operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.server_cpu_s * 1e6 / self.operations as f64
    }

    /// The part of the processor time that this program took.
    pub(crate) fn client_share(&self) -> f64 {
        self.client_cpu_s / (self.client_cpu_s + self.server_cpu_s)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} MiB/s, {:.0} /s, server {:.2} CPU s, client {:.2}, p99 {:.2} ms",
            self.mib_per_s(),
            self.per_s(),
            self.server_cpu_s,
            self.client_cpu_s,
            self.p99_ms
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        let latencies: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert!((quantile(&latencies, 0.5) - 50.0).abs() < 1e-9);
        assert!((quantile(&latencies, 0.99) - 99.0).abs() < 1e-9);
        assert!(quantile(&[], 0.99).abs() < 1e-9);
    }

    #[tokio::test]
    async fn each_number_is_called_once() {
        let seen = Arc::new(AtomicUsize::new(0));
        let sum = Arc::clone(&seen);
        let call = move |number| {
            sum.fetch_add(number, Ordering::Relaxed);
            async { Ok(Done { operations: 1, bytes: 2 }) }
        };
        let (latencies, done) = in_parallel(4, Until::Calls(10), call).await.unwrap();
        assert_eq!((latencies.len(), done.operations, done.bytes), (10, 10, 20));
        assert_eq!(seen.load(Ordering::Relaxed), 45);
        let failing = |_| async { anyhow::bail!("no") };
        assert!(in_parallel(2, Until::Calls(3), failing).await.is_err());
    }
}
