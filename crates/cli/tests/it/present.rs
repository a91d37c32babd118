//! Targets that are there already: `--skip-existing` and `--if-changed`.

use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_testkit::{Blob, pseudo_random};

use crate::bed::Bed;

const LEN: usize = 300_000;

fn sha256(bytes: &[u8]) -> String {
    Checksummer::of(ChecksumAlgorithm::Sha256, bytes).unwrap().hex()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_copy_is_not_fetched_again() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", LEN);
    let url = bed.server.url("/f/blob");
    bed.run(&["cp", "--if-changed", &url, "out"]).await.ends(0).says("in ");
    assert_eq!(bed.read("out"), bytes);
    bed.server.clear_log();
    let ran = bed.run(&["cp", "--if-changed", &url, "out"]).await;
    ran.ends(0).says("out  unchanged: same version");
    let sent: u64 = bed.server.log().iter().map(|logged| logged.bytes_sent).sum();
    assert_eq!(sent, 0, "no byte of the blob is sent");
    let json = bed.run(&["cp", "--json", "--if-changed", &url, "out"]).await.json();
    assert_eq!((&json["skipped"], &json["bytes"]), (&"unchanged".into(), &LEN.into()));

    let newer = pseudo_random(LEN, 8);
    bed.server.replace("/f/blob", Blob::new(newer.clone()).with_version(2));
    bed.run(&["cp", "--if-changed", &url, "out"]).await.ends(0).says("in ");
    assert_eq!(bed.read("out"), newer);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_copy_is_fetched_again() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", LEN);
    let url = bed.server.url("/f/blob");
    bed.run(&["cp", &url, "out"]).await.ends(0);
    std::fs::write(bed.path("out"), vec![7; LEN]).unwrap();
    bed.run(&["cp", "--if-changed", &url, "out"]).await.ends(0).says("in ");
    assert_eq!(bed.read("out"), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_checksum_decides_without_a_request() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", LEN);
    let (url, hash) = (bed.server.url("/f/blob"), sha256(&bytes));
    std::fs::write(bed.path("out"), &bytes).unwrap();
    let args = ["cp", "--if-changed", "--sha256", &hash, &url, "out"];
    bed.run(&args).await.ends(0).says("unchanged: verified sha256");
    assert_eq!(bed.server.requests(), 0);
    std::fs::write(bed.path("out"), &bytes[1..]).unwrap();
    bed.run(&args).await.ends(0).says("verified sha256");
    assert_eq!(bed.read("out"), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_target_is_skipped_whatever_it_holds() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/one", LEN);
    bed.put("/f/two", LEN);
    std::fs::write(bed.path("two"), "mine").unwrap();
    let (one, two) = (bed.server.url("/f/one"), bed.server.url("/f/two"));
    let ran = bed.run(&["cp", "--skip-existing", &one, &two, "."]).await;
    ran.ends(0).says("two  skipped: the target exists");
    assert_eq!((bed.read("one"), bed.read("two")), (bytes, b"mine".to_vec()));
    assert!(bed.server.log().iter().all(|logged| !logged.path_and_query.contains("two")));
    bed.run(&["cp", "--skip-existing", "--if-changed", &one, "."]).await.ends(2);
}
