//! Composite checksums of S3: when they verify a blob, and when they leave it unverified.

use tidegate::budget::{Budget, BudgetOptions};
use tidegate::read::Verification;
use tidegate::{ErrorKind, Report, Unverified};
use tidegate_testkit::{
    Blob, Checksums, Fault, Flavour, Logged, PartsAlgorithm, Rule, ServerOptions, pseudo_random,
};
use tokio::io::AsyncReadExt as _;

use crate::bed::Bed;
use crate::call::{DownloadOptions, ReadOptions, read};
use crate::resume::{Place, cancel};
use crate::trial::{KINDS, Kind, Trial};

const LEN: usize = 300_000;

/// Five parts. The last is shorter, and no shard ends where a part ends.
const EQUAL: [u64; 5] = [70_000, 70_000, 70_000, 70_000, 20_000];

/// Three parts that look like equal ones of 100,000 bytes.
const LIKE_EQUAL: [u64; 3] = [100_000, 50_000, 150_000];

const COMPOSITES: [PartsAlgorithm; 4] =
    [PartsAlgorithm::Crc32, PartsAlgorithm::Crc32c, PartsAlgorithm::Sha1, PartsAlgorithm::Sha256];

fn options(window: u32) -> DownloadOptions {
    DownloadOptions {
        window: Some(window),
        durability: tidegate::Durability::None,
        ..Bed::options()
    }
}

async fn bed(sizes: &[u64], algorithm: PartsAlgorithm, checksums: Checksums) -> Bed {
    let bytes = pseudo_random(LEN, 7);
    let blob = Blob::new(bytes.clone()).with_checksums(checksums);
    let blob = blob.with_parts(sizes, algorithm).unwrap();
    Bed::with(ServerOptions::of(Flavour::S3), bytes, blob).await
}

fn heads(bed: &Bed) -> Vec<Logged> {
    bed.server.log().into_iter().filter(|logged| logged.method == "HEAD").collect()
}

/// What verified the blob, as a report names it; otherwise the reason.
fn outcome(report: &Report) -> String {
    match report.verified.parts_checksum() {
        Some(parts) => parts.to_string(),
        None => report.verified.reason().unwrap().to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_parts_are_verified_at_the_cost_of_one_request() {
    for (algorithm, name) in COMPOSITES.into_iter().zip(["crc32", "crc32c", "sha1", "sha256"]) {
        for window in [1, 4] {
            for kind in KINDS {
                let bed = bed(&EQUAL, algorithm, Checksums::Correct).await;
                let trial = Trial::run(&bed, kind, &options(window)).await;
                let label = format!("{algorithm:?} {window} {kind:?}");
                let report = trial.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                assert!(trial.content.is_none_or(|content| content == bed.bytes), "{label}");
                assert!(report.is_verified(), "{label}");
                assert_eq!(outcome(&report), format!("{name} of 5 parts"), "{label}");
                let heads = heads(&bed);
                assert_eq!(heads.len(), 2, "{label}");
                assert!(heads[1].path_and_query.ends_with("partNumber=1"), "{label}");
                assert!(heads[1].header("if-match").is_some(), "{label}: not pinned");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_part_needs_no_request_and_unequal_parts_need_one_each() {
    for (sizes, expected) in [
        (&[LEN as u64][..], 1),
        (&[200_000, 100_000], 2),
        (&[100_000, 200_000], 3),
        (&[70_000, 10_000, 130_000, 90_000], 5),
    ] {
        for algorithm in COMPOSITES {
            let bed = bed(sizes, algorithm, Checksums::Correct).await;
            let trial = Trial::run(&bed, Kind::File, &options(4)).await;
            let report = trial.result.unwrap();
            let parts = report.verified.parts_checksum().unwrap().parts;
            assert_eq!(parts as usize, sizes.len(), "{sizes:?} {algorithm:?}");
            assert_eq!(heads(&bed).len(), expected, "{sizes:?}");
        }
    }
}

/// One that shards combine, and one that is hashed in order.
const BOTH_WAYS: [PartsAlgorithm; 2] = [PartsAlgorithm::Crc32c, PartsAlgorithm::Sha256];

/// The size of the first part and the number of parts fit equal parts, but the parts are not equal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_only_look_equal_are_never_taken_for_damage() {
    for algorithm in BOTH_WAYS {
        for kind in KINDS {
            let bed = bed(&LIKE_EQUAL, algorithm, Checksums::Correct).await;
            let trial = Trial::run(&bed, kind, &options(4)).await;
            let label = format!("{algorithm:?} {kind:?}");
            let report = trial.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
            assert!(trial.content.is_none_or(|content| content == bed.bytes), "{label}");
            // What is kept can be read again; what was handed on cannot.
            let is_kept = matches!(kind, Kind::File | Kind::Memory);
            assert_eq!(report.is_verified(), is_kept, "{label}: {}", outcome(&report));
            assert_eq!(heads(&bed).len(), 2 + LIKE_EQUAL.len(), "{label}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_found() {
    for sizes in [&EQUAL[..], &[200_000, 100_000], &[100_000, 200_000], &LIKE_EQUAL] {
        for algorithm in BOTH_WAYS {
            for kind in KINDS {
                let bed = bed(sizes, algorithm, Checksums::Correct).await;
                let flip = Fault::FlipBit(LEN as u64 - 1);
                bed.server.script().push(Rule::new(flip).method("GET").always());
                let trial = Trial::run(&bed, kind, &options(4)).await;
                let label = format!("{sizes:?} {algorithm:?} {kind:?}");
                let is_gone = sizes == LIKE_EQUAL && matches!(kind, Kind::Writer | Kind::Discard);
                if is_gone {
                    assert!(!trial.result.unwrap().is_verified(), "{label}");
                    continue;
                }
                trial.assert_fails(&bed, kind, ErrorKind::Integrity, &label);
                let message = trial.result.unwrap_err().to_string();
                assert!(message.contains("parts, got"), "{message}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_tell_the_parts_costs_only_the_verification() {
    for (fault, says) in [
        (Fault::status(400), "400"),
        (Fault::status(403), "403"),
        (Fault::status(501), "501"),
        (Fault::NotSatisfiable, "range"),
        (Fault::WrongContentRange(tidegate_testkit::ContentRangeLie::Missing), "range"),
        (Fault::WrongContentRange(tidegate_testkit::ContentRangeLie::OtherTotal), "contradicts"),
    ] {
        for requests in [1, 8] {
            let bed = bed(&EQUAL, PartsAlgorithm::Crc32c, Checksums::Correct).await;
            bed.server.script().push(Rule::new(fault.clone()).method("HEAD").nth(2));
            let budget = Budget::new(BudgetOptions { requests, bytes: 32 << 20 });
            let options = DownloadOptions { budget, ..options(4) };
            let trial = Trial::run(&bed, Kind::File, &options).await;
            let report = trial.result.unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
            assert!(trial.content.unwrap() == bed.bytes);
            let Some(Unverified::PartSizes { reason, .. }) = report.verified.reason() else {
                panic!("{fault:?}: {:?}", report.verified)
            };
            assert!(reason.contains(says), "{fault:?}: {reason}");
        }
    }
}

/// A throttled request is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_request_for_a_part_is_repeated() {
    let bed = bed(&EQUAL, PartsAlgorithm::Crc32c, Checksums::Correct).await;
    bed.server.script().push(Rule::new(Fault::status(503)).method("HEAD").nth(2));
    let trial = Trial::run(&bed, Kind::File, &options(4)).await;
    assert!(trial.result.unwrap().is_verified());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_download_is_verified_by_all_parts() {
    for algorithm in COMPOSITES {
        let bytes = pseudo_random(crate::resume::LEN, 7);
        let sizes = [150_000; 7];
        let blob = Blob::new(bytes.clone()).with_parts(&sizes, algorithm).unwrap();
        let bed = Bed::with(ServerOptions::of(Flavour::S3), bytes, blob).await;
        let place = Place::new();
        let shard = 5 * crate::bed::SHARD_BYTES;
        let options = crate::resume::options;
        cancel(&bed, &bed.location(), &place, options(), (shard, 10_000)).await;
        let report = crate::call::download(&bed.location(), place.target(), &options()).await;
        let report = report.unwrap();
        assert!(report.resumed_bytes > 0);
        assert!(outcome(&report).ends_with("of 7 parts"), "{algorithm:?}: {}", outcome(&report));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_tag_is_compared_only_if_the_caller_wants_it() {
    let bytes = pseudo_random(LEN, 7);
    let blob = || Blob::new(bytes.clone()).with_checksums(Checksums::None);
    let parts = blob().with_parts(&EQUAL, PartsAlgorithm::Md5).unwrap();
    let single = blob().with_md5_etag().unwrap();
    // The testkit's own tags look like an MD5 and are none, as with keys of a key service.
    for (blob, verified) in [(parts, "md5 of 5 parts"), (single, "md5"), (blob(), "")] {
        for kind in KINDS {
            let server = ServerOptions::of(Flavour::S3);
            let bed = Bed::with(server, bytes.clone(), blob.clone()).await;
            let report = Trial::run(&bed, kind, &options(4)).await.result.unwrap();
            assert!(!report.is_verified());
            let options = DownloadOptions { entity_tag: Some(true), ..options(4) };
            let report = Trial::run(&bed, kind, &options).await.result.unwrap();
            match verified {
                "" => assert_eq!(report.verified.reason(), Some(&Unverified::EntityTagDiffers)),
                "md5" => assert_eq!(report.verified.checksums()[0].algorithm().name(), "md5"),
                parts => assert_eq!(outcome(&report), parts),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_verified_by_its_parts_too() {
    for algorithm in COMPOSITES {
        for (sizes, damaged, expected) in [
            (&EQUAL[..], false, "verified"),
            (&[200_000, 100_000], true, "damaged"),
            // With inferred sizes a mismatch proves nothing.
            (&EQUAL, true, "not verified"),
        ] {
            let bed = bed(sizes, algorithm, Checksums::Correct).await;
            if damaged {
                let flip = Rule::new(Fault::FlipBit(5)).method("GET").always();
                bed.server.script().push(flip);
            }
            let mut channel = read(bed.location(), ReadOptions::default());
            let ended = channel.read_to_end(&mut Vec::new()).await;
            let found = match channel.verified() {
                Verification::VerifiedByParts(parts) if ended.is_ok() => {
                    assert_eq!(parts.parts as usize, sizes.len());
                    "verified"
                }
                Verification::Mismatch { .. } if ended.is_err() => "damaged",
                Verification::Unverified(_) if ended.is_ok() => "not verified",
                other => panic!("{other:?} {ended:?}"),
            };
            assert_eq!(found, expected, "{algorithm:?} {sizes:?} {damaged}");
        }
    }
}
