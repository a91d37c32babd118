//! Streams: their length is not known before their end.

use futures_util::stream;
use tidegate::{ErrorKind, Form, UploadSource};
use tidegate_testkit::{Fault, Flavour, Rule};

use crate::bed::{Bed, LEN, PART, noise};
use crate::matrix::way::WAYS;

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
async fn a_stream_of_any_length_is_stored_by_every_way_to_send_it() {
    for way in WAYS {
        let part = way.part_bytes;
        for len in [0, 1, part - 1, part, part + 1] {
            let bed = Bed::new(way.flavour).await;
            let bytes = noise(len);
            let upload = bed.upload(stream_of(&bytes, 100_003)).part_bytes(part as u64);
            let report = upload.write(way.options()).await;
            let report = report.unwrap_or_else(|e| panic!("{} {len}: {}", way.name, e.chain()));
            assert_eq!(report.bytes, len as u64, "{} {len}", way.name);
            bed.has(&bytes);
            assert_eq!(bed.server.paths(), [bed.path()], "{} {len}", way.name);
        }
    }
}

#[tokio::test]
async fn a_stream_to_a_file_is_stored_whole_or_not_at_all() {
    let bed = Bed::new(Flavour::S3).await;
    let folder = bed.folder.path().join("target");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("blob.bin");
    let target = bed.client.locate(path.to_str().unwrap()).unwrap();
    let upload = |source| bed.client.upload(source, &target).part_bytes(100_000);
    for len in [0, 1, 99_999, 100_000, 100_001, 250_000] {
        let bytes = noise(len);
        upload(stream_of(&bytes, 33_333)).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes, "{len}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{len}");
    }
    let broken =
        || tidegate::Error::new(ErrorKind::Storage, tidegate::Operation::Read, "it", "it broke");
    for len in [0, 50_000, 150_000] {
        let frames = vec![Ok(noise(len)), Err(broken())];
        let error = upload(UploadSource::stream(Box::pin(stream::iter(frames)))).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Storage);
        assert_eq!(std::fs::read(&path).unwrap().len(), 250_000, "the old file stays");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{len}");
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
