//! Measures how fast messages are hashed in parallel, compared with one after another in the same
//! run, in bytes per CPU second.
//!
//! `cargo bench -p tidegate-core --bench sha256 [-- KIB]`, with the length of each message. The
//! candidates take turns, and the best of five runs counts. As a test it hashes each number of
//! messages once.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tidegate_core::sha256::hash_all;
use tidegate_core::{Digest, DigestFunction};

const ROUNDS: usize = 5;
const COUNTS: [usize; 7] = [1, 2, 4, 8, 9, 12, 16];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let kib: usize = args.first().and_then(|kib| kib.parse().ok()).unwrap_or(64);
    let len = kib << 10;
    let (rounds, bytes) = if is_bench { (ROUNDS, 512 << 20) } else { (1, len) };
    let noise: Vec<u8> =
        (0..COUNTS[6] * len).map(|n| (n.wrapping_mul(104_729) >> 7).to_le_bytes()[0]).collect();
    let mut best = [Duration::MAX; COUNTS.len() + 1];
    for _ in 0..rounds {
        best[0] = best[0].min(timed(bytes / len, || {
            black_box(Digest::of(DigestFunction::Sha256, black_box(&noise[..len])));
        }));
        for (best, count) in best[1..].iter_mut().zip(COUNTS) {
            let messages: Vec<&[u8]> = noise.chunks(len).take(count).collect();
            *best = (*best).min(timed(bytes.div_ceil(len * count), || {
                black_box(hash_all(black_box(&messages)));
            }));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let rate = |best: Duration, count: usize| {
        (bytes.div_ceil(len * count) * len * count) as f64 / best.as_secs_f64() / 1e9
    };
    let alone = rate(best[0], 1);
    println!("one after the other      {alone:>6.2} GB/s");
    for (best, count) in best[1..].iter().zip(COUNTS) {
        let side_by_side = rate(*best, count);
        println!("{count:>2} side by side {side_by_side:>13.2} GB/s {:>6.2}", side_by_side / alone);
    }
}

fn timed(times: usize, mut work: impl FnMut()) -> Duration {
    let cpu = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let before = cpu();
    for _ in 0..times {
        work();
    }
    cpu().saturating_sub(before)
}
