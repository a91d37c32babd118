//! Several mirrors of one blob: shards are spread over them, a mirror that fails is dropped, and the
//! checksum of the whole decides.

mod claims;
mod failures;
mod reserve;
mod resume;

use tidegate::{MirrorReport, Report, Target};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer};
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{Fault, Flavour, Logged, RangeMatch, Rule, ServerOptions};

use crate::bed::{Bed, SHARD_BYTES};
use crate::call::{DownloadOptions, download};
use crate::trial::{KINDS, Kind, Trial, within};

/// Sixteen shards, the last one shorter.
const LEN: usize = 1_000_000;

async fn bed() -> Bed {
    Bed::new(ServerOptions::default(), LEN).await
}

fn sha256(bytes: &[u8]) -> Checksum {
    Checksummer::of(ChecksumAlgorithm::Sha256, bytes).unwrap()
}

/// A download with these mirrors in addition to the first place. The SHA-256 is expected.
fn options(first: &Bed, mirrors: &[&Bed]) -> DownloadOptions {
    DownloadOptions { expected: vec![sha256(&first.bytes)], ..without_checksum(mirrors) }
}

fn without_checksum(mirrors: &[&Bed]) -> DownloadOptions {
    let options = Bed::options();
    DownloadOptions {
        mirrors: mirrors.iter().map(|bed| bed.location()).collect(),
        durability: tidegate::Durability::None,
        retry: RetryPolicy {
            attempts_max: 3,
            stall_ms_max: 150,
            header_ms_max: 1000,
            ..options.retry
        },
        ..options
    }
}

async fn fetch(first: &Bed, target: Target, options: &DownloadOptions) -> tidegate::Result<Report> {
    within(download(&first.location(), target, options)).await
}

/// Requests for more than the first byte, which is how a mirror is asked for its description.
fn data_requests(bed: &Bed) -> Vec<Logged> {
    let log = bed.server.log();
    log.into_iter().filter(|logged| logged.range.as_deref() != Some("bytes=0-0")).collect()
}

/// The report of the mirror `bed`.
fn of<'a>(report: &'a Report, bed: &Bed) -> &'a MirrorReport {
    let location = bed.location();
    let mut mirrors = report.mirrors.iter();
    mirrors.find(|mirror| mirror.location == location.display()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_are_spread_over_the_mirrors_into_every_target() {
    for kind in KINDS {
        let (one, two) = (bed().await, bed().await);
        let options = options(&one, &[&two]);
        let trial = Trial::run(&one, kind, &options).await;
        within(two.server.idle()).await;
        let report = trial.result.as_ref().unwrap();
        assert!(report.is_verified(), "{kind:?}");
        if let Some(content) = &trial.content {
            assert!(*content == one.bytes, "{kind:?}");
        }
        let (first, second) = (of(report, &one), of(report, &two));
        assert!(first.bytes >= SHARD_BYTES && second.bytes >= SHARD_BYTES, "{kind:?} {report:?}");
        assert_eq!(first.bytes + second.bytes, LEN as u64, "{kind:?}");
        assert_eq!((&first.unused, &second.unused), (&None, &None), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_is_asked_for_its_description_once() {
    let (one, two) = (bed().await, bed().await);
    fetch(&one, Target::Memory, &options(&one, &[&two])).await.unwrap();
    let is_question = |logged: &&Logged| logged.range.as_deref() == Some("bytes=0-0");
    assert_eq!(two.server.log().iter().filter(is_question).count(), 1);
    assert_eq!(one.server.log().iter().filter(is_question).count(), 0, "the first shard tells");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_may_be_remotes_of_different_schemes() {
    let one = bed().await;
    let s3 = Bed::new(ServerOptions::of(Flavour::S3), LEN).await;
    let gcs = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    // S3 and Google Cloud Storage declare checksums, so none has to be given.
    let report = fetch(&one, Target::Memory, &without_checksum(&[&s3, &gcs])).await.unwrap();
    assert!(report.is_verified(), "{report:?}");
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    for bed in [&one, &s3, &gcs] {
        assert!(of(&report, bed).bytes > 0, "{:?}", report.mirrors);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_in_flight_is_enough() {
    let (one, two) = (bed().await, bed().await);
    let budget = tidegate::Budget::new(tidegate::BudgetOptions { requests: 1, bytes: 32 << 20 });
    let options = DownloadOptions { budget, ..options(&one, &[&two]) };
    let report = fetch(&one, Target::Memory, &options).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_shard_in_flight_the_second_mirror_takes_over() {
    let (one, two) = (bed().await, bed().await);
    let cut = Rule::new(Fault::ResetAfter(3 * SHARD_BYTES)).range(RangeMatch::StartsAt(0));
    one.server.script().push(cut);
    one.server.script().push(Rule::new(Fault::status(503)).always());
    let options = DownloadOptions { window: Some(1), ..options(&one, &[&two]) };
    let report = fetch(&one, Target::Memory, &options).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    assert_eq!(of(&report, &one).bytes + of(&report, &two).bytes, LEN as u64);
}
