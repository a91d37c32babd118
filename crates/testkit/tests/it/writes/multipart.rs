//! S3's uploads in parts, and their refusals.

use tidegate_testkit::{Flavour, WriteOptions, pseudo_random};

use super::{
    CHECK, CHECK_CRC32C, CHECK_CRC64_NVME, ENABLED, begin, complete, element, named, part, refusal,
    start, upload, with,
};
use crate::client::{ask, get, write};

const FULL: [&str; 2] = ["x-amz-checksum-algorithm: CRC64NVME", "x-amz-checksum-type: FULL_OBJECT"];

#[tokio::test]
async fn parts_in_any_order_become_the_object() {
    let server = start(Flavour::S3).await;
    let fields = [FULL[0], FULL[1], "x-amz-meta-id: 7", "Content-Type: text/plain"];
    let id = begin(&server, "/b/k", &fields).await;
    assert_eq!(server.unfinished_uploads(), [("/b/k".to_owned(), id.clone())]);
    let mut etags = Vec::new();
    for (number, bytes) in [(7, &b"6789"[..]), (2, b"none"), (2, b"12345")] {
        let reply = part(&server, "/b/k", &id, number, &[], bytes).await;
        assert!(reply.field("x-amz-checksum-crc64nvme").is_some(), "{}", reply.head);
        etags.push(reply.field("etag").unwrap().to_owned());
    }
    let whole = format!("x-amz-checksum-crc64nvme: {CHECK_CRC64_NVME}");
    let fields = [whole.as_str(), FULL[1], "x-amz-mp-object-size: 9", "If-None-Match: *"];
    let parts = [(2, etags[2].as_str()), (7, &etags[0])];
    let done = complete(&server, "/b/k", &id, &fields, &parts).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(element(&done, "ChecksumCRC64NVME"), Some(CHECK_CRC64_NVME));
    assert_eq!(element(&done, "ChecksumType"), Some("FULL_OBJECT"));
    let head = ask(&server, "HEAD", "/b/k", &[ENABLED]).await;
    assert!(head.field("etag").unwrap().ends_with("-2\""), "{}", head.head);
    assert_eq!(head.field("x-amz-checksum-crc64nvme"), Some(CHECK_CRC64_NVME));
    assert_eq!(head.field("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert_eq!(head.field("x-amz-meta-id"), Some("7"));
    assert_eq!(head.field("content-type"), Some("text/plain"));
    assert_eq!(get(&server, "/b/k", &[]).await.text(), "123456789");
    let second = get(&server, "/b/k?partNumber=2", &[]).await;
    assert_eq!((second.text(), second.field("x-amz-mp-parts-count")), ("6789", Some("2")));
    assert!(server.unfinished_uploads().is_empty());
    assert_eq!(server.parts_received().into_iter().collect::<Vec<_>>(), [(2, 2), (7, 1)]);
    assert_eq!(server.object("/b/k").unwrap().part_lens, [5, 4]);
}

#[tokio::test]
async fn a_complete_is_the_same_twice() {
    let server = start(Flavour::S3).await;
    let (id, parts) = upload(&server, "/b/k", &FULL, &[CHECK]).await;
    let first = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
    let again = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
    assert_eq!((first.status, first.text()), (200, again.text()));
    let fields = ["If-None-Match: *"];
    let own = complete(&server, "/b/k", &id, &fields, &named(&parts)).await;
    assert_eq!(refusal(&own), (412, "PreconditionFailed"));
}

#[tokio::test]
async fn an_etag_is_the_md5_of_the_md5s() {
    let server = start(Flavour::S3).await;
    let (id, parts) = upload(&server, "/b/k", &[], &[b"12345", b"6789"]).await;
    assert_eq!(complete(&server, "/b/k", &id, &[], &named(&parts)).await.status, 200);
    // Computed by Python: md5(md5(b"12345").digest() + md5(b"6789").digest()).
    let expected = "\"324730582f20c3f18cbb66d63a6137d2-2\"";
    assert_eq!(ask(&server, "HEAD", "/b/k", &[]).await.field("etag"), Some(expected));
}

#[tokio::test]
async fn a_composite_is_a_checksum_of_checksums() {
    let server = start(Flavour::S3).await;
    let fields = ["x-amz-checksum-algorithm: CRC32C"];
    let (id, parts) = upload(&server, "/b/k", &fields, &[CHECK, CHECK]).await;
    let done = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
    assert_eq!(element(&done, "ChecksumType"), Some("COMPOSITE"));
    let head = ask(&server, "HEAD", "/b/k", &[ENABLED]).await;
    let sum = head.field("x-amz-checksum-crc32c").unwrap();
    assert!(sum.ends_with("-2") && !sum.starts_with(CHECK_CRC32C), "{sum}");
    assert_eq!(head.field("x-amz-checksum-type"), Some("COMPOSITE"));

    let fields = ["x-amz-checksum-algorithm: CRC32C", "x-amz-checksum-type: FULL_OBJECT"];
    let (id, parts) = upload(&server, "/b/k", &fields, &[b"1234", b"56789"]).await;
    assert_eq!(complete(&server, "/b/k", &id, &[], &named(&parts)).await.status, 200);
    let head = ask(&server, "HEAD", "/b/k", &[ENABLED]).await;
    assert_eq!(head.field("x-amz-checksum-crc32c"), Some(CHECK_CRC32C));
}

#[tokio::test]
async fn a_create_refuses_what_cannot_be() {
    let server = start(Flavour::S3).await;
    let cases: [&[&str]; 3] = [
        &["x-amz-checksum-algorithm: CRC99"],
        &["x-amz-checksum-algorithm: CRC64NVME", "x-amz-checksum-type: COMPOSITE"],
        &["x-amz-checksum-algorithm: SHA256", "x-amz-checksum-type: FULL_OBJECT"],
    ];
    for fields in cases {
        let reply = write(&server, "POST", "/b/k?uploads=", fields, b"").await;
        assert_eq!(refusal(&reply), (400, "InvalidRequest"), "{fields:?}");
    }
    assert!(server.unfinished_uploads().is_empty());
}

#[tokio::test]
async fn a_part_refuses_what_is_wrong() {
    let server = start(Flavour::S3).await;
    let id = begin(&server, "/b/k", &FULL).await;
    for number in [0, 10_001] {
        let reply = part(&server, "/b/k", &id, number, &[], CHECK).await;
        assert_eq!(refusal(&reply), (400, "InvalidArgument"), "{number}");
    }
    for (path, id) in [("/b/k", "none"), ("/b/other", id.as_str())] {
        let reply = part(&server, path, id, 1, &[], CHECK).await;
        assert_eq!(refusal(&reply), (404, "NoSuchUpload"));
    }
    let wrong = format!("x-amz-checksum-crc64nvme: {CHECK_CRC64_NVME}");
    let reply = part(&server, "/b/k", &id, 1, &[&wrong], b"12345678X").await;
    assert_eq!(refusal(&reply), (400, "BadDigest"));
    let other = format!("x-amz-checksum-crc32c: {CHECK_CRC32C}");
    let reply = part(&server, "/b/k", &id, 1, &[&other], CHECK).await;
    assert_eq!(refusal(&reply), (400, "InvalidRequest"));
    assert!(server.parts_received().is_empty());
}

/// Fields and parts of a Complete, and the code of its refusal.
type Case<'a> = (&'a [&'a str], &'a [(u64, &'a str)], &'a str);

#[tokio::test]
async fn a_complete_refuses_what_is_wrong_and_keeps_the_upload() {
    let server = start(Flavour::S3).await;
    let (id, parts) = upload(&server, "/b/k", &FULL, &[b"1234", b"56789"]).await;
    let parts = named(&parts);
    let wrong_sum = "x-amz-checksum-crc64nvme: rosUhgp5mIk=";
    let cases: [Case<'_>; 8] = [
        (&[], &[], "MalformedXML"),
        (&[], &[parts[1], parts[0]], "InvalidPartOrder"),
        (&[], &[parts[0], parts[0]], "InvalidPartOrder"),
        (&[], &[parts[0], (2, "\"x\"")], "InvalidPart"),
        (&[], &[parts[0], (3, parts[1].1)], "InvalidPart"),
        (&["x-amz-mp-object-size: 10"], &parts, "InvalidRequest"),
        (&["x-amz-checksum-type: COMPOSITE"], &parts, "InvalidRequest"),
        (&[wrong_sum], &parts, "BadDigest"),
    ];
    for (fields, parts, code) in cases {
        let reply = complete(&server, "/b/k", &id, fields, parts).await;
        assert_eq!(refusal(&reply), (400, code), "{fields:?}");
    }
    let broken = write(&server, "POST", &format!("/b/k?uploadId={id}"), &[], b"<A><B></A>").await;
    assert_eq!(refusal(&broken), (400, "MalformedXML"));
    let absent = complete(&server, "/b/k", &id, &["If-Match: \"x\""], &parts).await;
    assert_eq!(refusal(&absent), (404, "NoSuchKey"));
    write(&server, "PUT", "/b/k", &[], CHECK).await;
    let taken = complete(&server, "/b/k", &id, &["If-None-Match: *"], &parts).await;
    assert_eq!(refusal(&taken), (412, "PreconditionFailed"));
    let unknown = complete(&server, "/b/k", "none", &[], &parts).await;
    assert_eq!(refusal(&unknown), (404, "NoSuchUpload"));
    assert_eq!(complete(&server, "/b/k", &id, &[], &parts).await.status, 200);
}

#[tokio::test]
async fn only_the_last_part_may_be_short() {
    let server = with(Flavour::S3, WriteOptions::default()).await;
    let long = pseudo_random(5 * 1024 * 1024, 1);
    let (id, parts) = upload(&server, "/b/k", &FULL, &[&long[1..], CHECK]).await;
    let short = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
    assert_eq!(refusal(&short), (400, "EntityTooSmall"));
    let reply = part(&server, "/b/k", &id, 1, &[], &long).await;
    let parts = [(1, reply.field("etag").unwrap()), (2, parts[1].1.as_str())];
    assert_eq!(complete(&server, "/b/k", &id, &[], &parts).await.status, 200);
    assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), [&long, CHECK].concat());
}

#[tokio::test]
async fn an_aborted_upload_is_gone() {
    let server = start(Flavour::S3).await;
    let (id, parts) = upload(&server, "/b/k", &FULL, &[CHECK]).await;
    let target = format!("/b/k?uploadId={id}");
    assert_eq!(ask(&server, "DELETE", &target, &[]).await.status, 204);
    assert_eq!(refusal(&ask(&server, "DELETE", &target, &[]).await), (404, "NoSuchUpload"));
    assert_eq!(refusal(&ask(&server, "GET", &target, &[]).await), (404, "NoSuchUpload"));
    let late = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
    assert_eq!(refusal(&late), (404, "NoSuchUpload"));
    let (id, _) = upload(&server, "/b/k", &FULL, &[CHECK]).await;
    server.forget_uploads();
    let late = part(&server, "/b/k", &id, 2, &[], CHECK).await;
    assert_eq!(refusal(&late), (404, "NoSuchUpload"));
}

#[tokio::test]
async fn a_part_may_be_a_copy() {
    let server = start(Flavour::S3).await;
    let put = write(&server, "PUT", "/b/source", &[], b"0123456789").await;
    let id = begin(&server, "/b/k", &FULL).await;
    let source = "x-amz-copy-source: b/source";
    let same = format!("x-amz-copy-source-if-match: {}", put.field("etag").unwrap());
    let target = format!("/b/k?partNumber=1&uploadId={id}");
    let fields = [source, "x-amz-copy-source-range: bytes=1-9", &same];
    let copy = ask(&server, "PUT", &target, &fields).await;
    assert_eq!(copy.status, 200, "{}", copy.text());
    assert_eq!(element(&copy, "ChecksumCRC64NVME"), Some(CHECK_CRC64_NVME));
    let etag = element(&copy, "ETag").unwrap().to_owned();
    let beyond = [source, "x-amz-copy-source-range: bytes=1-10"];
    assert_eq!(refusal(&ask(&server, "PUT", &target, &beyond).await), (400, "InvalidArgument"));
    let changed = [source, "x-amz-copy-source-if-match: \"x\""];
    let changed = ask(&server, "PUT", &target, &changed).await;
    assert_eq!(refusal(&changed), (412, "PreconditionFailed"));
    assert_eq!(complete(&server, "/b/k", &id, &[], &[(1, &etag)]).await.status, 200);
    assert_eq!(get(&server, "/b/k", &[]).await.text(), "123456789");
}
