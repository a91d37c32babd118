//! What `cp` sends with an upload: headers, encryption, a coding. And what it says before the first
//! byte: that standard input has a limit, that a service does not keep conditions.

use std::io::Read as _;

use tidegate_testkit::{Flavour, Preconditions, ServerOptions, WriteOptions};

use crate::bed::{Bed, command, finish, shell};
use crate::upload::{bucket, run};

const TEXT: &str = "a line of text, and another line of text\n";

fn text(bed: &Bed, name: &str) -> Vec<u8> {
    let bytes = TEXT.repeat(3_000).into_bytes();
    std::fs::write(bed.path(name), &bytes).unwrap();
    bytes
}

fn decoded(coding: &str, stored: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(stored).read_to_end(&mut bytes),
        _ => zstd::Decoder::new(stored).unwrap().read_to_end(&mut bytes),
    }
    .unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signature_covers_headers_of_the_blob() {
    let bed = bucket().await;
    text(&bed, "file");
    let endpoint = bed.server.endpoint();
    let mut run = command(bed.folder.path());
    run.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
    run.args(["cp", "file", "s3://bucket/file", "--endpoint", &endpoint]);
    run.args(["--header", "Content-Disposition: inline", "--sse", "aws:kms:arn:aws:kms:a:1:key/2"]);
    finish(run).await.ends(0);
    let log = bed.server.log();
    let put = log.iter().find(|seen| seen.method == "PUT").unwrap();
    let signature = put.header("authorization").unwrap();
    let signed = signature.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    for (name, value) in [
        ("content-disposition", "inline"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "arn:aws:kms:a:1:key/2"),
    ] {
        assert_eq!(put.header(name), Some(value));
        assert!(signed.split(';').any(|covered| covered == name), "{name}: {signature}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_are_stored_shown_and_copied() {
    let bed = bucket().await;
    text(&bed, "file");
    let tags = ["--tag", "team=media", "--tag", "keep=a b"];
    run(&bed, &[&["cp", "file", "s3://bucket/a"][..], &tags].concat()).await.ends(0);
    let expected = [("team", "media"), ("keep", "a b")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(bed.server.object("/bucket/a").unwrap().tags, expected);
    run(&bed, &["mv", "s3://bucket/a", "s3://bucket/b"]).await.ends(0);
    assert_eq!(bed.server.object("/bucket/b").unwrap().tags, expected);
    let out = run(&bed, &["stat", "s3://bucket/b"]).await.ends(0).out();
    assert!(out.contains("tags      2\n"), "{out}");
    assert_eq!(run(&bed, &["stat", "--json", "s3://bucket/b"]).await.ends(0).json()["tags"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_compressed_on_the_way() {
    for (flag, coding) in
        [("--gzip", "gzip"), ("--gzip=9", "gzip"), ("--zstd", "zstd"), ("--zstd=19", "zstd")]
    {
        let bed = bucket().await;
        let bytes = text(&bed, "a.json");
        let ran = run(&bed, &["cp", "--json", flag, "a.json", "s3://bucket/a.json"]).await;
        let json = ran.ends(0).json();
        let object = bed.server.object("/bucket/a.json").unwrap();
        let stored = object.bytes.unwrap();
        assert_eq!(decoded(coding, &stored), bytes, "{flag}");
        assert_eq!(json["bytes"], stored.len(), "{flag}");
        assert_eq!(json["source_bytes"], bytes.len(), "{flag}");
        assert_eq!(object.content_type, "application/json", "{flag}");
        let ran = run(&bed, &["stat", "--json", "s3://bucket/a.json"]).await;
        assert_eq!(ran.ends(0).json()["content_encoding"], coding);
        // It comes back as it is stored.
        run(&bed, &["cp", "s3://bucket/a.json", "back"]).await.ends(0);
        assert_eq!(bed.read("back"), stored);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_compressed_on_the_way() {
    let bed = bucket().await;
    let bytes = text(&bed, "in");
    let script = "cat in | \"$0\" cp --gzip - s3://bucket/out --anonymous --endpoint \"$1\"";
    let ran = finish(shell(bed.folder.path(), script, &[&bed.server.endpoint()])).await;
    ran.ends(0).says("compressed from 120 KiB  verified crc64nvme");
    let stored = bed.server.object("/bucket/out").unwrap().bytes.unwrap();
    assert_eq!(decoded("gzip", &stored), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_contradicts_itself_is_a_usage_error() {
    let bed = bucket().await;
    text(&bed, "file");
    for (flags, says) in [
        (&["--gzip", "--content-encoding", "br"][..], "--content-encoding"),
        (&["--gzip", "--zstd"], "--zstd"),
        (&["--gzip=10"], "1..=9"),
        (&["--zstd=20"], "1..=19"),
        (&["--sse", "kms"], "expected AES256"),
    ] {
        let ran = run(&bed, &[&["cp", "file", "s3://bucket/file"][..], flags].concat()).await;
        ran.ends(2).says(says);
    }
    run(&bed, &["cp", "--sse", "AES256", "file", "gs://bucket/file"]).await.ends(2).says("s3://");
    assert!(bed.server.object("/bucket/file").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_standard_input_is_said_before_its_first_byte() {
    const MIB: usize = 1 << 20;
    let bed = bucket().await;
    // The name of a service that takes parts of one length only.
    let equal = format!("{}/a.r2.cloudflarestorage.com", bed.server.endpoint());
    let cp = |flags: &str, endpoint: &str| {
        let script = format!(
            "head -c {} /dev/zero | \"$0\" cp {flags} - s3://bucket/out --anonymous --endpoint \"$1\"",
            30 * MIB
        );
        finish(shell(bed.folder.path(), &script, &[endpoint]))
    };
    let parts = || bed.server.object("/a.r2.cloudflarestorage.com/bucket/out").unwrap().part_lens;
    let ran = cp("", &equal).await;
    ran.ends(0).says("standard input: at most 78.1 GiB fit; --expected-size chooses longer parts");
    assert_eq!(parts()[0], 8 << 20);
    let ran = cp("--expected-size 200GiB", &equal).await;
    ran.ends(0).says("standard input: at most 215 GiB fit");
    assert_eq!(parts(), [22 << 20, 8 << 20]);
    for (flags, endpoint) in [("--quiet", &equal), ("", &bed.server.endpoint())] {
        let ran = cp(flags, endpoint).await;
        assert!(!ran.ends(0).stderr.contains("at most"), "{flags}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_ignores_conditions_is_refused_unless_it_is_trusted() {
    let writes = WriteOptions { preconditions: Preconditions::Ignored, ..WriteOptions::default() };
    let bed = Bed::new(ServerOptions { writes, ..ServerOptions::of(Flavour::S3) }).await;
    text(&bed, "file");
    let cp = ["cp", "--no-clobber", "file", "s3://bucket/file"];
    let ran = run(&bed, &cp).await;
    ran.ends(2).says("8 of 8 concurrent writers with If-None-Match").says("--trust-conditions");
    assert!(bed.server.object("/bucket/file").is_none());
    run(&bed, &[&cp[..], &["--trust-conditions"]].concat()).await.ends(0);
    assert!(bed.server.object("/bucket/file").is_some());
}
