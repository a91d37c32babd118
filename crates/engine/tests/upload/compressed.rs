//! Sources that are compressed on the way.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use futures_util::stream;
use tidegate::remote::{Precondition, WriteOptions};
use tidegate::{ContentCoding, ErrorKind, Form, UploadSource};
use tidegate_testkit::Flavour;

use crate::bed::{Bed, LEN, PART, noise};

fn gzip() -> ContentCoding {
    ContentCoding::gzip(1)
}

fn decoded(coding: ContentCoding, stored: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match coding.name() {
        "gzip" => GzDecoder::new(stored).read_to_end(&mut bytes),
        _ => zstd::Decoder::new(stored).unwrap().read_to_end(&mut bytes),
    }
    .unwrap();
    bytes
}

fn stream_of(bytes: &Bytes) -> UploadSource {
    let frames: Vec<_> =
        bytes.chunks(100_003).map(|frame| Ok(Bytes::copy_from_slice(frame))).collect();
    UploadSource::stream(Box::pin(stream::iter(frames)))
}

#[tokio::test]
async fn the_stored_bytes_are_the_source_compressed() {
    for coding in [gzip(), ContentCoding::zstd(1)] {
        for len in [0, 1, LEN] {
            let bytes = noise(len);
            for kind in ["file", "stream", "bytes"] {
                let bed = Bed::new(Flavour::S3).await;
                let source = match kind {
                    "file" => bed.file(&bytes).into(),
                    "stream" => stream_of(&bytes),
                    _ => bytes.clone().into(),
                };
                let report = bed.upload(source).compress(coding).await.unwrap();
                let stored = bed.stored().unwrap().bytes.unwrap();
                let name = coding.name();
                assert!(decoded(coding, &stored) == bytes, "{name} {kind} {len}");
                assert_eq!(report.bytes, stored.len() as u64, "{name} {kind} {len}");
                assert_eq!(report.source_bytes, Some(len as u64), "{name} {kind} {len}");
                assert!(report.is_verified(), "{name} {kind} {len}");
                let form = if len > PART { Form::Parts } else { Form::Whole };
                assert_eq!(report.form, form, "{name} {kind} {len}");
                let info = bed.client.stat(&bed.target()).await.unwrap();
                assert_eq!(info.content_encoding.as_deref(), Some(name));
                assert_eq!(bed.server.unfinished_uploads(), []);
            }
        }
    }
}

#[tokio::test]
async fn a_level_that_is_higher_stores_less() {
    let text = Bytes::from("a line of text, and another line of text\n".repeat(20_000));
    let mut stored = Vec::new();
    for level in [1, 9] {
        let bed = Bed::new(Flavour::S3).await;
        let upload = bed.upload(text.clone()).compress(ContentCoding::gzip(level));
        stored.push(upload.await.unwrap().bytes);
    }
    assert!(stored[1] < stored[0] && stored[0] < text.len() as u64 / 10, "{stored:?}");
}

#[tokio::test]
async fn the_description_is_that_of_the_source() {
    let bed = Bed::new(Flavour::S3).await;
    let path = bed.file(b"text");
    let mut options = WriteOptions::default();
    options.content_type = Some("text/plain".to_owned());
    bed.upload(&path).write(options).compress(gzip()).await.unwrap();
    let stored = bed.stored().unwrap();
    assert_eq!(stored.content_type, "text/plain");
    assert!(stored.metadata("mtime").is_some(), "the file's modification time");
}

#[tokio::test]
async fn google_does_not_decompress_on_the_way() {
    for (own, expected) in [
        (None, "no-transform"),
        (Some("max-age=60"), "max-age=60, no-transform"),
        (Some("No-Transform"), "No-Transform"),
    ] {
        // With a condition the length must be known, so the result is copied to a file first.
        for precondition in [Precondition::None, Precondition::Absent] {
            let bed = Bed::new(Flavour::Gcs).await;
            let mut options = WriteOptions::when(precondition);
            options.cache_control = own.map(str::to_owned);
            let bytes = noise(LEN);
            bed.upload(stream_of(&bytes)).write(options).compress(gzip()).await.unwrap();
            let stored = bed.stored().unwrap();
            let field = ("Cache-Control".to_owned(), expected.to_owned());
            assert!(stored.fields.contains(&field), "{:?}", stored.fields);
            assert!(decoded(gzip(), &stored.bytes.unwrap()) == bytes);
        }
    }
}

#[tokio::test]
async fn a_coding_that_cannot_be_kept_is_refused() {
    let bed = Bed::new(Flavour::S3).await;
    let mut options = WriteOptions::default();
    options.content_encoding = Some("br".to_owned());
    let error = bed.upload(bed.file(b"x")).write(options).compress(gzip()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{}", error.chain());
    bed.has_none();
    let bed = Bed::new(Flavour::Http).await;
    let error = bed.upload(bed.file(b"x")).compress(gzip()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", error.chain());
    assert_eq!(bed.server.log().len(), 0);
}

#[tokio::test]
async fn a_blob_of_a_remote_is_compressed_once() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(100_000);
    bed.server.put("/bucket/a/source", tidegate_testkit::Blob::new(bytes.clone()));
    let source = bed.client.locate("s3://bucket/a/source").unwrap();
    bed.upload(UploadSource::blob(&source)).compress(gzip()).await.unwrap();
    assert!(decoded(gzip(), &bed.stored().unwrap().bytes.unwrap()) == bytes);
    let again = bed.client.locate("s3://bucket/a/again").unwrap();
    let upload = bed.client.upload(UploadSource::blob(&bed.target()), &again);
    let error = upload.compress(gzip()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{}", error.chain());
}
