//! Random rounds: blobs, stores, faults, targets and budgets of all kinds. After every round:
//!
//! - The bytes delivered are right, and the old file stays until the new one is complete.
//! - Nothing is in flight after the return, and no bytes are held.
//! - The next attempt, without faults, succeeds.

use std::fs;
use std::time::Duration;

use tidegate::chunked::BatchLimits;
use tidegate::{ErrorKind, Report, Result, Target};
use tidegate_core::window::WindowOptions;
use tidegate_testkit::SplitMix64;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, FakeStore, Fault};

const ROUNDS: u64 = 150;

/// The random choices of one round.
struct Dice(SplitMix64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    fn store(&mut self) -> FakeStore {
        let limits = BatchLimits {
            bytes_max: self.one_of(&[30_000, 300_000, 4 << 20]),
            count_max: self.one_of(&[1, 5, 1000]),
            overhead_bytes: 100,
        };
        let (batch, can_split) = (self.below(4) > 0, self.below(6) > 0);
        FakeStore::new().with_profile(|profile| {
            profile.batch = batch.then_some(limits);
            profile.can_split = can_split;
        })
    }

    fn bed(&mut self) -> Bed {
        let count = self.one_of(&[0, 1, 2, 10, 60]);
        // Few seeds, so that some chunks recur.
        let kinds = (0..count).map(|_| {
            let seed = self.below(40);
            (len(seed), seed)
        });
        let kinds: Vec<_> = kinds.collect();
        let mut bed = Bed::on(self.store(), chunks(kinds)).with_budget(
            self.one_of(&[4096, 100_000, 1 << 20, 64 << 20]),
            self.one_of(&[1, 3, 64]),
        );
        bed.options.window =
            WindowOptions { start: self.one_of(&[1, 4, 16]), ..WindowOptions::default() };
        bed.options.retry.attempts_max = 4;
        bed.options.whole_fallback = self.below(3) > 0;
        bed
    }

    fn script(&mut self, bed: &Bed) {
        let severity = self.one_of(&[0, 5, 30]);
        let hard = self.below(3) == 0;
        let salt = self.below(u64::MAX);
        bed.store.script(move |call, digest, nth| {
            let key =
                digest.map_or(salt, |one| u64::from(one.hash[0]) << 8 | u64::from(one.hash[1]));
            let mut dice =
                SplitMix64::new(salt ^ key.wrapping_mul(0x9e37_79b9) ^ (nth as u64) << 40);
            let delay = Duration::from_millis(dice.below(30));
            if dice.below(100) >= severity {
                return Act { delay, ..Act::default() };
            }
            let cut = usize::try_from(dice.below(200_000)).unwrap();
            let soft = [Fault::Broken, Fault::CutAfter(cut), Fault::EndAfter(cut), Fault::Hang];
            let all = [Fault::Refused, Fault::Missing, Fault::Flipped];
            let fault = match usize::try_from(dice.below(7)).unwrap() {
                index @ 0..4 => soft[index].clone(),
                index if hard => all[index - 4].clone(),
                _ => Fault::None,
            };
            // A batch cannot hang for a single chunk.
            let fault = match (call, fault) {
                (Call::Profile | Call::Manifest, _) | (Call::Batch { .. }, Fault::Hang) => {
                    Fault::None
                }
                (_, fault) => fault,
            };
            Act { delay, fault, ..Act::default() }
        });
    }
}

/// Equal seeds must have equal lengths.
fn len(seed: u64) -> usize {
    [1, 100, 900, 5_000, 40_000, 130_000, 400_000, 1_500_000][usize::try_from(seed % 8).unwrap()]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Writer,
    Buffer,
    Memory,
    Discard,
}

const KINDS: [Kind; 5] = [Kind::File, Kind::Writer, Kind::Buffer, Kind::Memory, Kind::Discard];

/// Downloads, and checks the target's bytes.
async fn attempt(bed: &Bed, kind: Kind) -> Result<Report> {
    match kind {
        Kind::File => {
            fs::write(bed.path(), "old").unwrap();
            let outcome = bed.to_file().await;
            if outcome.is_err() {
                assert_eq!(fs::read(bed.path()).unwrap(), b"old");
            }
            outcome
        }
        Kind::Writer => {
            let (outcome, given) = bed.to_writer().await;
            match &outcome {
                Ok(_) => assert!(given == bed.content()),
                Err(error) if error.kind() == ErrorKind::Integrity => {}
                Err(_) => assert!(bed.content().starts_with(&given)),
            }
            outcome
        }
        Kind::Buffer => {
            let (outcome, buffer) = bed.to_buffer().await;
            if let Ok(report) = &outcome {
                assert!(report.memory.as_ref().unwrap() == &bed.content());
                assert_eq!(buffer.total(), Some(bed.blob.len));
            }
            outcome
        }
        Kind::Memory => {
            let outcome = bed.run(Target::Memory).await;
            if let Ok(report) = &outcome {
                assert!(report.memory.as_ref().unwrap() == &bed.content());
            }
            outcome
        }
        Kind::Discard => bed.run(Target::Discard).await,
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::print_stderr, reason = "a failure prints its round")]
async fn whatever_happens_what_is_delivered_is_right() {
    let (mut done, mut failed) = (0, 0);
    for round in 0..ROUNDS {
        let mut dice = Dice(SplitMix64::new(round));
        let mut bed = dice.bed();
        let kind = dice.one_of(&KINDS);
        dice.script(&bed);
        eprintln!(
            "round {round}: {kind:?}, {} bytes, {:?}",
            bed.blob.len,
            bed.options.client.budget()
        );
        match attempt(&bed, kind).await {
            Ok(_) => done += 1,
            Err(error) => {
                eprintln!("  {}", error.chain());
                failed += 1;
            }
        }
        assert!(
            bed.options.client.budget().held_bytes_peak()
                <= bed.options.client.budget().limits().bytes
        );
        bed.store.script(|_, _, _| Act::default());
        // A fresh log, so that the counts of attempts restart.
        bed.store.forget();
        bed.options.whole_fallback = true;
        match attempt(&bed, kind).await {
            Ok(report) => assert_eq!(report.totals.bytes_wasted, 0),
            Err(error) => {
                let too_large = bed.blob.len > bed.options.client.budget().limits().bytes;
                assert!(kind == Kind::Memory && too_large, "{}", error.chain());
            }
        }
    }
    assert!(done > ROUNDS / 4 && failed > ROUNDS / 20, "{done} done, {failed} failed");
}
