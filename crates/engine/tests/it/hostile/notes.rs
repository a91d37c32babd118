//! The notes of a report about facts that could not be verified.

use super::*;

const NO_LENGTH: &str = "no length";
const COMPRESSED: &str = "compressed";

async fn notes(location: &Location, reader: Reader, range: ByteRange) -> Vec<String> {
    let outcome = reader.read_range(location, range).await.unwrap();
    outcome.report.unwrap().notes
}

fn says(notes: &[String], word: &str) -> bool {
    notes.iter().any(|note| note.contains(word))
}

const DOWNLOADS: [Reader; 3] = [Reader::File(1), Reader::File(4), Reader::Ordered(4)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_reports_an_unknown_length() {
    for flavour in ALL {
        for framing in [Framing::Length, Framing::Chunked, Framing::Close] {
            for range in [ByteRange::All, ByteRange::From(10)] {
                let origin = Origin::new(move |_| {
                    let reply = Reply::new(200).with("etag", "\"a\"").with("date", origin::DATE);
                    reply.body(&blob()).framed(framing)
                });
                let origin = origin.await;
                let location = locate(&origin, flavour);
                for reader in DOWNLOADS {
                    let notes = notes(&location, reader, range.clone()).await;
                    let expected = framing != Framing::Length;
                    let label = format!("{flavour:?} {framing:?} {range} {reader:?} {notes:?}");
                    assert_eq!(says(&notes, NO_LENGTH), expected, "{label}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_that_a_checksum_proves_needs_no_note() {
    use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
    let sum = Checksummer::of(ChecksumAlgorithm::Sha256, &blob()).unwrap();
    let origin = Origin::new(move |_| {
        Reply::new(200).with("etag", "\"a\"").body(&blob()).framed(Framing::Chunked)
    });
    let origin = origin.await;
    let location = locate(&origin, Flavour::Http);
    let folder = tempfile::tempdir().unwrap();
    let target = Target::File(folder.path().join("target"));
    let options = DownloadOptions { expected: vec![sum], ..options(4, None) };
    let report = within(download(&location, target, &options)).await.unwrap();
    assert!(report.is_verified() && !says(&report.notes, NO_LENGTH), "{:?}", report.notes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_reports_an_unrequested_content_coding() {
    for flavour in ALL {
        for (coding, compressed) in
            [(Some("gzip"), true), (Some("br"), true), (Some("identity"), false), (None, false)]
        {
            let origin = Origin::new(move |asked| {
                let reply = named(flavour, asked, &blob());
                match coding {
                    Some(coding) => reply.with("content-encoding", coding),
                    None => reply,
                }
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            for reader in DOWNLOADS {
                let notes = notes(&location, reader, ByteRange::All).await;
                // Google's storage is asked for the stored bytes, in their own coding.
                let expected = compressed && flavour != Flavour::Gcs;
                let label = format!("{flavour:?} {coding:?} {reader:?} {notes:?}");
                assert_eq!(says(&notes, COMPRESSED), expected, "{label}");
                assert!(!expected || says(&notes, coding.unwrap()), "{label}");
            }
        }
    }
    // A plain URL is also asked for the stored bytes.
    let origin = Origin::new(move |asked| {
        let reply = named(Flavour::Gcs, asked, &blob());
        reply.with("content-encoding", "gzip").with("x-goog-stored-content-encoding", "gzip")
    });
    let origin = origin.await;
    let location = locate(&origin, Flavour::Http);
    let notes = notes(&location, Reader::File(4), ByteRange::All).await;
    assert!(!says(&notes, COMPRESSED), "{notes:?}");
}
