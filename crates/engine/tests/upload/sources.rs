//! A source that changes while it is uploaded.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tidegate::{Error, ErrorKind, Report, RetryPolicy};
use tidegate_testkit::{Fault, Flavour, Rule};

use crate::bed::{Bed, noise};
use crate::matrix::play;
use crate::matrix::way::{WAYS, Way};

type Change = fn(&Path, u64);

const CHANGES: [(&str, Change); 3] = [
    ("truncated", |path, len| {
        OpenOptions::new().write(true).open(path).unwrap().set_len(len / 2).unwrap();
    }),
    ("grown", |path, len| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(b"more", len).unwrap();
    }),
    ("rewritten with the old time", |path, _| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"other", 10).unwrap();
        file.set_modified(modified).unwrap();
    }),
];

/// Uploads a file, and changes it while the server reads no more of the first request with bytes. The
/// request is then sent again.
async fn changed_meanwhile(way: &Way, change: Change) -> (Bed, Result<Report, Error>) {
    let bodies = play::bodies(way).await;
    let nth = 1 + bodies.iter().position(|bytes| *bytes > 1_000).unwrap() as u64;
    let bed = Bed::new(way.flavour).await;
    let path = bed.file(&noise(way.len));
    bed.server.script().push(Rule::new(Fault::StallRequestAfter(1_000)).nth(nth));
    let retry = RetryPolicy { stall_ms_max: 300, header_ms_max: 300, ..play::retry() };
    let uploaded = play::upload(&bed, &bed.client, way, &path, retry);
    let changed = async {
        while bed.server.script().applied() == 0 {
            tokio::task::yield_now().await;
        }
        change(&path, way.len as u64);
    };
    let (outcome, ()) = tokio::join!(uploaded, changed);
    (bed, outcome)
}

#[tokio::test]
async fn a_source_that_changes_makes_no_blob() {
    for way in WAYS {
        for (name, change) in CHANGES {
            let (bed, outcome) = changed_meanwhile(way, change).await;
            let name = format!("{}: {name}", way.name);
            let error = outcome.err().unwrap_or_else(|| panic!("{name}: it succeeded"));
            assert_eq!(error.kind(), ErrorKind::Changed, "{name}: {}", error.chain());
            assert_eq!(bed.server.paths(), [] as [String; 0], "{name}");
            // Azure has no request that removes blocks.
            if way.flavour != Flavour::Azure {
                let left = bed.server.unfinished_uploads();
                assert_eq!(left, [], "{name}: the parts are of no use");
            }
        }
    }
}

#[tokio::test]
async fn a_source_that_is_not_there_is_an_error_before_the_first_request() {
    let bed = Bed::new(Flavour::S3).await;
    let error = bed.upload(bed.folder.path().join("none")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(bed.server.requests(), 0);
}
