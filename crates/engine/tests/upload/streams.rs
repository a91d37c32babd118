//! Streams: their length is not known before their end.

use futures_util::stream;
use tidegate::{ErrorKind, Form, UploadSource};
use tidegate_testkit::{Fault, Flavour, Rule};

use crate::bed::{Bed, LEN, PART, noise};

fn stream_of(bytes: &bytes::Bytes, frame: usize) -> UploadSource {
    let frames: Vec<_> =
        bytes.chunks(frame).map(|frame| Ok(bytes::Bytes::copy_from_slice(frame))).collect();
    UploadSource::stream(Box::pin(stream::iter(frames)))
}

#[tokio::test]
async fn a_stream_of_any_length_is_stored() {
    for len in [0, 1, PART, PART + 1, 2 * PART, LEN] {
        let bed = Bed::new(Flavour::S3).await;
        let bytes = noise(len);
        let report = bed.upload(stream_of(&bytes, 100_003)).await.unwrap();
        bed.has(&bytes);
        assert!(report.is_verified(), "{len}: {:?}", report.verified);
        assert_eq!(report.form, if len > PART { Form::Parts } else { Form::Whole }, "{len}");
    }
}

#[tokio::test]
async fn a_reader_is_stored() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let reader = std::io::Cursor::new(bytes.to_vec());
    bed.upload(UploadSource::reader(reader)).await.unwrap();
    bed.has(&bytes);
}

#[tokio::test]
async fn a_stream_that_fails_leaves_no_blob_and_no_parts() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let broken = tidegate::Error::new(
        ErrorKind::Storage,
        tidegate::Operation::Read,
        "the producer",
        "it broke",
    );
    let frames = vec![Ok(bytes.slice(..=PART)), Err(broken)];
    let source = UploadSource::stream(Box::pin(stream::iter(frames)));
    let error = bed.upload(source).await.unwrap_err();
    assert!(error.chain().contains("it broke"), "{}", error.chain());
    bed.has_none();
    assert_eq!(bed.server.unfinished_uploads(), []);
}

#[tokio::test]
async fn a_part_of_a_stream_is_sent_again_from_memory() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let rule = Rule::new(Fault::CutRequestAfter(1_000_000)).method("PUT").query("partNumber=2");
    bed.server.script().push(rule.nth(1));
    let report = bed.upload(stream_of(&bytes, 1 << 20)).await.unwrap();
    bed.has(&bytes);
    assert_eq!(report.totals.restarts, 1);
}
