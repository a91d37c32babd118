//! A source that changes while it is uploaded.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use tidegate::ErrorKind;
use tidegate_testkit::{Fault, Flavour, Gate, Rule};

use crate::bed::{Bed, LEN, PART, noise};

/// Uploads a file, and changes it after it was opened, before a part is read.
async fn changed_meanwhile(change: impl FnOnce(&std::path::Path)) -> (Bed, tidegate::Error) {
    let bed = Bed::new(Flavour::S3).await;
    let path = bed.file(&noise(LEN));
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).method("POST").query("uploads=").nth(1));
    let upload = bed.upload(&path);
    let upload = tokio::spawn(async move { upload.await });
    gate.reached(1).await;
    change(&path);
    gate.open();
    let error = upload.await.unwrap().unwrap_err();
    (bed, error)
}

#[tokio::test]
async fn a_source_that_changes_makes_no_blob() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 3] = [
        ("truncated", |path| {
            OpenOptions::new().write(true).open(path).unwrap().set_len(PART as u64).unwrap();
        }),
        ("grown", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"more", LEN as u64).unwrap();
        }),
        ("rewritten with the old time", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(b"other", 10).unwrap();
            file.set_modified(modified).unwrap();
        }),
    ];
    for (name, change) in changes {
        let (bed, error) = changed_meanwhile(change).await;
        assert_eq!(error.kind(), ErrorKind::Changed, "{name}: {}", error.chain());
        bed.has_none();
        assert_eq!(bed.server.unfinished_uploads(), [], "{name}: the parts are of no use");
    }
}

#[tokio::test]
async fn a_source_that_is_not_there_is_an_error_before_the_first_request() {
    let bed = Bed::new(Flavour::S3).await;
    let error = bed.upload(bed.folder.path().join("none")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(bed.server.requests(), 0);
}
