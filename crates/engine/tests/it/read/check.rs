//! When a read is verified, and how it reports that it is not.

use std::io::SeekFrom;

use tidegate::read::{ReadChannel, Verification, Verify};
use tidegate::{ErrorKind, Unverified};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer};
use tidegate_core::range::ByteRange;
use tidegate_testkit::{
    Blob, Checksums, Fault, Flavour, HttpDigests, Rule, ServerOptions, pseudo_random,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};

use super::{FACES, options, read};
use crate::bed::Bed;
use crate::call::ReadOptions;

const LEN: usize = 300_000;

async fn bed(options: ServerOptions, checksums: Checksums) -> Bed {
    let bytes = pseudo_random(LEN, 7);
    let blob = Blob::new(bytes.clone()).with_checksums(checksums);
    Bed::with(options, bytes, blob).await
}

/// Every server that keeps a checksum of the whole blob, and which checksum is compared.
fn keepers() -> Vec<(ServerOptions, ChecksumAlgorithm)> {
    let digests = HttpDigests { repr_digest: true, content_md5: false };
    let md5_only = HttpDigests { repr_digest: false, content_md5: true };
    vec![
        (ServerOptions::of(Flavour::Gcs), ChecksumAlgorithm::Crc32c),
        (ServerOptions::of(Flavour::S3), ChecksumAlgorithm::Crc64Nvme),
        (ServerOptions::of(Flavour::Azure), ChecksumAlgorithm::Md5),
        (ServerOptions { digests, ..ServerOptions::default() }, ChecksumAlgorithm::Sha256),
        (ServerOptions { digests: md5_only, ..ServerOptions::default() }, ChecksumAlgorithm::Md5),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_blob_is_verified() {
    for (server, algorithm) in keepers() {
        for face in FACES {
            let bed = bed(server.clone(), Checksums::Correct).await;
            let cut = Rule::new(Fault::CutAfter(70_000)).method("GET").times(3);
            bed.server.script().push(cut);
            let outcome = read(bed.location(), options(), face).await;
            outcome.result.unwrap();
            let expected = Checksummer::of(algorithm, &bed.bytes).unwrap();
            assert_eq!(outcome.verified, Verification::Verified(expected), "{face:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_reported_instead_of_the_end() {
    for (server, algorithm) in keepers() {
        for face in FACES {
            let bed = bed(server.clone(), Checksums::Wrong).await;
            let outcome = read(bed.location(), options(), face).await;
            let error = outcome.result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Integrity, "{algorithm:?} {face:?}: {error:?}");
            assert!(error.to_string().contains(algorithm.name()), "{error}");
            assert!(matches!(outcome.verified, Verification::Mismatch { .. }));
            assert!(outcome.content == bed.bytes, "{algorithm:?} {face:?}");
        }
        // The mismatch stays, whatever the caller reads afterwards.
        let bed = bed(server, Checksums::Wrong).await;
        let mut channel = crate::call::read(bed.location(), options());
        channel.read_exact(&mut vec![0; LEN]).await.unwrap();
        assert_eq!(channel.verified(), Verification::Pending);
        for _ in 0..3 {
            assert!(channel.read(&mut [0; 10]).await.is_err());
            assert_eq!(channel.next().await.unwrap_err().kind(), ErrorKind::Integrity);
            assert!(channel.fill_buf().await.is_err());
        }
        channel.seek(SeekFrom::Start(0)).await.unwrap();
        assert_eq!(channel.next().await.unwrap_err().kind(), ErrorKind::Integrity);
        assert_eq!(channel.capture().unwrap_err().kind(), ErrorKind::Integrity);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_blob_is_verified() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        for face in FACES {
            let bed = Bed::new(ServerOptions::of(flavour), 0).await;
            let outcome = read(bed.location(), options(), face).await;
            outcome.result.unwrap();
            assert!(outcome.content.is_empty());
            assert_eq!(outcome.verified.is_verified(), flavour != Flavour::Http, "{flavour:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checksum_given_by_hand_is_compared_everywhere() {
    let bed = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
    for algorithm in ChecksumAlgorithm::ALL {
        let Ok(right) = Checksummer::of(algorithm, &bed.bytes) else { continue };
        let verify = Verify::Against(right.clone());
        let outcome = read(bed.location(), ReadOptions { verify, ..options() }, FACES[0]).await;
        assert_eq!(outcome.verified, Verification::Verified(right));
        let wrong = Checksum::new(algorithm, &vec![7; algorithm.len_bytes()]).unwrap();
        let verify = Verify::Against(wrong);
        let outcome = read(bed.location(), ReadOptions { verify, ..options() }, FACES[0]).await;
        let error = outcome.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity);
        assert!(error.hint().unwrap().contains("given"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unverified_read_has_a_reason() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let why = |channel: &ReadChannel| match channel.verified() {
        Verification::Unverified(why) => Some(why),
        _ => None,
    };
    // The reason is known from the start, and is the same at the end.
    for range in [ByteRange::From(1), ByteRange::Bounded(0..1000), ByteRange::Last(9)] {
        let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
        channel.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(why(&channel), Some(Unverified::Partial));
    }
    let off = ReadOptions { verify: Verify::Off, ..options() };
    let mut channel = crate::call::read(bed.location(), off);
    assert_eq!(why(&channel), Some(Unverified::Off));
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(why(&channel), Some(Unverified::Off));
    // The same as soon as a seek leaves a gap.
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_exact(&mut [0; 100]).await.unwrap();
    assert_eq!(why(&channel), None);
    channel.seek(SeekFrom::Current(1)).await.unwrap();
    assert_eq!(why(&channel), Some(Unverified::Seek));
    channel.seek(SeekFrom::Current(-1)).await.unwrap();
    assert_eq!(why(&channel), None, "nothing was left out");
    channel.seek(SeekFrom::Current(1)).await.unwrap();
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(why(&channel), Some(Unverified::Seek));
    // Verification restarts at byte 0.
    channel.seek(SeekFrom::Start(0)).await.unwrap();
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(channel.verified().is_verified());
    // A part that is read again after that was not verified.
    channel.seek(SeekFrom::Start(7)).await.unwrap();
    channel.read_exact(&mut [0; 100]).await.unwrap();
    assert_eq!(why(&channel), Some(Unverified::Seek));

    let bed = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(why(&channel), Some(Unverified::NoChecksum));
    let bed = self::bed(ServerOptions::of(Flavour::S3), Checksums::Composite { parts: 3 }).await;
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(why(&channel).unwrap().to_string().contains("composite"));
}

/// A key may allow reads and refuse S3's checksum request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_checksum_request_costs_only_the_verification() {
    for budget_requests in [1, 8] {
        let bed = Bed::new(ServerOptions::of(Flavour::S3), LEN).await;
        bed.server.script().push(Rule::new(Fault::status(403)).method("HEAD").always());
        let limits = tidegate::budget::BudgetOptions { requests: budget_requests, bytes: 1 << 20 };
        let budget = tidegate::budget::Budget::new(limits);
        let options = ReadOptions { budget, ..options() };
        let mut channel = crate::call::read(bed.location(), options);
        let mut content = Vec::new();
        channel.read_to_end(&mut content).await.unwrap();
        assert!(content == bed.bytes);
        let Verification::Unverified(why) = channel.verified() else { panic!() };
        assert!(why.to_string().contains("could not be looked up"), "{why}");
        assert_eq!(bed.server.requests(), 2);
    }
}
