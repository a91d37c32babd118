//! A source that changes while it is uploaded.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use tidegate::{ErrorKind, RetryPolicy};
use tidegate_testkit::{Fault, Flavour, Rule};

use crate::bed::{Bed, LEN, PART, noise};

/// Uploads a file, and changes it while the server reads no more of the first part. The part is then
/// sent again.
async fn changed_meanwhile(change: impl FnOnce(&std::path::Path)) -> (Bed, tidegate::Error) {
    let bed = Bed::new(Flavour::S3).await;
    let path = bed.file(&noise(LEN));
    let stall = Rule::new(Fault::StallRequestAfter(1_000)).method("PUT").query("partNumber=1");
    bed.server.script().push(stall.nth(1));
    let retry = RetryPolicy {
        stall_ms_max: 200,
        header_ms_max: 200,
        delay_ms_min: 1,
        delay_ms_max: 5,
        ..RetryPolicy::default()
    };
    let upload = bed.upload(&path).retry(retry);
    let upload = tokio::spawn(async move { upload.await });
    while bed.requests("PUT", "partNumber=1").is_empty() {
        tokio::task::yield_now().await;
    }
    change(&path);
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
