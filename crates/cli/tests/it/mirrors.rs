//! `cp --mirror`: one blob from several places.

use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_testkit::{Fault, Rule};

use crate::bed::{Bed, SHARD};

const LEN: usize = 1_000_000;

/// Two servers with the same blob, its SHA-256, and the URLs.
async fn beds() -> (Bed, Bed, String, [String; 2]) {
    let (one, two) = (Bed::http().await, Bed::http().await);
    let bytes = one.put("/f/a", LEN);
    two.put("/f/a", LEN);
    let urls = [one.server.url("/f/a"), two.server.url("/f/a")];
    let hex = Checksummer::of(ChecksumAlgorithm::Sha256, &bytes).unwrap().hex();
    (one, two, hex, urls)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_says_what_each_place_delivered() {
    let (one, _two, hex, [url, mirror]) = beds().await;
    let args = ["cp", "--sha256", &hex, "--shard-size", SHARD, "--mirror", &mirror, &url];
    let json = one.run(&[&args[..], &["b", "--json"]].concat()).await.ends(0).json();
    let bytes = |index: usize| json["mirrors"][index]["bytes"].as_u64().unwrap();
    assert_eq!(json["mirrors"][0]["source"], url);
    assert_eq!(json["mirrors"][1]["source"], mirror);
    assert!(bytes(0) > 0 && bytes(1) > 0, "{json}");
    assert_eq!(bytes(0) + bytes(1), LEN as u64);
    assert!(json["mirrors"][0]["unused"].is_null(), "{json}");
    let ran = one.run(&[&args[..], &["c", "-v"]].concat()).await;
    ran.ends(0).says("verified sha256").says(&format!("  {url}: ")).says(&format!("  {mirror}: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_fails_is_noted_and_dropped() {
    let (one, two, hex, [url, mirror]) = beds().await;
    two.server.script().push(Rule::new(Fault::status(500)).nth(2).always());
    let args = ["cp", "--sha256", &hex, "--shard-size", SHARD, "--retries", "2"];
    let ran = one.run(&[&args[..], &["--mirror", &mirror, &url, "a"]].concat()).await;
    ran.ends(0).says(&format!("note: {mirror} was ")).says("gave up after");
    assert_eq!(one.read("a").len(), LEN);
    // The source itself may be the one.
    one.server.remove("/f/a");
    two.server.script().clear();
    let ran = one.run(&[&args[..], &["--mirror", &mirror, &url, "b"]].concat()).await;
    ran.ends(0).says(&format!("note: {url} was not used: "));
    assert_eq!(one.read("b").len(), LEN);
    // With none left, the error names all.
    two.server.remove("/f/a");
    let ran = one.run(&[&args[..], &["--mirror", &mirror, &url, "c"]].concat()).await;
    ran.ends(3).says("all 2 mirrors failed").says(&format!("{url}: ")).says(&format!("{mirror}: "));
    assert_eq!(one.names(), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_leave_no_file() {
    let (one, two, hex, [url, mirror]) = beds().await;
    for spot in (0..LEN as u64).step_by(64 << 10) {
        let covers = tidegate_testkit::RangeMatch::Covers(spot);
        two.server.script().push(Rule::new(Fault::FlipBit(spot)).range(covers).always());
    }
    let args = ["cp", "--sha256", &hex, "--shard-size", SHARD, "--mirror", &mirror, &url, "a"];
    one.run(&args).await.ends(5).says(&url).says(&mirror).says("hint: one of the mirrors");
    assert!(one.names().is_empty(), "{:?}", one.names());
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_mirrors_are_reported_before_the_first_request() {
    let (one, two, _, [url, mirror]) = beds().await;
    std::fs::write(one.path("old"), "old").unwrap();
    let run = async |args: &[&str]| one.run(&[&["cp", "--mirror"], args].concat()).await;
    run(&[&mirror, &url, &url, "."]).await.ends(2).says("several sources");
    run(&["-", &url, "a"]).await.ends(2).says("standard input");
    run(&[&mirror, "-", "a"]).await.ends(2).says("standard input");
    run(&["nosuch://x/y", &url, "a"]).await.ends(2).says("unsupported scheme");
    run(&[&one.arg("old"), &url, "old"]).await.ends(2).says("the same file");
    run(&[&mirror, "old", "grpc://127.0.0.1:9/main"]).await.ends(2).says("--mirror");
    assert_eq!((one.server.requests(), two.server.requests()), (0, 0));
    assert_eq!(one.names(), ["old"]);
}
