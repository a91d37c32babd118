//! The tags of a copy are those of its source.

use tidegate::remote::WriteOptions;
use tidegate::{Form, Location, UploadSource};
use tidegate_testkit::{Fault, Flavour, Rule};

use crate::bed::{Bed, LEN, PART, noise};

type Tags = Vec<(String, String)>;

fn tags(tags: &[(&str, &str)]) -> Tags {
    tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Characters that a tag in a header is encoded for, and that a document escapes.
fn of_source() -> Tags {
    tags(&[("team", "media & more"), ("keep", "a=b+c")])
}

/// A server, and a blob of `len` bytes with tags in another bucket of it.
async fn tagged(flavour: Flavour, len: usize) -> (Bed, Location) {
    let bed = Bed::new(flavour).await;
    let name = match flavour {
        Flavour::Azure => "az://other/source.bin",
        _ => "s3://other/source.bin",
    };
    let source = bed.client.locate(name).unwrap();
    let mut write = WriteOptions::default();
    write.tags = of_source();
    bed.client.upload(noise(len), &source).write(write).await.unwrap();
    bed.server.clear_log();
    (bed, source)
}

#[tokio::test]
async fn every_copy_by_the_provider_has_the_tags_of_its_source() {
    for (flavour, part_bytes) in
        [(Flavour::S3, None), (Flavour::S3, Some(PART as u64)), (Flavour::Azure, None)]
    {
        let (bed, source) = tagged(flavour, LEN).await;
        let mut copy = bed.client.upload(UploadSource::blob(&source), &bed.target());
        if let Some(bytes) = part_bytes {
            copy = copy.part_bytes(bytes);
        }
        let report = copy.await.unwrap();
        assert_eq!((report.form, report.notes), (Form::Copied, Vec::new()), "{flavour:?}");
        assert_eq!(bed.stored().unwrap().tags, of_source(), "{flavour:?} {part_bytes:?}");
    }
}

#[tokio::test]
async fn a_copy_through_this_process_has_the_tags_of_its_source() {
    let (_other, source) = tagged(Flavour::S3, LEN).await;
    for part_bytes in [PART, LEN] {
        let bed = Bed::new(Flavour::Azure).await;
        let copy = bed.client.upload(UploadSource::blob(&source), &bed.target());
        let report = copy.part_bytes(part_bytes as u64).await.unwrap();
        assert_eq!(report.notes, Vec::<String>::new());
        bed.has(&noise(LEN));
        assert_eq!(bed.stored().unwrap().tags, of_source());
    }
}

#[tokio::test]
async fn tags_of_the_caller_take_the_place_of_the_sources() {
    for flavour in [Flavour::S3, Flavour::Azure] {
        let (bed, source) = tagged(flavour, 1_000).await;
        let mut write = WriteOptions::default();
        write.tags = tags(&[("own", "1")]);
        let copy = bed.client.upload(UploadSource::blob(&source), &bed.target());
        copy.write(write).await.unwrap();
        assert_eq!(bed.stored().unwrap().tags, tags(&[("own", "1")]), "{flavour:?}");
        assert!(bed.requests("GET", "tag").is_empty(), "{flavour:?}: they were asked for");
    }
}

#[tokio::test]
async fn tags_that_a_copy_lacks_are_named_in_a_note() {
    let (_other, source) = tagged(Flavour::S3, 1_000).await;
    let google = Bed::new(Flavour::Gcs).await;
    let copy = google.client.upload(UploadSource::blob(&source), &google.target());
    let notes = copy.await.unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("tags of the source (2)"), "{notes:?}");

    let (bed, source) = tagged(Flavour::Azure, 1_000).await;
    let denied = Rule::new(Fault::status(403)).method("GET").query("comp=tags").always();
    bed.server.script().push(denied);
    let copy = bed.client.upload(UploadSource::blob(&source), &bed.target());
    let notes = copy.await.unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("were not read"), "{notes:?}");
    bed.has(&noise(1_000));
}
