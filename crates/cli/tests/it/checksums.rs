//! `cp --checksums`: blobs are compared with a list such as `SHA256SUMS`.

use tidegate_core::{ChecksumAlgorithm, Checksummer};

use crate::bed::Bed;

fn hex(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> String {
    Checksummer::of(algorithm, bytes).unwrap().hex()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_blob_must_have_the_checksum_of_its_line() {
    let bed = Bed::http().await;
    let (a, b) = (bed.put("/dist/a.bin", 100_000), bed.put("/dist/b.bin", 1_000));
    let (sha256, md5) = (ChecksumAlgorithm::Sha256, ChecksumAlgorithm::Md5);
    let list = format!("{}  dist/a.bin\nMD5 (b.bin) = {}\n", hex(sha256, &a), hex(md5, &b));
    std::fs::write(bed.path("SUMS"), &list).unwrap();
    bed.server.put("/dist/SUMS", tidegate_testkit::Blob::new(list));
    std::fs::create_dir(bed.path("out")).unwrap();
    let (from_a, from_b) = (bed.server.url("/dist/a.bin"), bed.server.url("/dist/b.bin"));
    for list in ["SUMS".to_owned(), bed.server.url("/dist/SUMS")] {
        let ran = bed.run(&["cp", "--json", "--checksums", &list, &from_a, &from_b, "out/"]).await;
        let blobs = ran.ends(0).json()["blobs"].clone();
        assert_eq!(blobs[0]["verified"], serde_json::json!(["sha256"]), "{list}");
        assert_eq!(blobs[1]["verified"], serde_json::json!(["md5"]), "{list}");
        assert!(bed.read("out/a.bin") == a && bed.read("out/b.bin") == b);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_and_a_missing_line_are_errors() {
    let bed = Bed::http().await;
    bed.put("/a.bin", 100_000);
    let source = bed.server.url("/a.bin");
    std::fs::write(bed.path("wrong"), format!("{}  a.bin\n", "0".repeat(64))).unwrap();
    std::fs::write(bed.path("other"), format!("{}  b.bin\n", "0".repeat(64))).unwrap();
    std::fs::write(bed.path("page"), "<html>not found</html>\n").unwrap();
    let cp = async |list: &str| bed.run(&["cp", "--checksums", list, &source, "out"]).await;
    cp("wrong").await.ends(5).says("sha256:0000");
    let before = bed.server.requests();
    cp("other").await.ends(2).says("no checksum of a.bin").says("--checksums");
    cp("page").await.ends(2).says("line 1 is no checksum");
    cp("missing").await.ends(3);
    assert_eq!(bed.server.requests(), before, "an error in the list costs no request for a blob");
    assert!(!bed.path("out").exists());
}
