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
async fn places_that_store_nothing_are_refused_as_targets() {
    let bed = Bed::http().await;
    std::fs::write(bed.path("a"), "a").unwrap();
    for target in ["nosuch://x", "ftp://u:secret@h/x?sig=secret"] {
        let ran = bed.run(&["cp", "a", target]).await;
        ran.ends(2).says("nothing can be stored there");
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_durations_and_digests_have_several_forms() {
    let bed = Bed::http().await;
    bed.server.put("/f/abc", tidegate_testkit::Blob::new("abc"));
    let url = &*bed.server.url("/f/abc");
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let named = &*format!("sha256:{hex}");
    for more in [
        &["--memory", "64M", "--shard-size", "1MB"][..],
        &["--memory", "1G", "--shard-size", "512K", "--min-speed", "1KB"],
        &["--stall", "500ms", "--deadline", "2h", "--connect-timeout", "30s"],
        &["--stall", "0.5", "--deadline", "5m", "--min-speed-time", "0"],
        &["--sha256", hex],
        &["--sha256", named],
    ] {
        bed.run(&[&["cp", url, "/dev/null"][..], more].concat()).await.ends(0);
    }
    bed.run(&["chunk", "--avg", "64K", "nothing"]).await.ends(3);
    let wrong = &*format!("md5:{hex}");
    bed.run(&["cp", url, "x", "--sha256", wrong]).await.ends(2).says("64 hexadecimal digits");
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_of_other_tools_name_their_counterpart() {
    let folder = tempfile::tempdir().unwrap();
    for (flag, tip) in [
        ("--recursive", "there is no recursive copy"),
        ("-r", "there is no recursive copy"),
        ("--no-sign-request", "--anonymous"),
        ("--endpoint-url", "--endpoint URL"),
        ("--endpoint-url=http://h", "--endpoint URL"),
        ("--profile", "AWS_PROFILE"),
        ("-P", "--window"),
        ("--concurrency", "--window"),
        ("--no-check-certificate", "--ca-cert"),
        ("--output", "tidegate cp SOURCE FILE"),
        ("-o", "tidegate cp SOURCE FILE"),
    ] {
        let ran = run_in(folder.path(), &["cp", flag, "a", "b"]).await;
        ran.ends(2).says("unexpected argument").says("tip: ").says(tip);
        let json = run_in(folder.path(), &["cp", "--json", flag, "a", "b"]).await.ends(2).json();
        assert!(json["error"]["hint"].as_str().unwrap().contains(tip), "{flag}: {json}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_with_a_mistake_ask_what_was_meant() {
    let bed = Bed::http().await;
    std::fs::write(bed.path("file"), "x").unwrap();
    for (text, meant) in [
        ("s3:/bucket/key", "did you mean s3://bucket/key?"),
        ("gs:bucket/key", "did you mean gs://bucket/key?"),
        ("localhost:8980/main", "did you mean http://localhost:8980/main?"),
    ] {
        for args in
            [&["cp", text, "out"][..], &["cat", text], &["stat", text], &["cp", "file", text]]
        {
            bed.run(args).await.ends(2).says(meant);
        }
    }
    // A file may have such a name.
    std::fs::write(bed.path("gs:b"), "x").unwrap();
    bed.run(&["cp", "gs:b", "out"]).await.ends(0);
    assert_eq!(bed.names(), ["file", "gs:b", "out"]);
}
