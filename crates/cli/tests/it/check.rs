//! `tidegate check`: what it prints, and how it ends.

use tidegate_core::{ChecksumAlgorithm, Checksummer};
use tidegate_testkit::{Blob, Checksums, pseudo_random};

use crate::bed::Bed;

const LEN: usize = 300_000;

#[tokio::test(flavor = "multi_thread")]
async fn files_are_compared_with_a_bucket() {
    let bed = Bed::gcs().await;
    let bytes = bed.put("/b/one.bin", LEN);
    bed.put("/b/two.bin", LEN);
    std::fs::create_dir(bed.path("data")).unwrap();
    std::fs::write(bed.path("data/one.bin"), &bytes).unwrap();
    std::fs::write(bed.path("data/two.bin"), &bytes[1..]).unwrap();
    let one = bed.gcs_run(&["check", "gs://b/one.bin", "data/one.bin"]).await;
    assert!(one.ends(0).out().starts_with("one.bin  same: crc32c"), "{}", one.out());
    let both = bed.gcs_run(&["check", "gs://b/one.bin", "gs://b/two.bin", "data/"]).await;
    let out = both.ends(5).out();
    assert!(out.contains("one.bin  same") && out.contains("two.bin  different: 300000 and 299999"));
    let quiet = bed.gcs_run(&["check", "-q", "gs://b/one.bin", "gs://b/two.bin", "data"]).await;
    assert!(!quiet.ends(5).out().contains("one.bin") && quiet.out().contains("two.bin"));
    let missing = bed.gcs_run(&["check", "gs://b/one.bin", "none"]).await;
    missing.ends(3).says("there is no such file");
    assert!(bed.server.log().iter().all(|logged| logged.bytes_sent == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_compared_is_unknown() {
    let bed = Bed::http().await;
    let bytes = pseudo_random(LEN, 7);
    bed.server.put("/f/blob", Blob::new(bytes.clone()).with_checksums(Checksums::None));
    std::fs::write(bed.path("copy"), &bytes).unwrap();
    let url = bed.server.url("/f/blob");
    let ran = bed.run(&["check", &url, "copy"]).await;
    let expected = "blob  unknown: the entity tag is not the MD5 of the bytes\n";
    assert_eq!(ran.ends(1).out(), expected);
    let json = bed.run(&["check", "--json", &url, "copy"]).await;
    let json = json.ends(1).json();
    assert_eq!((&json["unknown"], &json["blobs"][0]["result"]), (&1.into(), &"unknown".into()));
    bed.run(&["check", &url]).await.ends(2).says("the target");
    bed.run(&["check", "-", "copy"]).await.ends(2).says("standard input");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_names_what_files_must_be() {
    let bed = Bed::http().await;
    let sum = Checksummer::of(ChecksumAlgorithm::Sha256, b"content").unwrap().hex();
    std::fs::write(bed.path("a.txt"), "content").unwrap();
    std::fs::write(bed.path("b.txt"), "other").unwrap();
    let list = format!("{sum}  a.txt\n{sum}  b.txt\n");
    std::fs::write(bed.path("SHA256SUMS"), &list).unwrap();
    std::fs::write(bed.path("mine"), &list).unwrap();
    bed.server.put("/v1/SHA256SUMS", Blob::new(list));
    let url = bed.server.url("/v1/SHA256SUMS");
    for list in [&["SHA256SUMS"][..], &[&url], &["--checksums", "mine"]] {
        let run = async |files: &[&str]| bed.run(&[&["check"], files, list].concat()).await;
        assert_eq!(run(&["a.txt"]).await.ends(0).out(), "a.txt  same: sha256\n");
        let both = run(&["a.txt", "b.txt"]).await;
        assert!(both.ends(5).out().contains("b.txt  different: sha256:"), "{}", both.out());
    }
    bed.run(&["check", "c.txt", "SHA256SUMS"]).await.ends(2).says("no checksum of c.txt");
    // Two lists are compared as files.
    std::fs::create_dir(bed.path("old")).unwrap();
    std::fs::copy(bed.path("SHA256SUMS"), bed.path("old/SHA256SUMS")).unwrap();
    let ran = bed.run(&["check", "SHA256SUMS", "old/SHA256SUMS"]).await;
    assert!(ran.ends(0).out().starts_with("SHA256SUMS  same"));
}
