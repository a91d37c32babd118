//! Options change what they name, and nothing else.

use tidegate_testkit::{
    CompleteAgain, Flavour, Preconditions, Server, ServerOptions, WriteChecksums, WriteEtags,
    WriteOptions,
};

use super::{
    CHECK, CHECK_CRC32C, CHECK_CRC64_NVME, CHECK_MD5_HEX, ENABLED, complete, named, part, refusal,
    upload, with,
};
use crate::client::{Client, ask, get, write};

fn any_part() -> WriteOptions {
    WriteOptions { part_bytes_min: 0, ..WriteOptions::default() }
}

#[tokio::test]
async fn a_second_complete_may_not_find_the_upload() {
    let writes = WriteOptions { complete_again: CompleteAgain::NoSuchUpload, ..any_part() };
    let server = with(Flavour::S3, writes).await;
    let (id, parts) = upload(&server, "/b/k", &[], &[CHECK]).await;
    assert_eq!(complete(&server, "/b/k", &id, &[], &named(&parts)).await.status, 200);
    let again = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
    assert_eq!(refusal(&again), (404, "NoSuchUpload"));
}

#[tokio::test]
async fn preconditions_may_be_ignored() {
    for (preconditions, put, done) in
        [(Preconditions::Ignored, 200, 200), (Preconditions::IgnoredAtComplete, 412, 200)]
    {
        let writes = WriteOptions { preconditions, ..any_part() };
        let server = with(Flavour::S3, writes).await;
        let field = ["If-None-Match: *"];
        assert_eq!(write(&server, "PUT", "/b/k", &field, b"first").await.status, 200);
        assert_eq!(write(&server, "PUT", "/b/k", &field, b"second").await.status, put);
        let (id, parts) = upload(&server, "/b/k", &[], &[CHECK]).await;
        let reply = complete(&server, "/b/k", &id, &field, &named(&parts)).await;
        assert_eq!(reply.status, done, "{preconditions:?}");
        assert_eq!(server.object("/b/k").unwrap().bytes.as_deref(), Some(CHECK));
    }
}

#[tokio::test]
async fn racing_writers_both_win_and_patient_ones_do_not() {
    for (flavour, path, fields, won, lost) in [
        (Flavour::S3, "/b/k", &["If-None-Match: *"][..], 200, 412),
        (Flavour::Gcs, "/b/k", &["x-goog-if-generation-match: 0"], 200, 412),
        (Flavour::Azure, "/a/b/k", &["If-None-Match: *", "x-ms-blob-type: BlockBlob"], 201, 409),
    ] {
        let writes = WriteOptions { preconditions: Preconditions::Racing, ..any_part() };
        let server = with(flavour, writes).await;
        let put = || write(&server, "PUT", path, fields, CHECK);
        let (first, second) = tokio::join!(put(), put());
        assert_eq!((first.status, second.status), (won, won), "{flavour:?}");
        assert_eq!(put().await.status, lost, "{flavour:?}");
    }
}

#[tokio::test]
async fn racing_completes_both_win() {
    let writes = WriteOptions { preconditions: Preconditions::Racing, ..any_part() };
    let server = with(Flavour::S3, writes).await;
    let (one, parts_of_one) = upload(&server, "/b/k", &[], &[b"one"]).await;
    let (two, parts_of_two) = upload(&server, "/b/k", &[], &[b"two"]).await;
    let (parts_of_one, parts_of_two) = (named(&parts_of_one), named(&parts_of_two));
    let fields = ["If-None-Match: *"];
    let (first, second) = tokio::join!(
        complete(&server, "/b/k", &one, &fields, &parts_of_one),
        complete(&server, "/b/k", &two, &fields, &parts_of_two),
    );
    assert_eq!((first.status, second.status), (200, 200));
}

#[tokio::test]
async fn checksums_may_be_ignored_or_refused() {
    let wrong = "x-amz-checksum-crc64nvme: AAAAAAAAAAA=";
    let ignoring = WriteOptions { checksums: WriteChecksums::Ignored, ..any_part() };
    let server = with(Flavour::S3, ignoring).await;
    assert_eq!(write(&server, "PUT", "/b/k", &[wrong], CHECK).await.status, 200);
    let head = ask(&server, "HEAD", "/b/k", &[ENABLED]).await;
    assert_eq!(head.field("x-amz-checksum-crc64nvme"), Some(CHECK_CRC64_NVME));

    let checksums = WriteChecksums::Refused(&["x-amz-checksum-crc64nvme"]);
    let server = with(Flavour::S3, WriteOptions { checksums, ..any_part() }).await;
    let put = write(&server, "PUT", "/b/k", &[wrong], CHECK).await;
    assert_eq!(refusal(&put), (501, "NotImplemented"));
    assert!(put.text().contains("x-amz-checksum-crc64nvme"), "{}", put.text());
    let named = "x-amz-checksum-algorithm: CRC64NVME";
    let created = write(&server, "POST", "/b/k?uploads=", &[named], b"").await;
    assert_eq!(refusal(&created), (501, "NotImplemented"));
    let other = format!("x-amz-checksum-crc32c: {CHECK_CRC32C}");
    assert_eq!(write(&server, "PUT", "/b/k", &[&other], CHECK).await.status, 200);
    let named = "x-amz-checksum-algorithm: CRC32C";
    assert_eq!(write(&server, "POST", "/b/k?uploads=", &[named], b"").await.status, 200);

    let checksum_code = "XAmzContentChecksumMismatch";
    let server = with(Flavour::S3, WriteOptions { checksum_code, ..any_part() }).await;
    let put = write(&server, "PUT", "/b/k", &[wrong], CHECK).await;
    assert_eq!(refusal(&put), (400, checksum_code));
}

#[tokio::test]
async fn dropped_bytes_are_counted_and_hashed() {
    let server = with(Flavour::S3, WriteOptions { discard: true, ..any_part() }).await;
    assert_eq!(write(&server, "PUT", "/b/k", &[], CHECK).await.status, 200);
    let fields = ["x-amz-checksum-algorithm: CRC64NVME"];
    let (id, parts) = upload(&server, "/b/parts", &fields, &[b"1234", b"56789"]).await;
    let whole = format!("x-amz-checksum-crc64nvme: {CHECK_CRC64_NVME}");
    let size = "x-amz-mp-object-size: 9";
    let done = complete(&server, "/b/parts", &id, &[&whole, size], &named(&parts)).await;
    assert_eq!(done.status, 200, "{}", done.text());
    for path in ["/b/k", "/b/parts"] {
        let head = ask(&server, "HEAD", path, &[ENABLED]).await;
        assert_eq!(head.field("content-length"), Some("9"));
        assert_eq!(head.field("x-amz-checksum-crc64nvme"), Some(CHECK_CRC64_NVME));
        let stored = server.object(path).unwrap();
        assert_eq!((stored.bytes, stored.len_bytes, stored.crc32c), (None, 9, 0xe306_9283));
        assert_eq!(get(&server, path, &[]).await.status, 500);
    }
    let copy = ask(&server, "PUT", "/b/copy", &["x-amz-copy-source: /b/parts"]).await;
    assert_eq!(copy.status, 200, "{}", copy.text());
    assert_eq!(server.object("/b/copy").unwrap().crc64_nvme, 0xae8b_1486_0a79_9888);
}

#[tokio::test]
async fn etags_need_not_show_the_content() {
    let server = with(Flavour::S3, WriteOptions { etags: WriteEtags::Opaque, ..any_part() }).await;
    let put = write(&server, "PUT", "/b/k", &[], CHECK).await;
    let etag = put.field("etag").unwrap();
    assert!(etag.len() == 34 && !etag.contains(CHECK_MD5_HEX), "{etag}");
    assert_eq!(ask(&server, "HEAD", "/b/k", &[]).await.field("etag"), Some(etag));
    let (id, parts) = upload(&server, "/b/k", &[], &[CHECK]).await;
    assert_eq!(complete(&server, "/b/k", &id, &[], &named(&parts)).await.status, 200);
}

#[tokio::test]
async fn limits_of_parts() {
    let writes = WriteOptions { parts_equal: true, parts_max: 3, put_bytes_max: 9, ..any_part() };
    let server = with(Flavour::S3, writes).await;
    for (parts, status) in [
        (&[&b"12"[..], b"3"][..], 200),
        (&[b"12", b"34", b"56"], 200),
        (&[b"1", b"23"], 400),
        (&[b"12", b"3", b"4"], 400),
    ] {
        let (id, parts) = upload(&server, "/b/k", &[], parts).await;
        let done = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
        assert_eq!(done.status, status, "{parts:?}");
    }
    let (id, _) = upload(&server, "/b/k", &[], &[CHECK]).await;
    let fourth = part(&server, "/b/k", &id, 4, &[], CHECK).await;
    assert_eq!(refusal(&fourth), (400, "InvalidArgument"));
    let long = part(&server, "/b/k", &id, 3, &[], b"1234567890").await;
    assert_eq!(refusal(&long), (400, "EntityTooLarge"));
}

#[tokio::test]
async fn a_server_may_be_read_only() {
    for flavour in [Flavour::Http, Flavour::S3, Flavour::Gcs, Flavour::Azure] {
        let server = with(flavour, WriteOptions { read_only: true, ..any_part() }).await;
        let put = write(&server, "PUT", "/a/b/k", &[], CHECK).await;
        assert_eq!((put.status, put.field("allow")), (405, Some("GET, HEAD")), "{flavour:?}");
        assert_eq!(server.object("/a/b/k"), None);
    }
}

#[tokio::test]
async fn ids_depend_on_the_seed() {
    let mut ids = Vec::new();
    for seed in [1, 1, 2] {
        let server = Server::start(ServerOptions { seed, ..ServerOptions::of(Flavour::S3) });
        let server = server.await.unwrap();
        let (first, _) = upload(&server, "/b/k", &[], &[]).await;
        let (second, _) = upload(&server, "/b/k", &[], &[]).await;
        assert_ne!(first, second);
        ids.push((first, second));
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}

#[tokio::test]
async fn replaced_versions_stay_if_asked() {
    let options = ServerOptions { versioning: true, ..ServerOptions::of(Flavour::S3) };
    let server = Server::start(options).await.unwrap();
    let mut client = Client::connect(&server).await;
    let first = client.write("PUT", "/b/k", &[], b"first").await;
    let second = client.write("PUT", "/b/k", &[], b"second").await;
    let id = |reply: &crate::client::Reply| reply.field("x-amz-version-id").unwrap().to_owned();
    assert_ne!(id(&first), id(&second));
    let target = format!("/b/k?versionId={}", id(&first));
    assert_eq!(client.ask("GET", &target, &[]).await.text(), "first");
}
