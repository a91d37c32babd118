//! A wrong command line is reported before anything is done: exit code 2, and the reason.

use std::path::Path;

use crate::bed::{Bed, run_in};

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_value_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 25] = [
        (&["cp"], "required"),
        (&["cp", "a"], "the target is missing"),
        (&["cp", "a", "b", "--window", "0"], "--window"),
        (&["cp", "a", "b", "--window", "x"], "--window"),
        (&["cp", "a", "b", "--requests", "0"], "--requests"),
        (&["cp", "a", "b", "--retries", "0"], "--retries"),
        (&["cp", "a", "b", "--shard-size", "0"], "expected 4.00 KiB to 64.0 GiB"),
        (&["cp", "a", "b", "--shard-size", "8Mi"], "KiB, MiB, GiB, TiB"),
        (&["cp", "a", "b", "--memory", "1KiB"], "expected 1.00 MiB"),
        (&["cp", "a", "b", "--memory", "-1"], "unexpected argument"),
        (&["cp", "a", "b", "--deadline", "0"], "expected 1ms to 366 days"),
        (&["cp", "a", "b", "--stall", "soon"], "expected a duration such as"),
        (&["cp", "a", "b", "--min-speed", "slow"], "expected a size"),
        (&["cp", "a", "b", "--min-speed-time", "soon"], "expected a duration such as"),
        (&["cp", "a", "b", "--connect-timeout", "inf"], "expected a duration"),
        (&["cp", "a", "b", "--durability", "some"], "none, file, full"),
        (&["cp", "a", "b", "--sha256", "abcd"], "expected 64 hexadecimal digits"),
        (&["cp", "a", "b", "--md5", "4waSgw=="], "expected 32 hexadecimal digits"),
        (&["cp", "a", "b", "--endpoint", "minio:9000"], "expected http://HOST"),
        (&["cp", "a", "b", "--quiet", "--verbose"], "cannot be used with"),
        (&["cat", "a", "--range", "9-1"], "end lies before the start"),
        (&["cat", "a", "--range", "9"], "no hyphen"),
        (
            &["cat", "a", "--range", "0-1", "--md5", "00000000000000000000000000000000"],
            "whole blob",
        ),
        (&["demo", "--size", "1"], "expected 4.00 KiB"),
        (&["fetch", "a"], "unrecognized subcommand"),
    ];
    for (args, text) in cases {
        run_in(folder.path(), args).await.ends(2).says(text).says("error: ");
    }
    assert_eq!(crate::bed::names(folder.path()), Vec::<String>::new(), "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_reports_usage_errors_too() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_in(folder.path(), &["cp", "a", "--json"]).await;
    let error = ran.ends(2).json()["error"].clone();
    assert_eq!((error["kind"].as_str(), ran.stderr.as_str()), (Some("invalid"), ""));
    assert!(error["message"].as_str().unwrap().contains("the target is missing"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--help"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_that_name_no_blob() {
    let bed = Bed::http().await;
    let text = "hint: write gs://BUCKET/KEY";
    bed.run(&["stat", "gs:///key"]).await.ends(2).says("the bucket is missing").says(text);
    bed.run(&["stat", "s3://bucket"]).await.ends(2).says("the key is missing");
    bed.run(&["cp", "nosuch://b/k", "x"]).await.ends(2).says("unsupported scheme").says("gs://");
    bed.run(&["cp", "http://", "x"]).await.ends(2);
    bed.run(&["cp", "-", "-", "/dev/null"]).await.ends(2).says("it can be read once");
    bed.run(&["cat", "."]).await.ends(2).says("it is a folder");
    assert!(!Path::new(&bed.arg("x")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_refused() {
    let bed = Bed::http().await;
    std::fs::write(bed.path("a"), "a").unwrap();
    for target in ["gs://b/k", "s3://b/k", "https://u:secret@h/x?sig=secret", "nosuch://x"] {
        let ran = bed.run(&["cp", "a", target]).await;
        ran.ends(2).says("uploading is only supported to grpc:// caches");
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}
