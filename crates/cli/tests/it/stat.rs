//! Facts about a blob.

use tidegate_testkit::{Blob, Checksums, Fault, Flavour, Rule, ServerOptions};

use crate::bed::Bed;

#[tokio::test(flavor = "multi_thread")]
async fn text_output_is_a_table() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", 10 << 20);
    let ran = bed.gcs_run(&["stat", "gs://bucket/blob"]).await;
    let out = ran.ends(0).out();
    for line in [
        "source    gs://bucket/blob\n",
        "size      10485760 bytes (10.0 MiB)\n",
        "version   generation 1\n",
        "checksum  crc32c ",
        " (of the whole blob)\n",
        "type      application/octet-stream\n",
        "modified  Tue, 14 Nov 2023 22:13:21 GMT\n",
    ] {
        assert!(out.contains(line), "expected {line:?} in {out}");
    }
    assert_eq!(ran.stderr, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_output_has_its_fields() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3)).await;
    let blob = Blob::new("abc").with_checksums(Checksums::Composite { parts: 2 });
    bed.server.put("/bucket/blob", blob.with_content_encoding("gzip"));
    let endpoint = bed.server.endpoint();
    let args = ["stat", "--json", "--anonymous", "--endpoint", &endpoint, "s3://bucket/blob"];
    let json = bed.run(&args).await.ends(0).json();
    assert_eq!((&json["bytes"], &json["content_encoding"]), (&3.into(), &"gzip".into()));
    assert!(json["version"].as_str().unwrap().starts_with("etag \""), "{json}");
    assert_eq!(json["checksums"], serde_json::json!({}));
    assert_eq!(json["composite_checksums"][0]["algorithm"], "crc32c");
    assert_eq!(json["composite_checksums"][0]["parts"], 2);
    let out =
        bed.run(&["stat", "--anonymous", "--endpoint", &endpoint, "s3://bucket/blob"]).await.out();
    assert!(out.contains("(of 2 parts' checksums)"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transient_failure_is_retried() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", 10);
    bed.server.script().push(Rule::new(Fault::status(503)).times(2));
    bed.gcs_run(&["stat", "gs://bucket/blob"]).await.ends(0);
    assert_eq!(bed.server.requests(), 3);
    bed.server.script().always(Fault::status(503));
    let ran = bed.gcs_run(&["stat", "--json", "--retries", "2", "gs://bucket/blob"]).await;
    let error = ran.ends(7).json()["error"].clone();
    assert_eq!((&error["kind"], &error["attempts"]), (&"retries_exhausted".into(), &2.into()));
}
