//! How fast a file is cut and digested on all cores, compared with the speed at which the same
//! cores hash in memory, in one run.
//!
//! `cargo bench -p tidegate --bench cut_file [-- MIB]`. The file is in the page cache. The two run
//! in turns, and the best of five counts. It reports wall time, for a machine that does nothing
//! else, and bytes a CPU second, for a busy one. As a test it cuts 8 MiB once.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tidegate::Budget;
use tidegate::chunked::{CutOptions, cut_file};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::{Digest, DigestFunction};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 5;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let mib: u64 = args.first().and_then(|mib| mib.parse().ok()).unwrap_or(512);
    let (len, rounds) = if is_bench { (mib << 20, ROUNDS) } else { (8 << 20, 1) };
    let mut file = tempfile::tempfile()?;
    for block in 0..len / (1 << 20) {
        file.write_all(&noise(block, 1 << 20))?;
    }
    let file = Arc::new(file);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let fast_cdc = Chunking::FastCdc2020(FastCdc2020Params::new(512 << 10, 0)?);
    let rep_max_cdc = Chunking::RepMaxCdc(RepMaxCdcParams::new(256 << 10, 2 << 20)?);
    for function in [DigestFunction::Sha256, DigestFunction::Blake3] {
        let mut best = [Time { clock: Duration::MAX, cpu: Duration::MAX }; 4];
        for _ in 0..rounds {
            let cases = [
                timed(|| {
                    in_memory(function, len);
                    Ok(())
                })?,
                timed(|| runtime.block_on(cut(&file, len, function, fast_cdc, false)))?,
                timed(|| runtime.block_on(cut(&file, len, function, rep_max_cdc, false)))?,
                timed(|| runtime.block_on(cut(&file, len, function, fast_cdc, true)))?,
            ];
            best = std::array::from_fn(|case| best[case].min(cases[case]));
        }
        let names = ["all cores in memory", "FastCDC 2020", "RepMaxCDC", "FastCDC 2020, whole too"];
        println!("{:<35} {:>12} {:>18}", "", "by the clock", "a CPU second");
        for (name, time) in names.iter().zip(best) {
            let (clock, clock_share) = rate(len, time.clock, best[0].clock);
            let (cpu, cpu_share) = rate(len, time.cpu, best[0].cpu);
            println!(
                "{function:<8} {name:<26} {clock:>6.2} {clock_share:>5.0} %  {cpu:>6.2} GB/s {cpu_share:>5.0} %"
            );
        }
    }
    Ok(())
}

/// Time of one measurement.
#[derive(Clone, Copy)]
struct Time {
    clock: Duration,
    cpu: Duration,
}

impl Time {
    fn min(self, other: Self) -> Self {
        Self { clock: self.clock.min(other.clock), cpu: self.cpu.min(other.cpu) }
    }
}

/// In GB/s, and in per cent of `whole`.
fn rate(len: u64, time: Duration, whole: Duration) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let rate = len as f64 / time.as_secs_f64() / 1e9;
    (rate, 100.0 * whole.as_secs_f64() / time.as_secs_f64())
}

fn timed(work: impl FnOnce() -> Result<(), Error>) -> Result<Time, Error> {
    let cpu = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let (begun, cpu_before) = (Instant::now(), cpu());
    work()?;
    Ok(Time { clock: begun.elapsed(), cpu: cpu().saturating_sub(cpu_before) })
}

/// Hashes `len` bytes, a share on each core, from its own cache.
fn in_memory(function: DigestFunction, len: u64) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let block = noise(1, 256 << 10);
    let rounds = len / block.len() as u64 / cores as u64;
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                for _ in 0..rounds {
                    black_box(Digest::of(function, black_box(&block)));
                }
            });
        }
    });
}

async fn cut(
    file: &Arc<File>,
    len: u64,
    digest_function: DigestFunction,
    chunking: Chunking,
    whole: bool,
) -> Result<(), Error> {
    let options = CutOptions {
        chunking,
        digest_function,
        whole,
        len,
        name: "a file".to_owned(),
        budget: Budget::default(),
        cancel: CancellationToken::new(),
    };
    let mut stream = cut_file(Arc::clone(file), options);
    while let Some(chunk) = stream.next().await {
        black_box(chunk?);
    }
    black_box(stream.finish().await?);
    Ok(())
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed << 32;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).to_le_bytes()
    });
    words.take(len / 8).flatten().collect()
}
