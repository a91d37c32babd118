//! A blob of a remote is the source: by the provider, in one request or in parts, or through this
//! process.

use std::future::IntoFuture;
use std::time::{Duration, UNIX_EPOCH};

use tidegate::remote::{Precondition, WriteOptions};
use tidegate::{ErrorKind, Form, Location, UploadBuilder, UploadSource, Verified};
use tidegate_testkit::{Blob, Fault, Flavour, Rule};

use crate::bed::{Bed, LEN, PART, noise};

const CLOUDS: [Flavour; 3] = [Flavour::S3, Flavour::Gcs, Flavour::Azure];

/// A server with a described blob in another bucket, and the copy of it.
struct Copying {
    bed: Bed,
    source: Location,
}

impl Copying {
    async fn of(flavour: Flavour, bytes: &[u8]) -> Self {
        let bed = Bed::new(flavour).await;
        let name = match flavour {
            Flavour::Gcs => "gs://other/source.bin",
            Flavour::S3 => "s3://other/source.bin",
            Flavour::Azure => "az://other/source.bin",
            Flavour::Http => unreachable!("it has no bucket"),
        };
        let source = bed.client.locate(name).unwrap();
        let mut described = WriteOptions::default();
        described.content_type = Some("text/csv".to_owned());
        described.cache_control = Some("no-cache".to_owned());
        described.metadata = vec![("owner".to_owned(), "me".to_owned())];
        described.modified = Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        bed.client.upload(bytes, &source).write(described).await.unwrap();
        bed.server.clear_log();
        Self { bed, source }
    }

    fn copy(&self) -> UploadBuilder {
        self.bed.client.upload(UploadSource::blob(&self.source), &self.bed.target()).window(2)
    }

    /// What the target is described as: type, coding of caches, owner.
    async fn described(&self) -> [Option<String>; 3] {
        let info = self.bed.client.stat(&self.bed.target()).await.unwrap();
        let description = info.description.unwrap_or_default();
        let owner = description.metadata.into_iter().find(|(name, _)| name == "owner");
        [info.content_type, description.cache_control, owner.map(|(_, value)| value)]
    }

    /// How many bodies of blobs the server sent.
    fn reads(&self) -> usize {
        let log = self.bed.server.log();
        log.iter().filter(|seen| seen.method == "GET" && !seen.query().contains("uploadId")).count()
    }
}

fn texts(texts: [&str; 3]) -> [Option<String>; 3] {
    texts.map(|text| Some(text.to_owned()))
}

#[tokio::test]
async fn the_provider_copies_between_its_buckets_with_the_description() {
    for flavour in CLOUDS {
        let bytes = noise(100_000);
        let copying = Copying::of(flavour, &bytes).await;
        let report = copying.copy().await.unwrap();
        copying.bed.has(&bytes);
        assert_eq!((report.form, report.bytes), (Form::Copied, 100_000), "{flavour:?}");
        assert_eq!(copying.reads(), 0, "{flavour:?}: no byte passed through this process");
        assert_eq!(copying.described().await, texts(["text/csv", "no-cache", "me"]), "{flavour:?}");
        if flavour != Flavour::Azure {
            assert!(matches!(report.verified, Verified::By(_)), "{:?}", report.verified);
        }
    }
}

#[tokio::test]
async fn what_the_caller_describes_counts_and_the_rest_is_kept() {
    for flavour in CLOUDS {
        let bytes = noise(100_000);
        let copying = Copying::of(flavour, &bytes).await;
        let mut write = WriteOptions::default();
        write.content_type = Some("text/plain".to_owned());
        copying.copy().write(write).await.unwrap();
        copying.bed.has(&bytes);
        let expected = texts(["text/plain", "no-cache", "me"]);
        assert_eq!(copying.described().await, expected, "{flavour:?}");
    }
}

#[tokio::test]
async fn a_copy_through_this_process_keeps_the_description() {
    let bytes = noise(LEN);
    let other = Copying::of(Flavour::Gcs, &bytes).await;
    for flavour in [Flavour::S3, Flavour::Azure] {
        let bed = Bed::new(flavour).await;
        let upload = bed.client.upload(UploadSource::blob(&other.source), &bed.target());
        let report = upload.part_bytes(PART as u64).await.unwrap();
        bed.has(&bytes);
        assert_eq!((report.form, report.notes), (Form::Parts, Vec::new()), "{flavour:?}");
        let info = bed.client.stat(&bed.target()).await.unwrap();
        let description = info.description.unwrap();
        assert_eq!(info.content_type.as_deref(), Some("text/csv"), "{flavour:?}");
        assert_eq!(description.cache_control.as_deref(), Some("no-cache"), "{flavour:?}");
        let time = match flavour {
            Flavour::S3 => "1700000000.000000000",
            _ => "2023-11-14T22:13:20.000000000Z",
        };
        let expected = [("mtime", time), ("owner", "me")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(description.metadata, expected, "{flavour:?}");
    }
}

#[tokio::test]
async fn a_long_blob_is_copied_in_parts() {
    let bytes = noise(LEN);
    let copying = Copying::of(Flavour::S3, &bytes).await;
    let report = copying.copy().part_bytes(PART as u64).await.unwrap();
    copying.bed.has(&bytes);
    assert_eq!((report.form, copying.reads()), (Form::Copied, 0));
    assert!(matches!(report.verified, Verified::By(_)), "{:?}", report.verified);
    assert_eq!(copying.bed.requests("PUT", "partNumber").len(), 3);
    assert_eq!(copying.described().await, texts(["text/csv", "no-cache", "me"]));
}

#[tokio::test]
async fn the_remotes_own_limit_of_a_copy_is_found_out() {
    let writes = tidegate_testkit::WriteOptions {
        put_bytes_max: 6 << 20,
        ..tidegate_testkit::WriteOptions::default()
    };
    let bed = Bed::with(Flavour::S3, writes).await;
    let bytes = noise(LEN);
    let source = bed.client.locate("s3://bucket/source").unwrap();
    bed.client.upload(bytes.clone(), &source).part_bytes(PART as u64).await.unwrap();
    let copy = bed.client.upload(UploadSource::blob(&source), &bed.target());
    // One part would be as long as the blob, and so too long.
    let error = copy.await.unwrap_err();
    assert_eq!(bed.server.unfinished_uploads(), [], "{}", error.chain());
    bed.has_none();
    let copy = bed.client.upload(UploadSource::blob(&source), &bed.target());
    let report = copy.part_bytes(PART as u64).await.unwrap();
    bed.has(&bytes);
    assert_eq!(report.form, Form::Copied);
}

#[tokio::test]
async fn a_copy_keeps_the_condition() {
    for flavour in CLOUDS {
        let bytes = noise(100_000);
        let copying = Copying::of(flavour, &bytes).await;
        let absent = || WriteOptions::when(Precondition::Absent);
        let report = copying.copy().write(absent()).await.unwrap();
        copying.bed.has(&bytes);
        assert_eq!((report.form, copying.reads()), (Form::Copied, 0), "{flavour:?}");
        assert_eq!(copying.described().await, texts(["text/csv", "no-cache", "me"]), "{flavour:?}");
        copying.bed.server.put(copying.bed.path(), Blob::new(&b"other"[..]));
        let error = copying.copy().write(absent()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{flavour:?}: {}", error.chain());
        copying.bed.has(b"other");
    }
}

#[tokio::test]
async fn a_copy_whose_response_was_lost_is_recognised() {
    for flavour in CLOUDS {
        for write in [WriteOptions::default(), WriteOptions::when(Precondition::Absent)] {
            let bytes = noise(100_000);
            let copying = Copying::of(flavour, &bytes).await;
            let lost = Rule::new(Fault::LoseResponse);
            let making = match flavour {
                Flavour::Gcs => lost.method("POST"),
                Flavour::S3 if write != WriteOptions::default() => {
                    lost.method("POST").query("uploadId")
                }
                _ => lost.method("PUT"),
            };
            copying.bed.server.script().push(making.nth(1));
            copying.copy().write(write).await.unwrap();
            copying.bed.has(&bytes);
        }
    }
}

#[tokio::test]
async fn a_source_that_changes_is_not_copied() {
    for flavour in CLOUDS {
        for part_bytes in [None, Some(PART as u64)] {
            let copying = Copying::of(flavour, &noise(LEN)).await;
            let gate = tidegate_testkit::Gate::new();
            let making = if flavour == Flavour::Gcs { "POST" } else { "PUT" };
            let held = Rule::new(Fault::HoldRequest(gate.clone())).method(making).nth(1);
            copying.bed.server.script().push(held);
            let mut copy = copying.copy();
            if let Some(bytes) = part_bytes {
                copy = copy.part_bytes(bytes);
            }
            let copy = tokio::spawn(copy.into_future());
            gate.reached(1).await;
            let path = match flavour {
                Flavour::Azure => "/account/other/source.bin",
                _ => "/other/source.bin",
            };
            copying.bed.server.replace(path, Blob::new(noise(LEN + 1)));
            gate.open();
            let error = copy.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Changed, "{flavour:?}: {}", error.chain());
            copying.bed.has_none();
            assert_eq!(copying.bed.server.unfinished_uploads(), [], "{flavour:?}");
        }
    }
}
