//! One object a request of S3.

use tidegate_testkit::Flavour;

use super::{
    CHECK, CHECK_CRC32, CHECK_CRC32C, CHECK_CRC64_NVME, CHECK_MD5, CHECK_MD5_HEX, CHECK_SHA256,
    ENABLED, element, elements, refusal, start,
};
use crate::client::{Client, End, ask, get, write};

#[tokio::test]
async fn an_object_has_what_its_put_said() {
    let server = start(Flavour::S3).await;
    let fields = [
        "Content-Type: text/plain",
        "Cache-Control: no-store",
        "x-amz-storage-class: STANDARD_IA",
        "x-amz-meta-Tidegate-Upload: 1f",
    ];
    let put = write(&server, "PUT", "/b/a%20k", &fields, CHECK).await;
    assert_eq!((put.status, put.end), (200, End::Complete));
    let etag = format!("\"{CHECK_MD5_HEX}\"");
    assert_eq!(put.field("etag"), Some(etag.as_str()));
    assert_eq!(put.field("x-amz-checksum-crc64nvme"), Some(CHECK_CRC64_NVME));
    let head = ask(&server, "HEAD", "/b/a%20k", &[ENABLED]).await;
    let expected = [
        ("etag", etag.as_str()),
        ("content-length", "9"),
        ("content-type", "text/plain"),
        ("cache-control", "no-store"),
        ("x-amz-storage-class", "STANDARD_IA"),
        ("x-amz-meta-tidegate-upload", "1f"),
        ("x-amz-checksum-crc64nvme", CHECK_CRC64_NVME),
        ("x-amz-checksum-type", "FULL_OBJECT"),
    ];
    for (name, value) in expected {
        assert_eq!(head.field(name), Some(value), "{name}: {}", head.head);
    }
    assert_eq!(get(&server, "/b/a%20k", &["Range: bytes=2-3"]).await.text(), "34");
    let stored = server.object("/b/a k").unwrap();
    assert_eq!(stored.bytes.as_deref(), Some(CHECK));
    assert_eq!((stored.len_bytes, stored.crc32c), (9, 0xe306_9283));
    assert_eq!(stored.crc64_nvme, 0xae8b_1486_0a79_9888);
    assert_eq!(stored.metadata("tidegate-upload"), Some("1f"));
    assert_eq!(server.object("/b/none"), None);
    server.idle().await;
    let log = server.log();
    assert_eq!((log[0].method.as_str(), log[0].body_bytes_received), ("PUT", 9));
}

#[tokio::test]
async fn a_put_is_verified_against_each_checksum() {
    let server = start(Flavour::S3).await;
    let right = [
        ("x-amz-checksum-crc64nvme", CHECK_CRC64_NVME),
        ("x-amz-checksum-crc32c", CHECK_CRC32C),
        ("x-amz-checksum-crc32", CHECK_CRC32),
        ("x-amz-checksum-sha256", CHECK_SHA256),
        ("Content-MD5", CHECK_MD5),
    ];
    for (name, value) in right {
        let field = format!("{name}: {value}");
        let put = write(&server, "PUT", "/b/k", &[&field], CHECK).await;
        assert_eq!(put.status, 200, "{field}: {}", put.text());
        if name.starts_with("x-amz") {
            let head = ask(&server, "HEAD", "/b/k", &[ENABLED]).await;
            assert_eq!(head.field(name), Some(value));
        }
        server.remove("/b/k");
        let wrong = write(&server, "PUT", "/b/k", &[&field], b"12345678X").await;
        assert_eq!(refusal(&wrong), (400, "BadDigest"), "{field}");
        assert_eq!(server.object("/b/k"), None, "a refused write has no effect");
    }
    let cases = [
        ("Content-MD5: none", "InvalidDigest"),
        ("x-amz-checksum-crc32c: none", "InvalidRequest"),
        (
            "x-amz-content-sha256: \
             15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb226",
            "XAmzContentSHA256Mismatch",
        ),
    ];
    for (field, code) in cases {
        let put = write(&server, "PUT", "/b/k", &[field], CHECK).await;
        assert_eq!(refusal(&put), (400, code), "{field}");
    }
    let signed = "x-amz-content-sha256: \
                  15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
    assert_eq!(write(&server, "PUT", "/b/k", &[signed], CHECK).await.status, 200);
    let unsigned = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
    assert_eq!(write(&server, "PUT", "/b/k", &[unsigned], CHECK).await.status, 200);
    let chunked = write(&server, "PUT", "/b/k", &["Content-Encoding: aws-chunked"], CHECK).await;
    assert_eq!(refusal(&chunked), (501, "NotImplemented"));
}

#[tokio::test]
async fn preconditions_of_a_put() {
    let server = start(Flavour::S3).await;
    let put = async |field: &str| write(&server, "PUT", "/b/k", &[field], CHECK).await;
    assert_eq!(refusal(&put("If-Match: \"x\"").await), (404, "NoSuchKey"));
    assert_eq!(put("If-None-Match: *").await.status, 200);
    assert_eq!(refusal(&put("If-None-Match: *").await), (412, "PreconditionFailed"));
    assert_eq!(refusal(&put("If-None-Match: \"x\"").await), (501, "NotImplemented"));
    assert_eq!(refusal(&put("If-Match: \"x\"").await), (412, "PreconditionFailed"));
    assert_eq!(put("If-Match: \"25f9e794323b453885f5181f1b624d0b\"").await.status, 200);
}

#[tokio::test]
async fn writers_at_once_cannot_both_create() {
    let server = start(Flavour::S3).await;
    let puts = (0..20).map(|_| write(&server, "PUT", "/b/k", &["If-None-Match: *"], CHECK));
    let replies = futures_util::future::join_all(puts).await;
    let won = replies.iter().filter(|reply| reply.status == 200).count();
    let lost = replies.iter().filter(|reply| reply.status == 412).count();
    assert_eq!((won, lost), (1, 19));
}

#[tokio::test]
async fn a_body_may_come_in_chunks_and_after_100_continue() {
    let server = start(Flavour::S3).await;
    let mut client = Client::connect(&server).await;
    client.send("PUT", "/b/k", &["Transfer-Encoding: chunked", "Expect: 100-continue"]).await;
    let invited = client.reply(true).await;
    assert_eq!(invited.status, 100);
    for piece in ["4;x=y\r\n1234\r\n", "5\r\n56789\r\n", "0\r\nTrailer: x\r\n\r\n"] {
        tokio::io::AsyncWriteExt::write_all(&mut client.stream, piece.as_bytes()).await.unwrap();
    }
    assert_eq!(client.reply(false).await.status, 200);
    assert_eq!(server.object("/b/k").unwrap().bytes.as_deref(), Some(CHECK));
    assert_eq!(client.ask("GET", "/b/k", &[]).await.text(), "123456789", "the connection lives");
}

#[tokio::test]
async fn a_delete_is_204_also_of_nothing() {
    let server = start(Flavour::S3).await;
    write(&server, "PUT", "/b/k", &[], CHECK).await;
    let other = ask(&server, "DELETE", "/b/k", &["If-Match: \"x\""]).await;
    assert_eq!(refusal(&other), (412, "PreconditionFailed"));
    for _ in 0..2 {
        assert_eq!(ask(&server, "DELETE", "/b/k", &[]).await.status, 204);
    }
    let gone = get(&server, "/b/k", &[]).await;
    assert_eq!(refusal(&gone), (404, "NoSuchKey"), "the bucket is still there");
}

#[tokio::test]
async fn a_batch_of_deletes_names_what_it_did() {
    let server = start(Flavour::S3).await;
    for key in ["/b/1", "/b/2", "/b/3"] {
        write(&server, "PUT", key, &[], CHECK).await;
    }
    let document = "<Delete><Object><Key>1</Key></Object><Object><Key>2</Key><ETag>x</ETag>\
                    </Object><Object><Key>none</Key></Object></Delete>";
    let reply = write(&server, "POST", "/b?delete=", &[], document.as_bytes()).await;
    assert_eq!((reply.status, elements(&reply, "Key")), (200, vec!["1", "2", "none"]));
    assert_eq!(elements(&reply, "Code"), ["PreconditionFailed"]);
    assert!(server.object("/b/1").is_none() && server.object("/b/2").is_some());
}

#[tokio::test]
async fn a_copy_keeps_or_replaces_metadata() {
    let server = start(Flavour::S3).await;
    let fields = ["x-amz-meta-a: 1", "Content-Type: text/plain"];
    let put = write(&server, "PUT", "/b/a%20k", &fields, CHECK).await;
    let source = "x-amz-copy-source: /b/a%20k";
    let same = format!("x-amz-copy-source-if-match: {}", put.field("etag").unwrap());
    let copy = ask(&server, "PUT", "/b/copy", &[source, &same]).await;
    assert_eq!(copy.status, 200, "{}", copy.text());
    assert_eq!(element(&copy, "ChecksumCRC64NVME"), Some(CHECK_CRC64_NVME));
    let stored = server.object("/b/copy").unwrap();
    assert_eq!(stored.bytes.as_deref(), Some(CHECK));
    assert_eq!((stored.metadata("a"), stored.content_type.as_str()), (Some("1"), "text/plain"));
    let replace = [source, "x-amz-metadata-directive: REPLACE", "x-amz-meta-b: 2"];
    assert_eq!(ask(&server, "PUT", "/b/copy", &replace).await.status, 200);
    let stored = server.object("/b/copy").unwrap();
    assert_eq!((stored.metadata("a"), stored.metadata("b")), (None, Some("2")));
    let other = "x-amz-copy-source-if-match: \"x\"";
    let refused = ask(&server, "PUT", "/b/copy", &[source, other]).await;
    assert_eq!(refusal(&refused), (412, "PreconditionFailed"));
    let missing = ask(&server, "PUT", "/b/copy", &["x-amz-copy-source: /b/none"]).await;
    assert_eq!(refusal(&missing), (404, "NoSuchKey"));
    let taken = ask(&server, "PUT", "/b/copy", &[source, "If-None-Match: *"]).await;
    assert_eq!(refusal(&taken), (412, "PreconditionFailed"));
}
