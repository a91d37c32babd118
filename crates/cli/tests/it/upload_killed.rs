//! An upload that is killed at each of its requests, and then run again.

use tidegate_testkit::{Fault, Gate, Rule, pseudo_random};

use crate::bed::{Bed, command, within};
use crate::upload::{PART, bucket, run};

/// The requests of an upload of three parts: the method, and a text of the query.
const REQUESTS: [(&str, &str); 4] =
    [("POST", "uploads="), ("PUT", "partNumber=1"), ("PUT", "partNumber=3"), ("POST", "uploadId=")];

const ARGS: [&str; 7] = ["cp", "--window", "1", "--part-size", "5MiB", "long", "s3://bucket/long"];

/// Kills a run while `fault` holds a request at its gate.
async fn killed(bed: &Bed, gate: &Gate) {
    let endpoint = bed.server.endpoint();
    let mut child = command(bed.folder.path());
    child.args(ARGS).args(["--anonymous", "--endpoint", &endpoint]);
    let mut child = child.spawn().unwrap();
    within(gate.reached(1)).await;
    within(child.kill()).await.unwrap();
    gate.open();
    bed.server.script().clear();
    bed.server.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_upload_goes_on_from_every_request() {
    let bytes = pseudo_random(2 * PART + 77, 3).to_vec();
    for (method, query) in REQUESTS {
        for has_effect in [false, true] {
            let bed = bucket().await;
            std::fs::write(bed.path("long"), &bytes).unwrap();
            let gate = Gate::new();
            let fault = if has_effect { Fault::HoldAnswer } else { Fault::HoldRequest };
            let fault = fault(gate.clone());
            bed.server.script().push(Rule::new(fault).method(method).query(query).nth(1));
            killed(&bed, &gate).await;
            let sent: u64 = bed.server.parts_received().values().sum();
            let ran = run(&bed, &ARGS).await;
            ran.ends(0).says("verified crc64nvme");
            let stored = bed.server.object("/bucket/long").unwrap();
            let name = format!("{method} {query} {has_effect}");
            assert!(stored.bytes.as_deref() == Some(&*bytes), "{name}");
            let again: u64 = bed.server.parts_received().values().sum::<u64>() - sent;
            // A part that was being sent when the process was killed may have been stored or not.
            let least = 3_u64.saturating_sub(sent);
            assert!((least..=least + 1).contains(&again), "{name}: {again} parts after {sent}");
            // Nothing but an upload whose id never arrived can stay behind.
            let left = bed.server.unfinished_uploads().len();
            assert!(left <= usize::from(query == "uploads="), "{name}: {left} uploads are left");
            let ended = run(&bed, &["uploads", "abort", "--older-than", "0", "s3://bucket"]).await;
            ended.ends(0);
            assert!(bed.server.unfinished_uploads().is_empty(), "{name}");
        }
    }
}
