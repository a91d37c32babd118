//! What a download verifies, what it cannot verify, and that no wrong bytes get the target's name.

use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::{ErrorKind, Target, Verified};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer};
use tidegate_core::range::ByteRange;
use tidegate_testkit::{
    Blob, Checksums, Fault, Flavour, HttpDigests, Rule, ServerOptions, pseudo_random,
};

use crate::bed::Bed;
use crate::call::DownloadOptions;
use crate::trial::{KINDS, Kind, Trial};

const LEN: usize = 300_000;

fn options(window: u32) -> DownloadOptions {
    DownloadOptions {
        window: Some(window),
        durability: tidegate::Durability::None,
        ..Bed::options()
    }
}

async fn bed(options: ServerOptions, checksums: Checksums) -> Bed {
    let bytes = pseudo_random(LEN, 7);
    let blob = Blob::new(bytes.clone()).with_checksums(checksums);
    Bed::with(options, bytes, blob).await
}

fn digests() -> ServerOptions {
    let digests = HttpDigests { repr_digest: true, content_md5: false };
    ServerOptions { digests, ..ServerOptions::of(Flavour::Http) }
}

fn md5_only() -> ServerOptions {
    let digests = HttpDigests { repr_digest: false, content_md5: true };
    ServerOptions { digests, ..ServerOptions::of(Flavour::Http) }
}

/// Every server that keeps a checksum of the whole blob, and which checksum is compared.
fn keepers() -> Vec<(ServerOptions, ChecksumAlgorithm, &'static [u32])> {
    vec![
        (ServerOptions::of(Flavour::Gcs), ChecksumAlgorithm::Crc32c, &[1, 4]),
        (ServerOptions::of(Flavour::S3), ChecksumAlgorithm::Crc64Nvme, &[1, 4]),
        (ServerOptions::of(Flavour::Azure), ChecksumAlgorithm::Md5, &[1, 4]),
        (digests(), ChecksumAlgorithm::Sha256, &[1, 4]),
        // Content-MD5 covers the body, so it covers the blob only if the body is the whole blob.
        (md5_only(), ChecksumAlgorithm::Md5, &[1]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_remotes_checksum_is_compared() {
    for (server, algorithm, windows) in keepers() {
        for window in windows {
            for kind in KINDS {
                let bed = bed(server.clone(), Checksums::Correct).await;
                let trial = Trial::run(&bed, kind, &options(*window)).await;
                let label = format!("{:?} {algorithm:?} {window} {kind:?}", server.flavour);
                let report = trial.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                assert!(trial.content.is_none_or(|content| content == bed.bytes), "{label}");
                let expected = Checksummer::of(algorithm, &bed.bytes).unwrap();
                assert_eq!(report.verified.checksums(), [expected], "{label}");
                assert_eq!(report.verified.reason(), None, "{label}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_with_a_wrong_checksum_never_gets_the_targets_name() {
    for (server, algorithm, windows) in keepers() {
        for window in windows {
            for kind in KINDS {
                let bed = bed(server.clone(), Checksums::Wrong).await;
                let trial = Trial::run(&bed, kind, &options(*window)).await;
                let label = format!("{:?} {algorithm:?} {window} {kind:?}", server.flavour);
                trial.assert_fails(&bed, kind, ErrorKind::Integrity, &label);
                let message = trial.result.unwrap_err().to_string();
                assert!(message.contains("expected") && message.contains("got"), "{message}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_composite_checksum_verifies_nothing_and_the_report_says_why() {
    let bed = bed(ServerOptions::of(Flavour::S3), Checksums::Composite { parts: 3 }).await;
    for kind in KINDS {
        let trial = Trial::run(&bed, kind, &options(4)).await;
        let report = trial.result.unwrap();
        assert!(!report.is_verified());
        assert!(report.verified.reason().unwrap().to_string().contains("composite"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_composed_object_of_gcs_still_has_its_crc() {
    let bed = bed(ServerOptions::of(Flavour::Gcs), Checksums::Composite { parts: 3 }).await;
    let trial = Trial::run(&bed, Kind::File, &options(4)).await;
    assert!(trial.result.unwrap().is_verified());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_without_checksums_is_downloaded_and_the_report_says_so() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        let bed = bed(ServerOptions::of(flavour), Checksums::None).await;
        for kind in KINDS {
            let trial = Trial::run(&bed, kind, &options(4)).await;
            let report = trial.result.unwrap();
            assert!(!report.is_verified());
            assert!(
                report.verified.reason().unwrap().to_string().contains("no checksum"),
                "{flavour:?}"
            );
        }
    }
}

/// A key may allow reads and refuse S3's checksum request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_checksum_request_costs_only_the_verification() {
    for (fault, heads) in [
        (Fault::status(403), 1),
        (Fault::status(405), 1),
        (Fault::CloseBeforeFirstByte, 10),
        (Fault::status(503), 10),
    ] {
        let bed = bed(ServerOptions::of(Flavour::S3), Checksums::Correct).await;
        bed.server.script().push(Rule::new(fault.clone()).method("HEAD").always());
        for kind in KINDS {
            bed.server.clear_log();
            let trial = Trial::run(&bed, kind, &options(4)).await;
            let report = trial.result.unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
            assert!(trial.content.is_none_or(|content| content == bed.bytes));
            assert!(!report.is_verified());
            let why = report.verified.reason().unwrap();
            assert!(why.to_string().contains("could not be looked up"), "{why}");
            let asked = bed.server.log().iter().filter(|logged| logged.method == "HEAD").count();
            assert!(asked <= heads, "{fault:?}: {asked} times");
        }
    }
}

/// A throttled checksum request must not cost the verification.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_checksum_request_does_not_cost_the_verification() {
    for fault in [
        Fault::status(503),
        Fault::status_retry_after(503, "0"),
        Fault::status_retry_after(429, "0"),
        Fault::CloseBeforeFirstByte,
    ] {
        let bed = bed(ServerOptions::of(Flavour::S3), Checksums::Correct).await;
        bed.server.script().push(Rule::new(fault.clone()).method("HEAD").times(2));
        let trial = Trial::run(&bed, Kind::File, &options(4)).await;
        let report = trial.result.unwrap();
        assert!(report.is_verified(), "{fault:?}: {:?}", report.verified.reason());
    }
}

/// Checksums of the whole file that plain servers send in fields of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_older_servers_and_of_repositories_are_compared() {
    let bytes = pseudo_random(LEN, 7);
    let sum = |algorithm| Checksummer::of(algorithm, &bytes).unwrap();
    let (sha256, sha1) = (sum(ChecksumAlgorithm::Sha256), sum(ChecksumAlgorithm::Sha1));
    let md5 = sum(ChecksumAlgorithm::Md5);
    let wrong = "00".repeat(32);
    for (name, value, expected, window) in [
        ("X-Checksum-Sha256", sha256.hex(), Ok(&sha256), 4),
        ("X-Checksum-Sha1", sha1.hex().to_uppercase(), Ok(&sha1), 4),
        ("X-Checksum-Md5", md5.hex(), Ok(&md5), 4),
        ("Digest", format!("SHA-256={}", sha256.to_base64()), Ok(&sha256), 1),
        ("X-Checksum-Sha256", wrong, Err("damaged"), 4),
        // Of a part, these two cover the part at some servers.
        ("Digest", "SHA-256=kAFQmDzST7DWlj99KOF/cg==".to_owned(), Err("not verified"), 4),
        ("Content-MD5", "kAFQmDzST7DWlj99KOF/cg==".to_owned(), Err("not verified"), 4),
        ("X-Checksum-Sha256", "not hexadecimal".to_owned(), Err("not verified"), 4),
    ] {
        let blob = Blob::new(bytes.clone()).with_field(name, value.clone());
        let bed = Bed::with(ServerOptions::of(Flavour::Http), bytes.clone(), blob).await;
        let trial = Trial::run(&bed, Kind::File, &options(window)).await;
        let label = format!("{name}: {value}");
        match (expected, trial.result) {
            (Ok(sum), Ok(report)) => {
                assert_eq!(report.verified.checksums(), std::slice::from_ref(sum), "{label}");
            }
            (Err("not verified"), Ok(report)) => assert!(!report.is_verified(), "{label}"),
            (Err("damaged"), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Integrity, "{label}");
            }
            (_, other) => panic!("{label}: {other:?}"),
        }
    }
}

/// Hugging Face names the SHA-256 of a file in the redirect to its content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checksum_in_a_redirect_is_compared() {
    let bytes = pseudo_random(LEN, 7);
    let sha256 = Checksummer::of(ChecksumAlgorithm::Sha256, &bytes).unwrap();
    let git = "a9993e364706816aba3e25717850c26c9cd0d89d".to_owned();
    for (etag, is_verified, is_damaged) in
        [(sha256.hex(), true, false), ("00".repeat(32), false, true), (git, false, false)]
    {
        let bed = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
        bed.server.put("/content", Blob::new(bytes.clone()));
        let fault =
            Fault::LinkedRedirect { location: "/content".to_owned(), etag: format!("\"{etag}\"") };
        bed.server.script().push(Rule::new(fault).path(bed.path()).always());
        let trial = Trial::run(&bed, Kind::File, &options(4)).await;
        if is_damaged {
            trial.assert_fails(&bed, Kind::File, ErrorKind::Integrity, &etag);
            continue;
        }
        let report = trial.result.unwrap();
        assert_eq!(report.is_verified(), is_verified, "{etag}");
    }
}

/// A copy of a file has no checksum of a server, so the copy is read back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_local_file_is_read_back() {
    for len in [0, 1, LEN] {
        let bytes = pseudo_random(len, 7);
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        std::fs::write(&source, &bytes).unwrap();
        let location = crate::call::locate(source.to_str().unwrap(), RemoteOptions::default());
        let location = location.unwrap();
        for window in [1, 4] {
            let options = options(window);
            let to_file = crate::call::download(&location, Target::File(target.clone()), &options);
            let report = to_file.await.unwrap();
            let sum = Checksummer::of(ChecksumAlgorithm::Crc32c, &bytes).unwrap();
            assert_eq!(report.verified, Verified::ReadBack(sum), "{len} {window}");
            assert!(std::fs::read(&target).unwrap() == bytes);
            let to_memory = crate::call::download(&location, Target::Memory, &options);
            assert!(!to_memory.await.unwrap().is_verified(), "nothing was written");
            let expected = by_hand(&bytes);
            let options = DownloadOptions { expected: expected.clone(), ..options };
            let by_hand = crate::call::download(&location, Target::File(target.clone()), &options);
            assert_eq!(by_hand.await.unwrap().verified.checksums(), expected);
        }
    }
}

fn by_hand(bytes: &Bytes) -> Vec<Checksum> {
    [
        ChecksumAlgorithm::Sha256,
        ChecksumAlgorithm::Md5,
        ChecksumAlgorithm::Blake3,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme,
    ]
    .into_iter()
    .map(|algorithm| Checksummer::of(algorithm, bytes).unwrap())
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checksums_given_by_hand_are_verified_beside_the_remotes() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3] {
        let bed = bed(ServerOptions::of(flavour), Checksums::Correct).await;
        for kind in KINDS {
            for window in [1, 4] {
                let expected = by_hand(&bed.bytes);
                let options = DownloadOptions { expected: expected.clone(), ..options(window) };
                let trial = Trial::run(&bed, kind, &options).await;
                let report = trial.result.unwrap();
                assert!(trial.content.is_none_or(|content| content == bed.bytes));
                assert!(
                    expected.iter().all(|sum| report.verified.checksums().contains(sum)),
                    "{flavour:?}"
                );
                assert_eq!(report.verified.reason(), None);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_checksum_given_by_hand_fails_alone() {
    let bed = bed(ServerOptions::of(Flavour::Gcs), Checksums::Correct).await;
    for wrong in by_hand(&Bytes::from_static(b"something else")) {
        for kind in KINDS {
            let options = DownloadOptions { expected: vec![wrong.clone()], ..options(4) };
            let trial = Trial::run(&bed, kind, &options).await;
            let label = format!("{wrong} {kind:?}");
            trial.assert_fails(&bed, kind, ErrorKind::Integrity, &label);
            let message = trial.result.unwrap_err().to_string();
            assert!(message.contains(&wrong.to_string()), "{message}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_blob_is_verified_too() {
    for flavour in [Flavour::Gcs, Flavour::S3, Flavour::Http] {
        let bed = Bed::new(ServerOptions::of(flavour), 0).await;
        for kind in KINDS {
            for window in [1, 4] {
                let expected = by_hand(&bed.bytes);
                let options = DownloadOptions { expected, ..options(window) };
                let trial = Trial::run(&bed, kind, &options).await;
                let report = trial.result.unwrap();
                assert_eq!(report.bytes, 0);
                assert!(report.is_verified(), "{flavour:?}");
                let wrong = by_hand(&Bytes::from_static(b"not empty"));
                let options = DownloadOptions { expected: wrong, ..options };
                let trial = Trial::run(&bed, kind, &options).await;
                trial.assert_fails(&bed, kind, ErrorKind::Integrity, "empty");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_blob_is_delivered_and_reported_as_unverified() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        // Wrong checksums of the whole blob cannot refute a part.
        let bed = bed(ServerOptions::of(flavour), Checksums::Wrong).await;
        for (range, expected) in [
            (ByteRange::first(1), 0..1),
            (ByteRange::first(100_000), 0..100_000),
            (ByteRange::From(200_001), 200_001..LEN),
            (ByteRange::Bounded(65_535..131_073), 65_535..131_073),
            (ByteRange::Last(7), LEN - 7..LEN),
            (ByteRange::Last(200_000), LEN - 200_000..LEN),
            (ByteRange::Last(2 * LEN as u64), 0..LEN),
            (ByteRange::first(2 * LEN as u64), 0..LEN),
        ] {
            // Azure has no suffix ranges.
            if flavour == Flavour::Azure && matches!(range, ByteRange::Last(_)) {
                continue;
            }
            for kind in KINDS {
                for window in [1, 4] {
                    let range = Some(range.clone());
                    let options = DownloadOptions { range, ..options(window) };
                    let trial = Trial::run(&bed, kind, &options).await;
                    let label = format!("{flavour:?} {expected:?} {kind:?} {window}");
                    let report = trial.result.unwrap_or_else(|e| panic!("{label}: {e:?}"));
                    assert_eq!(report.bytes, expected.len() as u64, "{label}");
                    let content = trial.content.is_none_or(|c| c == bed.bytes[expected.clone()]);
                    assert!(content, "{label}: other content");
                    assert!(!report.is_verified(), "{label}");
                    assert!(
                        report.verified.reason().unwrap().to_string().contains("part"),
                        "{label}"
                    );
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_beyond_the_end_is_an_error_of_its_own() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        let bed = bed(ServerOptions::of(flavour), Checksums::Correct).await;
        for kind in KINDS {
            let range = Some(ByteRange::From(LEN as u64 + 1));
            let options = DownloadOptions { range, ..options(4) };
            let trial = Trial::run(&bed, kind, &options).await;
            trial.assert_fails(&bed, kind, ErrorKind::OutOfRange, &format!("{flavour:?}"));
            assert!(!trial.left_part);
        }
    }
}
