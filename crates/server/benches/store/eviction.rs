//! A trace of builds on a store that is too small for it: hit rates and written bytes.
//!
//! The real store runs the trace with the trace's own time. What it misses is put, as a build does.
//! Exact LRU with the same limit runs the same trace in memory. Written bytes are those of the
//! store's own counters and, as a check, those that the kernel counted for this process, each over
//! the bytes of the values that were put.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_server::store::{Content, Core, Key, Level, Op, StoreError, StoreResult};
use tidegate_server::trace::replay::{Replay, ReplayOptions, ReplayPolicy, Tally};
use tidegate_server::trace::{
    SyntheticOptions, SyntheticTrace, TraceOperation, TraceReader, TraceRequest,
};

use crate::population::open;
use crate::report::{Better, Goal, Report, Row};
use crate::timing::as_f64;
use crate::{Effort, Outcome};

/// Sizes of the store, in tenths of the working set: the outputs of the first build.
const TENTHS: [u64; 3] = [12, 16, 25];
/// The size for which bytes written have a goal.
const TENTHS_OF_GOAL: u64 = 16;
const WRITTEN_MAX: f64 = 1.5;
/// In points of the hit rate.
const BEHIND_LRU_MAX: f64 = 0.5;
/// Values that are put between two rounds of background work.
const ROUND_BYTES: u64 = 1 << 20;
/// Larger outputs than this are left out of the small run.
const NOISE_BYTES: usize = 1 << 20;

struct Trace {
    name: String,
    requests: Vec<TraceRequest>,
    working_set_bytes: u64,
}

pub(crate) fn run(effort: &Effort, report: &mut Report) -> Outcome {
    for trace in traces(effort)? {
        for tenths in TENTHS {
            let limit = trace.working_set_bytes / 10 * tenths;
            let folder = tempfile::tempdir_in(&effort.folder)?;
            let mut lru = Replay::new(ReplayPolicy::Lru, limit, ReplayOptions::default());
            trace.requests.iter().for_each(|request| lru.request(request));
            let ours = run_trace(&trace, limit, folder.path())?;
            let name = format!("{}, {}.{} x working set", trace.name, tenths / 10, tenths % 10);
            add_rows(&name, tenths, &ours, lru.tally(), report);
        }
    }
    Ok(())
}

fn traces(effort: &Effort) -> Outcome<Vec<Trace>> {
    let seeds = if effort.is_full { 1..4 } else { 1..2 };
    let mut traces = Vec::new();
    for seed in seeds {
        let mut options = SyntheticOptions { seed, ..SyntheticOptions::default() };
        if !effort.is_full {
            (options.actions, options.builds) = (3000, 4);
        }
        let requests: Vec<TraceRequest> = SyntheticTrace::new(options).collect();
        // In the first build everything is missing: each output is read once, and put.
        let first = requests.iter().filter(|request| request.time_ms < options.build_ms);
        let reads = first.filter(|request| request.operation == TraceOperation::Get);
        let working_set_bytes = reads.map(|request| request.size_bytes).sum();
        traces.push(Trace { name: format!("synthetic {seed}"), requests, working_set_bytes });
    }
    for path in &effort.traces {
        let reader = TraceReader::new(BufReader::new(File::open(path)?))?;
        let requests = reader.collect::<Result<Vec<_>, _>>()?;
        let mut all = Replay::new(ReplayPolicy::Unlimited, 0, ReplayOptions::default());
        for request in &requests {
            all.request(request);
        }
        // Without builds to tell, half of all bytes stand for the working set.
        let working_set_bytes = all.tally().bytes_max / 2;
        traces.push(Trace { name: path.display().to_string(), requests, working_set_bytes });
    }
    Ok(traces)
}

/// What became of a trace.
#[derive(Debug, Default)]
struct Run {
    tally: Tally,
    moved_bytes: u64,
    checkpoint_bytes: u64,
    store_bytes: u64,
    kernel_bytes: u64,
    used_bytes_max: u64,
    limit_bytes: u64,
}

fn add_rows(name: &str, tenths: u64, ours: &Run, lru: &Tally, report: &mut Report) {
    let row = |what: &str, unit, better, value: f64, goal| Row {
        name: format!("{name}: {what}"),
        unit,
        better,
        store: vec![value],
        bare: Vec::new(),
        goal,
    };
    let put_bytes = ours.tally.written_bytes.max(1);
    let part = |bytes: u64, of: u64| as_f64(usize_of(bytes)) / as_f64(usize_of(of));
    let goal = (tenths == TENTHS_OF_GOAL).then_some(Goal::AtMost(WRITTEN_MAX));
    let (hit_rate, lru_rate) = (ours.tally.hit_rate() * 100.0, lru.hit_rate() * 100.0);
    let mut hits = row("hit rate", "%", Better::High, hit_rate, None);
    hits.bare = vec![lru_rate];
    report.add(&hits);
    let behind = Some(Goal::AtMost(BEHIND_LRU_MAX));
    report.add(&row("behind exact LRU", "points", Better::Low, lru_rate - hit_rate, behind));
    let written = part(ours.store_bytes, put_bytes);
    report.add(&row("written, own count", "per byte put", Better::Low, written, goal));
    for (what, bytes) in [("moved", ours.moved_bytes), ("checkpoints", ours.checkpoint_bytes)] {
        report.add(&row(what, "per byte put", Better::Low, part(bytes, put_bytes), None));
    }
    let written = part(ours.kernel_bytes, put_bytes);
    report.add(&row("written, kernel's count", "per byte put", Better::Low, written, goal));
    let used = part(ours.used_bytes_max, ours.limit_bytes);
    report.add(&row(
        "most bytes used",
        "of the limit",
        Better::Low,
        used,
        Some(Goal::AtMost(1.05)),
    ));
    let refused = as_f64(usize_of(ours.tally.refused));
    report.add(&row("refused", "values", Better::Low, refused, None));
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn run_trace(trace: &Trace, limit_bytes: u64, folder: &Path) -> Outcome<Run> {
    let core = open(folder, limit_bytes, Level::Process)?;
    let mut noise = vec![0; NOISE_BYTES];
    fastrand::Rng::with_seed(9).fill(&mut noise);
    let noise = Bytes::from(noise);
    let start_ms = crate::population::clock_ms();
    let kernel_start = kernel_bytes()?;
    let mut run = Run { limit_bytes, ..Run::default() };
    let mut since_round = 0;
    for request in &trace.requests {
        let TraceRequest { time_ms, operation, fingerprint, size_bytes } = *request;
        core.tick(start_ms + time_ms);
        let key = Key::blob(&digest(fingerprint, size_bytes));
        let is_there = core.contains(&key);
        if operation != TraceOperation::Put {
            run.tally.requests += 1;
            run.tally.hits += u64::from(is_there);
        }
        if is_there {
            continue;
        }
        match put(&core, key, size_bytes, &noise) {
            Ok(()) => run.tally.written_bytes += size_bytes,
            Err(StoreError::Full { .. } | StoreError::TooLarge { .. }) => run.tally.refused += 1,
            Err(error) => return Err(error.into()),
        }
        since_round += size_bytes;
        run.used_bytes_max = run.used_bytes_max.max(core.used_bytes());
        if since_round >= ROUND_BYTES {
            since_round = 0;
            while core.maintain()? {}
        }
    }
    let counts = core.counts();
    (run.moved_bytes, run.checkpoint_bytes) =
        (counts.moved_bytes_written, counts.checkpoint_bytes_written);
    run.store_bytes = counts.value_bytes_written + run.moved_bytes + run.checkpoint_bytes;
    run.kernel_bytes = kernel_bytes()? - kernel_start;
    Ok(run)
}

fn digest(fingerprint: u64, len: u64) -> Digest {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&fingerprint.to_le_bytes());
    Digest { function: DigestFunction::Sha256, hash, len }
}

fn put(core: &Core, key: Key, size: u64, noise: &Bytes) -> StoreResult<()> {
    let inline_max = core.options().inline_bytes_max as u64;
    let content = if size <= inline_max {
        Content::Bytes(noise.slice(..usize_of(size)))
    } else {
        let mut staged = core.stage(None)?;
        let mut left = usize_of(size);
        while left > 0 {
            let piece = &noise[..left.min(noise.len())];
            staged.write(piece)?;
            left -= piece.len();
        }
        Content::File(staged)
    };
    let op = Op::Put { key, form: 0, size, content };
    core.commit(vec![op]).pop().unwrap_or(Err(StoreError::Closed))
}

/// Bytes that this process caused to be written to disks.
fn kernel_bytes() -> Outcome<u64> {
    let counters = std::fs::read_to_string("/proc/self/io")?;
    let line = counters.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("the kernel does not count written bytes")?.parse()?)
}
