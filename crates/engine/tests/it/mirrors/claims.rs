//! Mirrors whose descriptions contradict each other.

use tidegate::{ErrorKind, Target};
use tidegate_testkit::{Blob, pseudo_random};

use super::*;

async fn of_seed(flavour: Flavour, len: usize, seed: u64) -> Bed {
    let bytes = pseudo_random(len, seed);
    Bed::with(ServerOptions::of(flavour), bytes.clone(), Blob::new(bytes)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_of_another_length_is_refused_by_name() {
    let one = bed().await;
    let longer = of_seed(Flavour::Http, LEN + 1, 7).await;
    let report = fetch(&one, Target::Memory, &options(&one, &[&longer])).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    let refused = of(&report, &longer);
    assert_eq!(refused.bytes, 0);
    let why = refused.unused.as_ref().unwrap();
    assert!(why.contains("1000001 bytes") && why.contains("1000000 bytes"), "{why}");
    assert!(data_requests(&longer).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_place_of_another_length_than_all_others_is_refused() {
    let (two, three) = (bed().await, bed().await);
    let shorter = of_seed(Flavour::Http, LEN / 2, 7).await;
    let options = options(&two, &[&two, &three]);
    let report = fetch(&shorter, Target::Memory, &options).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == two.bytes);
    assert_eq!(of(&report, &shorter).bytes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_mirrors_with_different_checksums_are_an_error_that_names_both() {
    let one = of_seed(Flavour::Gcs, LEN, 1).await;
    let two = of_seed(Flavour::S3, LEN, 2).await;
    let place = crate::resume::Place::new();
    // They have one kind of checksum in common: Google Cloud Storage stores a CRC32C.
    let third = of_seed(Flavour::Gcs, LEN, 3).await;
    let error = fetch(&one, place.target(), &without_checksum(&[&third])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");
    assert!(error.to_string().matches("gs://bucket/blob").count() == 2, "{error}");
    assert_eq!(std::fs::read(&place.target).unwrap(), b"what was there before");
    // Without one in common, the checksum of the first decides at the end.
    let error = fetch(&one, place.target(), &without_checksum(&[&two])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");
    assert!(error.to_string().contains("s3://bucket/blob"), "{error}");
    assert_eq!(std::fs::read(&place.target).unwrap(), b"what was there before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checksum_of_most_mirrors_wins() {
    let odd = of_seed(Flavour::Gcs, LEN, 1).await;
    let (two, three) = (of_seed(Flavour::Gcs, LEN, 2).await, of_seed(Flavour::Gcs, LEN, 2).await);
    let options = without_checksum(&[&two, &three]);
    let report = fetch(&odd, Target::Memory, &options).await.unwrap();
    assert!(report.is_verified());
    assert!(*report.memory.as_ref().unwrap() == two.bytes);
    assert!(report.mirrors[0].unused.is_some() && report.mirrors[0].bytes == 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_expected_checksum_decides_which_mirror_is_used() {
    let one = of_seed(Flavour::Gcs, LEN, 1).await;
    let two = of_seed(Flavour::Gcs, LEN, 2).await;
    let crc32c = Checksummer::of(ChecksumAlgorithm::Crc32c, &two.bytes).unwrap();
    let options = DownloadOptions { expected: vec![crc32c], ..without_checksum(&[&two]) };
    let report = fetch(&one, Target::Memory, &options).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == two.bytes);
    assert_eq!((report.mirrors[0].bytes, report.mirrors[1].bytes), (0, LEN as u64));
}
