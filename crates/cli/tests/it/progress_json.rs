//! `--progress`: JSON for programs, one object a line, or none.

use serde_json::Value;
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};
use tidegate_testkit::{Fault, Gate, RangeMatch, Rule};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::bed::{Bed, Ran, SHARD, command, object, within};

const LEN: usize = 1 << 20;

/// Every line of standard error as an object.
fn events(ran: &Ran) -> Vec<Value> {
    ran.stderr.lines().map(object).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

/// The events of transfers have the same fields, whatever their kind.
#[track_caller]
fn is_complete(event: &Value) {
    for name in ["bytes", "reused_bytes", "requests", "restarts"] {
        assert!(event[name].is_u64(), "{name}: {event}");
    }
    assert!(event["seconds"].is_f64() && event["source"].is_string(), "{event}");
    assert!(event["target"].is_string(), "{event}");
    assert!(event.get("total").is_some_and(|total| total.is_u64() || total.is_null()), "{event}");
    assert!(event.get("rate").is_some_and(|rate| rate.is_f64() || rate.is_null()), "{event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_starts_and_is_done() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let ran = bed.gcs_run(&["cp", "--progress", "json", "gs://bucket/blob", "out"]).await;
    let events = events(ran.ends(0));
    let kinds = names(&events);
    assert_eq!((kinds[0], kinds[kinds.len() - 2]), ("start", "done"), "{events:#?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "done").count(), 1, "{events:#?}");
    for event in events.iter().filter(|event| event["event"] != "message") {
        is_complete(event);
        assert_eq!(
            (&event["source"], &event["target"]),
            (&"gs://bucket/blob".into(), &"out".into())
        );
    }
    let done = &events[events.len() - 2];
    assert_eq!((&done["bytes"], &done["total"]), (&LEN.into(), &LEN.into()));
    assert!(done["rate"].as_f64().unwrap() > 0.0);
    let message = events.last().unwrap();
    assert_eq!(message["event"], "message");
    assert!(message["text"].as_str().unwrap().starts_with("out  1.00 MiB in "), "{message}");
}

/// While the second half is held back, the progress says so.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_written_while_a_transfer_runs() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).range(RangeMatch::StartsFrom(1 << 19)).always());
    let mut command = command(bed.folder.path());
    command.args(["cp", "--progress", "json", "--anonymous", "--shard-size", SHARD]);
    command.args(["--endpoint", &bed.server.endpoint(), "gs://bucket/blob", "out"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let half = within(async {
        loop {
            let event = object(&lines.next_line().await.unwrap().unwrap());
            if event["event"] == "progress" && event["bytes"] == 1 << 19 {
                return event;
            }
        }
    });
    let half = half.await;
    is_complete(&half);
    assert_eq!(half["total"], LEN);
    gate.open();
    let mut last = half;
    while let Some(line) = within(lines.next_line()).await.unwrap() {
        let event = object(&line);
        if event["event"] != "message" {
            last = event;
        }
    }
    assert_eq!((&last["event"], &last["bytes"]), (&"done".into(), &LEN.into()));
    assert!(within(child.wait()).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_has_its_reason() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    bed.server.script().push(Rule::new(Fault::CutAfter(100_000)));
    let args = ["cp", "--progress", "json", "--window", "1", "gs://bucket/blob", "out"];
    let ran = bed.gcs_run(&args).await;
    let events = events(ran.ends(0));
    let restart = events.iter().find(|event| event["event"] == "restart").unwrap();
    assert_eq!(restart["source"], "gs://bucket/blob");
    assert_eq!((&restart["offset"], &restart["attempt"]), (&100_000.into(), &2.into()));
    assert!(restart["delay_ms"].is_u64(), "{restart}");
    let error = restart["error"].as_str().unwrap();
    assert!(error.starts_with("cannot read gs://bucket/blob: "), "{restart}");
    let done = events.iter().find(|event| event["event"] == "done").unwrap();
    assert_eq!(done["restarts"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_several_has_its_end_and_failures_are_reported() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let args = ["cp", "--progress", "json", "gs://bucket/missing", "gs://bucket/blob", "."];
    let all = events(bed.gcs_run(&args).await.ends(3));
    let of = |kind: &str| {
        let mut found = all.iter().filter(|event| event["event"] == kind);
        found.next().unwrap_or_else(|| panic!("no {kind}: {all:#?}"))
    };
    assert_eq!(names(&all).iter().filter(|kind| **kind == "start").count(), 2);
    assert_eq!(of("done")["source"], "gs://bucket/blob");
    assert_eq!(of("failed")["source"], "gs://bucket/missing");
    assert_eq!(of("failed")["error"]["kind"], "not_found");
    is_complete(of("failed"));
    // Of a single one, and of a command that begins no transfer.
    let ran = bed.gcs_run(&["cp", "--progress", "json", "gs://bucket/missing", "out"]).await;
    assert_eq!(names(&events(ran.ends(3))), ["start", "failed", "error"]);
    let ran = bed.gcs_run(&["cp", "--progress", "json", "nosuch://bucket/x", "out"]).await;
    let events = events(ran.ends(2));
    assert_eq!(
        (names(&events), &events[0]["error"]["kind"]),
        (vec!["error"], &"unsupported".into())
    );
}

/// The two forms of JSON do not mix: the report is on standard output, or the last line.
#[tokio::test(flavor = "multi_thread")]
async fn it_stands_beside_the_report() {
    let bed = Bed::gcs().await;
    let bytes = bed.put("/bucket/blob", LEN);
    let args = ["--quiet", "--json", "--progress", "json", "gs://bucket/blob"];
    let ran = bed.gcs_run(&[&["cp"], &args[..], &["out"]].concat()).await;
    assert_eq!(ran.ends(0).json()["bytes"], LEN);
    assert_eq!(names(&events(&ran)).last(), Some(&"done"));
    let ran = bed.gcs_run(&[&["cat"], &args[..]].concat()).await;
    assert!(ran.ends(0).stdout == bytes);
    let lines: Vec<Value> = ran.stderr.lines().map(object).collect();
    let (report, before) = lines.split_last().unwrap();
    assert_eq!((&report["bytes"], report.get("event")), (&LEN.into(), None));
    assert_eq!(names(before).last(), Some(&"done"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_requests_are_messages() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let args = ["cp", "--debug", "--progress", "json", "gs://bucket/blob", "out"];
    let ran = bed.gcs_run(&args).await;
    let is_request = |event: &Value| {
        event["text"].as_str().is_some_and(|text| text.contains("tidegate::request: method=GET"))
    };
    assert!(events(ran.ends(0)).iter().any(is_request), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_reported_too() {
    let bed = Bed::gcs().await;
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    std::fs::write(bed.path("file"), vec![7; 300_000]).unwrap();
    let ran = bed.run(&["cp", "--progress", "json", "file", &cache.url()]).await;
    let events = events(ran.ends(0));
    let done = events.iter().find(|event| event["event"] == "done").unwrap();
    is_complete(done);
    assert_eq!((&done["source"], &done["target"]), (&"file".into(), &cache.url().into()));
    assert_eq!(done["bytes"], 300_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_progress_leaves_the_result() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let ran = bed.gcs_run(&["cp", "--progress", "none", "gs://bucket/blob", "out"]).await;
    assert_eq!(ran.ends(0).stderr.lines().count(), 1);
    ran.says("out  1.00 MiB in ");
}
