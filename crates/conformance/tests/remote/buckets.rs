//! The suites of writers on the testkit's servers of S3, Google and Azure.

use tidegate_conformance::remote::every_suite;
use tidegate_testkit::{CompleteAgain, Flavour, WriteChecksums, WriteOptions};

use crate::bucket::Bucket;

/// Runs all suites on an empty bucket.
async fn conforms(flavour: Flavour, writes: WriteOptions) {
    let bucket = Bucket::start(flavour, writes).await;
    every_suite(&bucket).await.assert_kept(&format!("{flavour:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_writes_as_every_remote() {
    conforms(Flavour::S3, WriteOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_of_another_maker_writes_as_every_remote() {
    let writes = WriteOptions {
        complete_again: CompleteAgain::NoSuchUpload,
        checksum_code: "XAmzContentChecksumMismatch",
        uploads_listed_by_whole_key: true,
        page_len: 3,
        ..WriteOptions::default()
    };
    conforms(Flavour::S3, writes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_without_its_checksums_writes_as_every_remote() {
    let checksums = WriteChecksums::Refused(&["x-amz-checksum-crc64nvme", "x-amz-checksum-crc32c"]);
    conforms(Flavour::S3, WriteOptions { checksums, ..WriteOptions::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gcs_writes_as_every_remote() {
    conforms(Flavour::Gcs, WriteOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gcs_without_multipart_uploads_writes_as_every_remote() {
    conforms(Flavour::Gcs, WriteOptions { multipart: false, ..WriteOptions::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_writes_as_every_remote() {
    conforms(Flavour::Azure, WriteOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_without_crcs_writes_as_every_remote() {
    conforms(Flavour::Azure, WriteOptions { azure_crc64: false, ..WriteOptions::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_with_webdav_writes_as_every_remote() {
    conforms(Flavour::Http, WriteOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_without_webdav_writes_as_every_remote() {
    conforms(Flavour::Http, WriteOptions { dav: false, ..WriteOptions::default() }).await;
}
