//! A blob to standard output.

use tidegate_testkit::{Fault, Flavour, Rule};
use tokio::io::AsyncReadExt;

use crate::bed::{Bed, Ran, SHARD, command, object, within};

const LEN: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_output_is_whole_and_in_order_despite_broken_responses() {
    let bed = Bed::gcs().await;
    let bytes = bed.put("/bucket/blob", LEN);
    bed.server.script().push(Rule::new(Fault::CutAfter(1000)).nth(3).times(3));
    let ran = bed.gcs_run(&["cat", "-v", "--shard-size", SHARD, "gs://bucket/blob"]).await;
    ran.ends(0).says("3 restarts").says("verified crc32c");
    assert!(ran.stdout == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_include_both_ends() {
    let bed = Bed::gcs().await;
    let bytes = bed.put("/bucket/blob", LEN);
    for (range, expected) in [
        ("0-0", 0..1),
        ("0-99", 0..100),
        ("100-299999", 100..300_000),
        ("999900-", LEN - 100..LEN),
        ("-500", LEN - 500..LEN),
        ("-2000000", 0..LEN),
        ("10-2000000", 10..LEN),
        ("all", 0..LEN),
    ] {
        let args = ["cat", "--shard-size", SHARD, "--range", range, "gs://bucket/blob"];
        let ran = bed.gcs_run(&args).await;
        assert!(ran.ends(0).stdout == bytes[expected], "{range}");
        let whole = range == "all";
        ran.says(if whole { "verified crc32c" } else { "not verified: only a part" });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_beyond_the_end_is_an_error() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3] {
        let bed = Bed::new(tidegate_testkit::ServerOptions::of(flavour)).await;
        bed.put("/bucket/blob", 100);
        let url = bed.server.url("/bucket/blob");
        let ran = bed.run(&["cat", "--json", "--range", "101-", &url]).await;
        assert!(ran.ends(1).stdout.is_empty());
        let error = &object(&ran.stderr)["error"];
        assert_eq!(error["kind"], "out_of_range");
        assert!(error["hint"].as_str().unwrap().contains("tidegate stat"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_the_only_text_on_standard_error() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 1000);
    let ran = bed.run(&["cat", "--json", &bed.server.url("/f/blob")]).await;
    assert!(ran.ends(0).stdout == bytes);
    assert_eq!(object(&ran.stderr)["bytes"], 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_the_command_without_a_message() {
    let bed = Bed::http().await;
    // More than any pipe's buffer holds.
    bed.put("/f/blob", 8 << 20);
    for json in [false, true] {
        let mut command = command(bed.folder.path());
        command.args(["cat", "--shard-size", SHARD, &bed.server.url("/f/blob")]);
        if json {
            command.arg("--json");
        }
        let mut child = command.spawn().unwrap();
        let mut reader = child.stdout.take().unwrap();
        within(reader.read_exact(&mut [0; 10])).await.unwrap();
        drop(reader);
        let output = within(child.wait_with_output()).await.unwrap();
        let ran = Ran::new(output.status, output.stdout, &output.stderr);
        ran.ends(141);
        if json {
            assert_eq!(object(&ran.stderr)["error"]["kind"], "storage");
        } else {
            assert_eq!(ran.stderr, "");
        }
    }
}
