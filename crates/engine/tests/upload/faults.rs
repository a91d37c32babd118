//! Each request's response lost, cut, refused or wrong: the right blob, or none.

use std::future::IntoFuture;

use tidegate::ErrorKind;
use tidegate::remote::{self, Precondition};
use tidegate_testkit::{CompleteAgain, Fault, Flavour, Gate, Rule, WriteChecksums, WriteOptions};

use crate::bed::{Bed, LEN, noise};

/// The requests of an upload in parts: a name, the method, a text of the query.
const REQUESTS: [(&str, &str, &str); 3] = [
    ("begin", "POST", "uploads="),
    ("part", "PUT", "partNumber=2"),
    ("complete", "POST", "uploadId="),
];

fn passing() -> Vec<(&'static str, Fault)> {
    vec![
        ("lost", Fault::LoseResponse),
        ("closed", Fault::CloseBeforeFirstByte),
        ("503", Fault::Coded { status: 503, code: "SlowDown" }),
        ("429", Fault::status_retry_after(429, "0")),
        ("500", Fault::status(500)),
        ("500 after the body", Fault::AfterBody(Box::new(Fault::status(500)))),
        ("500 after the effect", Fault::AfterEffect(Box::new(Fault::status(500)))),
        ("half a head", Fault::TruncatedHead),
    ]
}

#[tokio::test]
async fn what_passes_is_sent_again_at_every_request() {
    let bytes = noise(LEN);
    for (request, method, query) in REQUESTS {
        for (name, fault) in passing() {
            for again in [CompleteAgain::Succeeds, CompleteAgain::NoSuchUpload] {
                let writes = WriteOptions { complete_again: again, ..WriteOptions::default() };
                let bed = Bed::with(Flavour::S3, writes).await;
                bed.server
                    .script()
                    .push(Rule::new(fault.clone()).method(method).query(query).nth(1));
                let report = bed.upload(bed.file(&bytes)).await;
                let report = report.unwrap_or_else(|e| panic!("{request} {name}: {}", e.chain()));
                let stored = bed.stored().unwrap();
                assert!(stored.bytes.as_deref() == Some(&*bytes), "{request} {name}");
                assert!(report.is_verified(), "{request} {name}");
                assert_eq!(bed.server.script().applied(), 1, "{request} {name}");
                // The response of `begin` has the upload's id: one that is lost cannot be aborted.
                if request != "begin" {
                    assert_eq!(bed.server.unfinished_uploads(), [], "{request} {name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_cut_or_damaged_part_is_sent_again() {
    let bytes = noise(LEN);
    for fault in [
        Fault::CutRequestAfter(0),
        Fault::CutRequestAfter(300_000),
        Fault::FlipRequestByte(0),
        Fault::FlipRequestByte(4_000_000),
    ] {
        let bed = Bed::new(Flavour::S3).await;
        let rule = Rule::new(fault.clone()).method("PUT").query("partNumber=1");
        bed.server.script().push(rule.nth(1));
        let report = bed.upload(bed.file(&bytes)).await;
        let report = report.unwrap_or_else(|error| panic!("{fault:?}: {}", error.chain()));
        bed.has(&bytes);
        assert_eq!(report.totals.restarts, 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_failure_in_the_body_of_a_success_is_a_failure() {
    let bytes = noise(LEN);
    for has_effect in [false, true] {
        for again in [CompleteAgain::Succeeds, CompleteAgain::NoSuchUpload] {
            let writes = WriteOptions { complete_again: again, ..WriteOptions::default() };
            let bed = Bed::with(Flavour::S3, writes).await;
            let fault = Fault::ErrorInBody { code: "InternalError", has_effect };
            bed.server.script().push(Rule::new(fault).method("POST").query("uploadId=").nth(1));
            bed.upload(bed.file(&bytes)).await.unwrap();
            bed.has(&bytes);
        }
    }
    let bed = Bed::new(Flavour::S3).await;
    let fault = Fault::ErrorInBody { code: "InternalError", has_effect: false };
    bed.server.script().push(Rule::new(fault).method("POST").query("uploadId=").always());
    let error = bed.upload(bed.file(&bytes)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{}", error.chain());
    bed.has_none();
}

#[tokio::test]
async fn a_lost_success_of_a_conditional_write_is_recognised_as_ones_own() {
    for len in [1_000, LEN] {
        for again in [CompleteAgain::Succeeds, CompleteAgain::NoSuchUpload] {
            let writes = WriteOptions { complete_again: again, ..WriteOptions::default() };
            let bed = Bed::with(Flavour::S3, writes).await.trusting();
            let bytes = noise(len);
            let (method, query) = if len == LEN { ("POST", "uploadId=") } else { ("PUT", "") };
            let rule = Rule::new(Fault::LoseResponse).method(method).query(query).nth(1);
            bed.server.script().push(rule);
            let absent = remote::WriteOptions::when(Precondition::Absent);
            let report = bed.upload(bed.file(&bytes)).write(absent).await;
            report.unwrap_or_else(|error| panic!("{len} {again:?}: {}", error.chain()));
            bed.has(&bytes);
        }
    }
}

#[tokio::test]
async fn an_upload_that_the_remote_forgets_begins_anew() {
    let bytes = noise(LEN);
    for (method, query) in [("PUT", "partNumber=2"), ("POST", "uploadId=")] {
        let bed = Bed::new(Flavour::S3).await;
        let gone = Fault::Coded { status: 404, code: "NoSuchUpload" };
        bed.server.script().push(Rule::new(gone).method(method).query(query).nth(1));
        bed.upload(bed.file(&bytes)).await.unwrap();
        assert!(bed.stored().unwrap().bytes.as_deref() == Some(&*bytes));
    }
}

#[tokio::test]
async fn a_race_at_the_end_of_a_conditional_upload_begins_anew() {
    let bed = Bed::new(Flavour::S3).await.trusting();
    let bytes = noise(LEN);
    let raced = Fault::Coded { status: 409, code: "ConditionalRequestConflict" };
    bed.server.script().push(Rule::new(raced).method("POST").query("uploadId=").nth(1));
    let absent = remote::WriteOptions::when(Precondition::Absent);
    bed.upload(bed.file(&bytes)).write(absent).await.unwrap();
    bed.has(&bytes);
    assert_eq!(bed.requests("POST", "uploads=").len(), 2);
}

#[tokio::test]
async fn a_checksum_that_the_remote_refuses_gives_way_to_the_next_one() {
    let bytes = noise(LEN);
    for (refused, used) in [
        (&["x-amz-checksum-crc64nvme"][..], "x-amz-checksum-crc32c"),
        (&["x-amz-checksum-crc64nvme", "x-amz-checksum-crc32c"][..], "content-md5"),
    ] {
        for len in [1_000, LEN] {
            let checksums = WriteChecksums::Refused(refused);
            let bed =
                Bed::with(Flavour::S3, WriteOptions { checksums, ..Default::default() }).await;
            let bytes = bytes.slice(..len);
            let report = bed.upload(bed.file(&bytes)).await;
            report.unwrap_or_else(|error| panic!("{refused:?} {len}: {}", error.chain()));
            bed.has(&bytes);
            let puts = bed.requests("PUT", "");
            let last = puts.iter().rev().find(|put| put.status == Some(200)).unwrap();
            assert!(last.header(used).is_some(), "{refused:?} {len}: {:?}", last.headers);
        }
    }
}

#[tokio::test]
async fn damage_that_no_checksum_stops_is_found_at_the_end() {
    for len in [1_000, LEN] {
        let bed = Bed::with(
            Flavour::S3,
            WriteOptions { checksums: WriteChecksums::Ignored, ..Default::default() },
        )
        .await;
        bed.server.script().push(Rule::new(Fault::FlipRequestByte(500)).method("PUT").nth(1));
        let error = bed.upload(bed.file(&noise(len))).await.unwrap_err();
        // The parts are compared before the blob is made, the whole only afterwards.
        let kind = if len == LEN { ErrorKind::Invalid } else { ErrorKind::Integrity };
        assert_eq!(error.kind(), kind, "{len}: {}", error.chain());
    }
}

#[tokio::test]
async fn a_remote_that_stalls_is_given_up_in_time() {
    let bed = Bed::new(Flavour::S3).await;
    let rule = Rule::new(Fault::StallRequestAfter(100_000)).method("PUT").query("partNumber=1");
    bed.server.script().push(rule.nth(1));
    let retry = tidegate::RetryPolicy {
        stall_ms_max: 200,
        header_ms_max: 200,
        delay_ms_min: 1,
        delay_ms_max: 5,
        ..tidegate::RetryPolicy::default()
    };
    let bytes = noise(LEN);
    bed.upload(bed.file(&bytes)).retry(retry).await.unwrap();
    bed.has(&bytes);
}

#[tokio::test]
async fn a_remote_may_take_minutes_to_make_the_blob_of_its_parts() {
    let bed = Bed::new(Flavour::S3).await;
    let gate = Gate::new();
    let held = Rule::new(Fault::HoldAnswer(gate.clone())).method("POST").query("uploadId=");
    bed.server.script().push(held.nth(1));
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    let waited = async {
        gate.reached(1).await;
        let arrived = bed.server.requests();
        tokio::time::pause();
        let since = tokio::time::Instant::now();
        bed.server.arrived(arrived + 1).await;
        let waited = since.elapsed();
        tokio::time::resume();
        waited
    };
    let (outcome, waited) = tokio::join!(bed.upload(&path).into_future(), waited);
    outcome.unwrap();
    bed.has(&bytes);
    assert!(waited.as_secs() > 500, "given up after {} s", waited.as_secs());
}

#[tokio::test]
async fn a_refusal_that_does_not_pass_is_reported_once_and_says_what_stays() {
    let bed = Bed::new(Flavour::S3).await;
    let refused = Fault::Coded { status: 403, code: "AccessDenied" };
    bed.server.script().push(Rule::new(refused).method("PUT").query("partNumber=2").always());
    let error = bed.upload(bed.file(&noise(LEN))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoAccess, "{}", error.chain());
    assert_eq!(bed.requests("PUT", "partNumber=2").len(), 1);
    bed.has_none();
    // The parts of a file stay for the next run.
    assert_eq!(bed.server.unfinished_uploads().len(), 1);
}

#[tokio::test]
async fn an_upload_that_is_to_leave_nothing_is_aborted() {
    let bed = Bed::new(Flavour::S3).await;
    let refused = Fault::Coded { status: 403, code: "AccessDenied" };
    bed.server.script().push(Rule::new(refused).method("PUT").query("partNumber=2").always());
    let upload = bed.upload(bed.file(&noise(LEN))).on_failure(tidegate::OnFailure::Abort);
    upload.await.unwrap_err();
    bed.has_none();
    assert_eq!(bed.server.unfinished_uploads(), []);
}
