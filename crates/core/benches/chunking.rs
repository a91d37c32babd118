//! Measures how fast blobs are cut, compared with the `fastcdc` crate in the same run, in bytes per
//! CPU second.
//!
//! `cargo bench -p tidegate-core --bench chunking [-- MIB]`. The candidates take turns and the best
//! of five runs counts, so other load on the machine matters little. As a test it cuts 4 MiB once.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams, cuts};

const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let mib = args.first().and_then(|mib| mib.parse().ok()).unwrap_or(512);
    let blob = noise(if is_bench { mib << 20 } else { 4 << 20 });
    let rounds = if is_bench { ROUNDS } else { 1 };
    let mut runs = runs();
    for _ in 0..rounds {
        for run in &mut runs {
            let before = cpu();
            run.chunks = (run.cut)(&blob);
            run.best = run.best.min(cpu().saturating_sub(before));
        }
    }
    println!("{:<34} {:>8} {:>8}  chunks", "", "GB/s", "ratio");
    let mut peer = f64::NAN;
    for run in &runs {
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let rate = blob.len() as f64 / run.best.as_secs_f64() / 1e9;
        if run.is_peer {
            peer = rate;
        }
        println!("{:<34} {rate:>8.2} {:>8.2}  {}", run.name, rate / peer, run.chunks);
    }
}

/// Cuts the bytes and returns the number of chunks.
type Cut = Box<dyn Fn(&[u8]) -> usize>;

/// One way to cut, and its result.
struct Run {
    name: String,
    is_peer: bool,
    cut: Cut,
    best: Duration,
    chunks: usize,
}

impl Run {
    fn new(name: String, is_peer: bool, cut: impl Fn(&[u8]) -> usize + 'static) -> Self {
        Self { name, is_peer, cut: Box::new(cut), best: Duration::MAX, chunks: 0 }
    }
}

/// Each peer comes before ours.
fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for avg in [512 << 10, 64 << 10, 8 << 10, 1 << 10] {
        let kib = avg >> 10;
        runs.push(Run::new(format!("fastcdc crate, {kib} KiB"), true, move |blob| {
            let level = fastcdc::v2020::Normalization::Level2;
            fastcdc::v2020::FastCDC::with_level(blob, avg / 4, avg, avg * 4, level)
                .fold(0, |count, chunk| count + usize::from(black_box(chunk.length) > 0))
        }));
        let Ok(params) = FastCdc2020Params::new(avg as u64, 0) else { continue };
        runs.push(ours(format!("FastCDC 2020, {kib} KiB"), Chunking::FastCdc2020(params)));
    }
    if let Ok(params) = RepMaxCdcParams::new(256 << 10, 2 << 20) {
        runs.push(ours("RepMaxCDC, 256 KiB / 2 MiB".to_owned(), Chunking::RepMaxCdc(params)));
    }
    runs
}

fn ours(name: String, chunking: Chunking) -> Run {
    Run::new(name, false, move |blob| {
        cuts(&chunking, blob).fold(0, |count, len| count + usize::from(black_box(len) > 0))
    })
}

/// The CPU time of this thread, so that other threads do not count.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).to_le_bytes()
    });
    words.take(len / 8).flatten().collect()
}
