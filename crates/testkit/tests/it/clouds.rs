//! Each flavour shows the fields, versions, checksums and errors of its cloud.

use tidegate_testkit::{Blob, Checksums, Flavour, Server, ServerOptions};

use crate::client::{Client, get};

/// The content whose checksums everyone publishes.
const CHECK: &[u8] = b"123456789";
const CHECK_CRC32C: &str = "4waSgw==";
const CHECK_MD5: &str = "JfnnlDI7RTiF9RgfG2JNCw==";
const CHECK_CRC64_NVME: &str = "rosUhgp5mIg=";
const ENABLED: &str = "x-amz-checksum-mode: ENABLED";

async fn start(flavour: Flavour, versioning: bool) -> Server {
    Server::start(ServerOptions { versioning, ..ServerOptions::of(flavour) }).await.unwrap()
}

#[tokio::test]
async fn gcs_sends_generation_and_hashes_of_the_whole_with_a_range() {
    let server = start(Flavour::Gcs, false).await;
    server.put("/b/a/b", Blob::new(CHECK).with_version(1_700_000_000_000_123));
    let reply = get(&server, "/b/a%2Fb", &["Range: bytes=0-3"]).await;
    assert_eq!((reply.status, reply.text()), (206, "1234"));
    assert_eq!(reply.field("x-goog-generation"), Some("1700000000000123"));
    assert_eq!(reply.field("x-goog-metageneration"), Some("1"));
    assert_eq!(reply.field("x-goog-stored-content-encoding"), Some("identity"));
    assert_eq!(reply.field("x-goog-stored-content-length"), Some("9"));
    let hashes = [format!("crc32c={CHECK_CRC32C}"), format!("md5={CHECK_MD5}")];
    assert_eq!(reply.all("x-goog-hash"), hashes);
    assert!(reply.field("etag").is_some() && reply.field("last-modified").is_some());
}

#[tokio::test]
async fn gcs_serves_a_generation_or_says_that_it_is_gone() {
    for (versioning, status) in [(false, 404), (true, 200)] {
        let server = start(Flavour::Gcs, versioning).await;
        server.put("/b/k", Blob::new(&b"old"[..]).with_version(7));
        assert_eq!(get(&server, "/b/k?generation=7", &[]).await.text(), "old");
        server.replace("/b/k", Blob::new(&b"new"[..]));
        assert_eq!(server.blob("/b/k").map(|blob| blob.version()), Some(8));
        let pinned = get(&server, "/b/k?generation=7", &[]).await;
        assert_eq!(pinned.status, status);
        assert_eq!(pinned.text().contains("old"), versioning);
        assert_eq!(get(&server, "/b/k?generation=8", &[]).await.text(), "new");
        assert_eq!(get(&server, "/b/k?generation=x", &[]).await.status, 404);
        let field = "x-goog-if-generation-match: 7";
        assert_eq!(get(&server, "/b/k", &[field]).await.status, 412);
    }
}

#[tokio::test]
async fn gcs_composite_has_a_crc_and_no_md5() {
    let server = start(Flavour::Gcs, false).await;
    server.put("/b/k", Blob::new(CHECK).with_checksums(Checksums::Composite { parts: 3 }));
    let reply = get(&server, "/b/k", &[]).await;
    assert_eq!(reply.all("x-goog-hash"), [format!("crc32c={CHECK_CRC32C}")]);
    assert_eq!(reply.field("x-goog-component-count"), Some("3"));
}

#[tokio::test]
async fn s3_sends_checksums_only_on_request_and_only_of_the_whole() {
    let server = start(Flavour::S3, false).await;
    server.put("/b/k", Blob::new(CHECK));
    let mut client = Client::connect(&server).await;
    let sum = "x-amz-checksum-crc64nvme";
    assert_eq!(client.ask("HEAD", "/b/k", &[]).await.field(sum), None);
    let head = client.ask("HEAD", "/b/k", &[ENABLED]).await;
    assert_eq!(head.field(sum), Some(CHECK_CRC64_NVME));
    assert_eq!(head.field("x-amz-checksum-type"), Some("FULL_OBJECT"));
    let part = client.ask("GET", "/b/k", &[ENABLED, "Range: bytes=0-8"]).await;
    assert_eq!((part.status, part.field(sum)), (206, None));
    assert_eq!(client.ask("GET", "/b/k", &[ENABLED]).await.field(sum), Some(CHECK_CRC64_NVME));
    let etag = head.field("etag").unwrap().to_owned();
    assert_eq!(etag.len(), 34, "quoted, and as long as an MD5: {etag}");
    assert_eq!(client.ask("GET", "/b/k", &[&format!("If-Match: {etag}")]).await.status, 200);
    assert_eq!(head.field("x-amz-version-id"), None);
}

#[tokio::test]
async fn s3_multipart_has_a_checksum_of_checksums() {
    let server = start(Flavour::S3, false).await;
    server.put("/b/k", Blob::new(CHECK).with_checksums(Checksums::Composite { parts: 3 }));
    let head = Client::connect(&server).await.ask("HEAD", "/b/k", &[ENABLED]).await;
    assert_eq!(head.field("x-amz-checksum-crc64nvme"), None);
    assert_eq!(head.field("x-amz-checksum-type"), Some("COMPOSITE"));
    let sum = head.field("x-amz-checksum-crc32c").unwrap();
    assert!(sum.ends_with("-3") && !sum.starts_with(CHECK_CRC32C), "{sum}");
    assert!(head.field("etag").unwrap().ends_with("-3\""));
}

#[tokio::test]
async fn s3_and_azure_serve_versions_by_their_ids() {
    let cases = [
        (Flavour::S3, "/b/k", "x-amz-version-id", "versionId"),
        (Flavour::Azure, "/a/b/k", "x-ms-version-id", "versionid"),
    ];
    for (flavour, path, field, parameter) in cases {
        let server = start(flavour, true).await;
        server.put(path, Blob::new(&b"old"[..]));
        let id = get(&server, path, &[]).await.field(field).unwrap().to_owned();
        server.replace(path, Blob::new(&b"new"[..]));
        assert_eq!(get(&server, path, &[]).await.text(), "new");
        assert_eq!(get(&server, &format!("{path}?{parameter}={id}"), &[]).await.text(), "old");
        let missing = get(&server, &format!("{path}?{parameter}=none"), &[]).await;
        assert_eq!(missing.status, 404);
        assert_eq!(missing.text().contains("<Code>NoSuchVersion</Code>"), flavour == Flavour::S3);
    }
}

#[tokio::test]
async fn azure_sends_the_md5_of_the_whole_and_reads_its_own_range_header() {
    let server = start(Flavour::Azure, false).await;
    server.put("/account/box/a/b", Blob::new(CHECK));
    let fields = ["x-ms-version: 2025-01-05", "x-ms-range: bytes=1-2", "Range: bytes=5-6"];
    let part = get(&server, "/account/box/a/b", &fields).await;
    assert_eq!((part.status, part.text()), (206, "23"));
    assert_eq!(part.field("x-ms-version"), Some("2025-01-05"));
    assert_eq!(part.field("x-ms-blob-content-md5"), Some(CHECK_MD5));
    assert_eq!(part.field("content-md5"), None);
    let whole = get(&server, "/account/box/a/b", &[]).await;
    assert_eq!(whole.field("content-md5"), Some(CHECK_MD5));
    assert_eq!(whole.field("x-ms-blob-type"), Some("BlockBlob"));
    let etag = format!("If-Match: {}", whole.field("etag").unwrap());
    server.replace("/account/box/a/b", Blob::new(CHECK));
    let changed = get(&server, "/account/box/a/b", &[&etag]).await;
    assert_eq!((changed.status, changed.field("x-ms-error-code")), (412, Some("ConditionNotMet")));
}

#[tokio::test]
async fn errors_have_the_clouds_codes() {
    let cases = [
        (Flavour::Gcs, "/b/x", "NoSuchKey", "/x/k", "NoSuchBucket"),
        (Flavour::S3, "/b/x", "NoSuchKey", "/x/k", "NoSuchBucket"),
        (Flavour::Azure, "/a/b/x", "BlobNotFound", "/a/x/k", "ContainerNotFound"),
    ];
    for (flavour, no_key, no_key_code, no_bucket, no_bucket_code) in cases {
        let server = start(flavour, false).await;
        server.put("/b/k", Blob::new(CHECK));
        server.put("/a/b/k", Blob::new(CHECK));
        for (target, code) in [(no_key, no_key_code), (no_bucket, no_bucket_code)] {
            let reply = get(&server, target, &[]).await;
            assert_eq!(reply.status, 404, "{flavour:?} {target}");
            let expected = format!("<Code>{code}</Code>");
            assert!(reply.text().contains(&expected), "{flavour:?}: {}", reply.text());
        }
    }
}

#[tokio::test]
async fn checksums_can_be_wrong_or_absent() {
    let cases = [
        (Flavour::Gcs, "/b/k", "x-goog-hash"),
        (Flavour::S3, "/b/k", "x-amz-checksum-crc64nvme"),
        (Flavour::Azure, "/a/b/k", "content-md5"),
    ];
    for (flavour, path, name) in cases {
        let server = start(flavour, false).await;
        let mut seen = Vec::new();
        for checksums in [Checksums::Correct, Checksums::Wrong, Checksums::None] {
            server.put(path, Blob::new(CHECK).with_checksums(checksums));
            server.prepare(path).await.unwrap();
            let reply = get(&server, path, &[ENABLED]).await;
            seen.push(reply.field(name).map(str::to_owned));
        }
        assert!(seen[0].is_some() && seen[1].is_some(), "{flavour:?}: {seen:?}");
        assert_ne!(seen[0], seen[1]);
        assert_eq!(seen[2], None);
    }
}
