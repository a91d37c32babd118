//! Runs one case repeatedly, and measures its cost with the clocks.
//!
//! Processor time is that of the whole process, user and system, over all operations. It includes
//! the kernel's work for a first touch, and does not grow when another process uses the processor.
//! Wall time does grow then, so the median and the least are given too.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tidegate::buffer::{BufferPool, BufferPoolOptions, ShardBuffer, ShardBufferOptions};

use crate::case::{Case, Memory};
use crate::ceiling::Ceiling;
use crate::crew::{Crew, Job};
use crate::resident::resident_bytes;

/// Larger than any case: the limit is checked, and never reached.
const LIMIT_BYTES: u64 = 1 << 30;

/// More than the largest case, so that the pool gives each buffer the memory of the previous one.
const POOL_BYTES_MAX: u64 = 256 << 20;

/// Long enough that no pool is emptied within a measurement.
const POOL_IDLE_MS_MAX: u64 = 600_000;

/// Operations before the first that counts: they fill caches, the pool and the branch predictors.
const WARM_UP_OPERATIONS: usize = 2;

/// The least number of operations for a median, however slow they are.
const OPERATIONS_MIN: usize = 5;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// For this long.
    Time(Duration),
    /// For this number of operations.
    Operations(usize),
}

/// The time and memory of one operation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) operations: usize,
    /// Mean wall time, as Go's harness reports it.
    pub(crate) wall_ns: f64,
    pub(crate) wall_ns_median: f64,
    pub(crate) wall_ns_min: f64,
    /// Mean processor time of all threads.
    pub(crate) cpu_ns: f64,
    /// Length of the blob.
    pub(crate) blob_bytes: usize,
    /// Bytes that the buffer reports as committed; `None` for a copy.
    pub(crate) committed_bytes: Option<u64>,
    /// Growth of the process for one blob, as the kernel counts it; only for fresh memory.
    pub(crate) resident_bytes: Option<u64>,
    /// How often a writer waited for a lock, over all operations.
    pub(crate) lock_waits: u64,
}

/// Measures one case. Before that, it compares the result of one operation with the written bytes.
pub(crate) fn measure(case: Case, effort: Effort) -> Result<Figures, String> {
    let crew = Crew::new(case.threads);
    let source: Arc<[u8]> = noise(case.call_bytes.min(case.shape.shard_bytes)).into();
    let ceiling = Ceiling::new(case, Arc::clone(&source));
    let filler = Filler::new(case, source);
    let checked = if case.memory.is_buffer() { Some(filler.check(&crew)?) } else { None };
    let mut lock_waits = 0;
    let mut operation = || -> Result<(), String> {
        if case.memory.is_buffer() {
            lock_waits += filler.fill(&crew)?.stats().lock_waits;
            Ok(())
        } else {
            ceiling.run(&crew)
        }
    };
    for _ in 0..WARM_UP_OPERATIONS {
        operation()?;
    }
    let mut single_ns = Vec::new();
    let started = Instant::now();
    let cpu_started_ns = cpu_ns();
    while !effort.is_spent(single_ns.len(), started.elapsed()) {
        let begun = Instant::now();
        operation()?;
        single_ns.push(begun.elapsed().as_secs_f64() * 1e9);
    }
    let cpu_ns = cpu_ns() - cpu_started_ns;
    let wall_ns = started.elapsed().as_secs_f64() * 1e9;
    single_ns.sort_by(f64::total_cmp);
    let operations = single_ns.len();
    let count = as_f64(operations);
    Ok(Figures {
        operations,
        wall_ns: wall_ns / count,
        wall_ns_median: single_ns.get(operations / 2).copied().unwrap_or_default(),
        wall_ns_min: single_ns.first().copied().unwrap_or_default(),
        cpu_ns: cpu_ns / count,
        blob_bytes: case.blob_bytes(),
        committed_bytes: checked.as_ref().map(|checked| checked.committed_bytes),
        resident_bytes: checked.and_then(|checked| checked.resident_bytes),
        lock_waits,
    })
}

impl Effort {
    fn is_spent(self, operations: usize, elapsed: Duration) -> bool {
        match self {
            Self::Time(limit) => operations >= OPERATIONS_MIN && elapsed >= limit,
            Self::Operations(limit) => operations >= limit.max(1),
        }
    }
}

/// Fills buffers.
struct Filler {
    case: Case,
    source: Arc<[u8]>,
    pool: Option<BufferPool>,
}

/// The memory of one checked operation.
struct Checked {
    committed_bytes: u64,
    resident_bytes: Option<u64>,
}

impl Filler {
    fn new(case: Case, source: Arc<[u8]>) -> Self {
        let pool = (case.memory == Memory::Recycled).then(|| {
            BufferPool::new(BufferPoolOptions {
                bytes_max: POOL_BYTES_MAX,
                idle_ms_max: POOL_IDLE_MS_MAX,
            })
        });
        Self { case, source, pool }
    }

    /// One operation without dropping the buffer.
    fn fill(&self, crew: &Crew) -> Result<ShardBuffer, String> {
        let buffer = ShardBuffer::new(ShardBufferOptions {
            len_hint: self.case.hint_bytes().map(|bytes| bytes as u64),
            limit_bytes: LIMIT_BYTES,
            pool: self.pool.clone(),
            ..ShardBufferOptions::default()
        })
        .map_err(|error| error.to_string())?;
        let shard_bytes = self.case.shape.shard_bytes;
        let mut jobs: Vec<Job> = Vec::with_capacity(self.case.shape.shards);
        for index in 0..self.case.shape.shards {
            let start = (index * shard_bytes) as u64;
            let mut writer = buffer
                .shard(start..start + shard_bytes as u64)
                .map_err(|error| error.to_string())?;
            let source = Arc::clone(&self.source);
            jobs.push(Box::new(move || {
                for _ in 0..shard_bytes / source.len() {
                    writer.write_all(&source).map_err(|error| error.to_string())?;
                }
                Ok(())
            }));
        }
        crew.run(jobs)?;
        Ok(buffer)
    }

    /// One operation with checks: compares every byte, and measures the memory.
    fn check(&self, crew: &Crew) -> Result<Checked, String> {
        let before = resident_bytes();
        let buffer = self.fill(crew)?;
        let after = resident_bytes();
        let committed_bytes = buffer.stats().committed_bytes;
        let bytes = buffer.freeze(self.case.blob_bytes() as u64).map_err(|e| e.to_string())?;
        if bytes.len() != self.case.blob_bytes()
            || bytes.chunks(self.source.len()).any(|piece| *piece != *self.source)
        {
            return Err(format!(
                "the {} bytes of the buffer are not what was written",
                bytes.len()
            ));
        }
        let resident_bytes = (self.case.memory == Memory::Fresh)
            .then(|| Some(after?.saturating_sub(before?)))
            .flatten();
        Ok(Checked { committed_bytes, resident_bytes })
    }
}

/// Bytes that differ from page to page and do not compress (`SplitMix64`, Steele, Lea and Flood
/// 2014).
fn noise(len: usize) -> Vec<u8> {
    let mut state: u64 = 1;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend((mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// User and system time of the process so far.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a process that runs for minutes")]
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts and sizes far below 2^52")]
pub(crate) fn as_f64(count: usize) -> f64 {
    count as f64
}
