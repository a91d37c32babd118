//! Many faults at once, chosen by seed: the bytes delivered are right.

use futures_util::future::join_all;
use tidegate::ErrorKind;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::SplitMix64;
use tidegate_testkit::reapi::{
    BatchLie, ChunkFunction, Code, Cut, GrpcStatus, HashFunction, ReapiFault, ReapiOptions,
    ReapiRule, Rpc, RpcLatency, SplicedAgain,
};
use tokio_util::sync::CancellationToken;

use super::bed::{BUDGET_BYTES, Bed, CUT, Way, blob, digest, in_time};
use crate::call::{ChunkedDownloadOptions, UploadOptions, client_with, upload};

const SEEDS: u64 = 24;

/// A transient fault, and the kind of call that it is for.
fn fault(random: &mut SplitMix64) -> (Option<Rpc>, ReapiFault) {
    let unavailable = || GrpcStatus::new(Code::Unavailable, "by seed");
    let bytes = random.below(3000);
    match random.below(14) {
        0 => (None, ReapiFault::Fail(unavailable())),
        1 => (None, ReapiFault::FailAfter(unavailable())),
        2 => (None, ReapiFault::Close),
        3 => (None, ReapiFault::GoAway),
        4 => (None, ReapiFault::Reset(2)),
        5 => (None, ReapiFault::Delay(random.below(20))),
        6 => (None, ReapiFault::AnswerLost),
        7 => (Some(Rpc::Read), ReapiFault::CutAfter { bytes, cut: Cut::Close }),
        8 => (Some(Rpc::Read), ReapiFault::CutAfter { bytes, cut: Cut::End }),
        9 => (Some(Rpc::Read), ReapiFault::CutAfter { bytes, cut: Cut::Reset(8) }),
        10 => (Some(Rpc::Write), ReapiFault::CutAfter { bytes, cut: Cut::Status(unavailable()) }),
        11 => (Some(Rpc::BatchRead), ReapiFault::Batch(BatchLie::FailFirst(unavailable()))),
        12 => (Some(Rpc::BatchUpdate), ReapiFault::Batch(BatchLie::FailFirst(unavailable()))),
        _ => {
            let quota = GrpcStatus::new(Code::ResourceExhausted, "by seed");
            (None, ReapiFault::Fail(quota.retry_after_ms(1)))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_with_random_faults_deliver_the_right_bytes() {
    for seed in 0..SEEDS {
        let mut random = SplitMix64::new(seed);
        let way = Way::ALL[usize::from(random.below(2) == 0)];
        let function =
            [HashFunction::Sha256, HashFunction::Blake3][usize::from(random.below(2) == 0)];
        let rep_max = ChunkFunction::RepMaxCdc { min_bytes: 700, horizon_bytes: 3000 };
        let cut = [CUT, rep_max][usize::from(random.below(2) == 0)];
        let options = ReapiOptions {
            hash_functions: vec![function],
            chunk_functions: vec![cut],
            latency: RpcLatency { mean_ms: 2, jitter_ms: 2 },
            zstd: random.below(2) == 0,
            spliced_again: [SplicedAgain::AlreadyExists, SplicedAgain::Extended]
                [usize::from(random.below(2) == 0)],
            seed,
            ..way.options()
        };
        let bed = Bed::new(options).await;
        for _ in 0..4 {
            let (rpc, fault) = fault(&mut random);
            let mut rule = ReapiRule::new(fault).times(5).chance(seed, 0.3);
            if let Some(rpc) = rpc {
                rule = rule.rpc(rpc);
            }
            bed.server.script().push(rule);
        }
        let retry = RetryPolicy { attempts_max: 30, ..Bed::impatient() };
        let data = blob(seed);
        let options = UploadOptions { retry: retry.clone(), ..bed.up() };
        let uploaded = bed.upload(&data, &options).await;
        uploaded.unwrap_or_else(|error| panic!("seed {seed}: up: {error:?}"));
        let options = ChunkedDownloadOptions { retry, ..bed.down() };
        let downloaded = bed.download(&function.name(&data), &options).await;
        downloaded.unwrap_or_else(|error| panic!("seed {seed}: down: {error:?}"));
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "seed {seed}");
    }
}

/// Uploads that share chunks, with a budget too small for any two of them. Some are cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_uploads_with_random_faults_end_with_the_smallest_budget() {
    for seed in 0..SEEDS {
        let mut random = SplitMix64::new(seed);
        let way = Way::ALL[usize::from(random.below(2) == 0)];
        let bed = Bed::new(ReapiOptions { seed, ..way.options() }).await;
        for _ in 0..4 {
            let (rpc, fault) = fault(&mut random);
            let mut rule = ReapiRule::new(fault).times(10).chance(seed, 0.2);
            if let Some(rpc) = rpc {
                rule = rule.rpc(rpc);
            }
            bed.server.script().push(rule);
        }
        let requests = [1, 2, 3][usize::try_from(random.below(3)).unwrap()];
        let bytes = [4096, 16 << 10, BUDGET_BYTES][usize::try_from(random.below(3)).unwrap()];
        let budget = Budget::new(BudgetOptions { requests, bytes });
        let retry = RetryPolicy { attempts_max: 60, ..Bed::impatient() };
        let client = client_with(&budget);
        let uploads = (0..8_u64).map(|index| {
            // The first half is the same for all.
            let data =
                [blob(seed).slice(..40 << 10), blob(1000 + index).slice(..40 << 10)].concat();
            let path = bed.file(&index.to_string(), &data);
            let cancel = CancellationToken::new();
            let options = UploadOptions {
                digest: random.below(2).eq(&0).then(|| digest(&HashFunction::Sha256.name(&data))),
                retry: retry.clone(),
                client: client.clone(),
                cancel: cancel.clone(),
                ..bed.up()
            };
            let after = (random.below(3) == 0).then(|| random.below(30));
            let (store, server) = (&bed.store, &bed.server);
            async move {
                let ending = async {
                    if let Some(calls) = after {
                        server.counted(|counts| counts.total.arrived as u64 > calls).await;
                        cancel.cancel();
                    }
                };
                let (outcome, ()) = tokio::join!(in_time(upload(store, &path, &options)), ending);
                match outcome {
                    Ok(_) => assert!(server.contains(&HashFunction::Sha256.name(&data))),
                    Err(error) => {
                        let ended = after.is_some() && error.kind() == ErrorKind::Cancelled;
                        assert!(ended, "seed {seed}: {}", error.chain());
                    }
                }
            }
        });
        join_all(uploads).await;
        bed.settled().await;
        in_time(async {
            while budget.held_bytes() > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        })
        .await;
        assert!(budget.held_bytes_peak() <= bytes);
    }
}
