//! GCS: one object a request, uploads in parts by the XML API, objects and lists by the JSON API.

use tidegate_testkit::{Flavour, WriteOptions};

use super::{
    CHECK, CHECK_CRC32C, CHECK_MD5, begin, complete, element, named, part, refusal, start, upload,
    with,
};
use crate::client::{Reply, ask, get, write};

const JSON: &str = "/storage/v1/b/b/o";

/// The text of a field of a JSON document, wherever it is first.
pub(crate) fn json_field<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    let rest = reply.text().split(&format!("\"{name}\":")).nth(1)?;
    let end = rest.trim_start_matches('"').find(['"', ',', '}'])?;
    rest.trim_start_matches('"').get(..end)
}

#[tokio::test]
async fn an_object_has_a_generation_hashes_and_metadata() {
    let server = start(Flavour::Gcs).await;
    let hash = format!("x-goog-hash: crc32c={CHECK_CRC32C},md5={CHECK_MD5}");
    let fields = [hash.as_str(), "x-goog-meta-id: 7", "Content-Type: text/plain"];
    let put = write(&server, "PUT", "/b/k", &fields, CHECK).await;
    assert_eq!(put.status, 200, "{}", put.text());
    let generation = put.field("x-goog-generation").unwrap().to_owned();
    let hashes = [format!("crc32c={CHECK_CRC32C}"), format!("md5={CHECK_MD5}")];
    assert_eq!(put.all("x-goog-hash"), hashes);
    let head = ask(&server, "HEAD", "/b/k", &[]).await;
    assert_eq!(head.field("x-goog-generation"), Some(generation.as_str()));
    assert_eq!(head.all("x-goog-hash"), hashes);
    assert_eq!(head.field("x-goog-meta-id"), Some("7"));
    assert_eq!(head.field("content-type"), Some("text/plain"));
    for wrong in ["x-goog-hash: crc32c=AAAAAA==", "x-goog-hash: md5=AAAAAAAAAAAAAAAAAAAAAA=="] {
        let put = write(&server, "PUT", "/b/other", &[wrong], CHECK).await;
        assert_eq!(refusal(&put), (400, "BadDigest"), "{wrong}");
    }
    assert_eq!(server.object("/b/other"), None);
    assert_eq!(ask(&server, "DELETE", "/b/k", &[]).await.status, 204);
    assert_eq!(refusal(&ask(&server, "DELETE", "/b/k", &[]).await), (404, "NoSuchKey"));
}

#[tokio::test]
async fn a_generation_is_a_precondition() {
    let server = start(Flavour::Gcs).await;
    let none = "x-goog-if-generation-match: 0";
    let put = write(&server, "PUT", "/b/k", &[none], CHECK).await;
    let generation = put.field("x-goog-generation").unwrap().to_owned();
    let again = write(&server, "PUT", "/b/k", &[none], CHECK).await;
    assert_eq!(refusal(&again), (412, "PreconditionFailed"));
    let same = format!("x-goog-if-generation-match: {generation}");
    let replaced = write(&server, "PUT", "/b/k", &[&same], CHECK).await;
    assert_ne!(replaced.field("x-goog-generation"), Some(generation.as_str()));
    assert_eq!(write(&server, "PUT", "/b/k", &[&same], CHECK).await.status, 412);
    assert_eq!(ask(&server, "DELETE", "/b/k", &[&same]).await.status, 412);
    assert_eq!(ask(&server, "DELETE", "/b/k", &[]).await.status, 204);
    let new = write(&server, "PUT", "/b/k", &[none], CHECK).await;
    assert_ne!(new.field("x-goog-generation"), Some(generation.as_str()), "never used again");
}

#[tokio::test]
async fn parts_have_hashes_and_the_object_only_a_crc() {
    let server = start(Flavour::Gcs).await;
    let id = begin(&server, "/b/k", &["x-goog-meta-id: 7"]).await;
    let hash = format!("x-goog-hash: crc32c={CHECK_CRC32C}");
    let wrong = part(&server, "/b/k", &id, 1, &[&hash], b"12345678X").await;
    assert_eq!(refusal(&wrong), (400, "BadDigest"));
    let md5 = format!("Content-MD5: {CHECK_MD5}");
    let wrong = part(&server, "/b/k", &id, 1, &[&md5], b"12345678X").await;
    assert_eq!(refusal(&wrong), (400, "BadDigest"));
    let right = part(&server, "/b/k", &id, 1, &[&hash], CHECK).await;
    assert_eq!(right.field("x-goog-hash"), Some(&hash["x-goog-hash: ".len()..]));
    let listed = get(&server, &format!("/b/k?uploadId={id}"), &[]).await;
    assert_eq!(element(&listed, "Size"), Some("9"));
    let parts = [(1, right.field("etag").unwrap())];
    let done = complete(&server, "/b/k", &id, &[], &parts).await;
    assert_eq!((done.status, element(&done, "Key")), (200, Some("k")));
    let head = ask(&server, "HEAD", "/b/k", &[]).await;
    assert_eq!(head.all("x-goog-hash"), [&hash["x-goog-hash: ".len()..]]);
    assert!(head.field("x-goog-generation").is_some());
    assert_eq!(head.field("x-goog-metageneration"), Some("1"));
    assert_eq!(head.field("x-goog-meta-id"), Some("7"));
}

#[tokio::test]
async fn parts_have_no_preconditions() {
    let server = start(Flavour::Gcs).await;
    let field = "x-goog-if-generation-match: 0";
    let created = write(&server, "POST", "/b/k?uploads", &[field], b"").await;
    assert_eq!(created.status, 400);
    let (id, parts) = upload(&server, "/b/k", &[], &[CHECK]).await;
    assert_eq!(part(&server, "/b/k", &id, 1, &[field], CHECK).await.status, 400);
    for field in [field, "If-None-Match: *"] {
        let done = complete(&server, "/b/k", &id, &[field], &named(&parts)).await;
        assert_eq!(done.status, 400, "{field}");
    }
    assert_eq!(server.object("/b/k"), None);
}

#[tokio::test]
async fn uploads_in_parts_may_be_forbidden() {
    let writes = WriteOptions { multipart: false, ..WriteOptions::default() };
    for (flavour, expected) in
        [(Flavour::Gcs, (403, "AccessDenied")), (Flavour::S3, (501, "NotImplemented"))]
    {
        let server = with(flavour, writes.clone()).await;
        let reply = write(&server, "POST", "/b/k?uploads", &[], b"").await;
        assert_eq!(refusal(&reply), expected);
        assert_eq!(write(&server, "PUT", "/b/k", &[], CHECK).await.status, 200);
    }
}

#[tokio::test]
async fn the_json_api_describes_deletes_and_copies() {
    let server = start(Flavour::Gcs).await;
    let put = write(&server, "PUT", "/b/a/b", &["x-goog-meta-id: 7"], CHECK).await;
    let generation = put.field("x-goog-generation").unwrap().to_owned();
    let object = format!("{JSON}/a%2Fb");
    let reply = get(&server, &object, &[]).await;
    let expected = [
        ("name", "a/b"),
        ("bucket", "b"),
        ("generation", generation.as_str()),
        ("size", "9"),
        ("crc32c", CHECK_CRC32C),
        ("md5Hash", CHECK_MD5),
        ("id", "b/a/b/"),
    ];
    for (name, value) in expected {
        let found = json_field(&reply, name).unwrap();
        assert!(found.starts_with(value), "{name}: {found}");
    }
    assert!(reply.text().contains("\"metadata\":{\"id\":\"7\"}"), "{}", reply.text());
    assert_eq!(get(&server, &format!("{object}?alt=media"), &[]).await.text(), "123456789");
    let missing = get(&server, &format!("{JSON}/none"), &[]).await;
    assert_eq!((missing.status, json_field(&missing, "reason")), (404, Some("notFound")));

    let copy = format!("{object}/rewriteTo/b/b/o/c%2Fd?ifGenerationMatch=0");
    let done = write(&server, "POST", &copy, &[], b"").await;
    assert_eq!((done.status, json_field(&done, "done")), (200, Some("true")));
    assert_eq!(server.object("/b/c/d").unwrap().metadata("id"), Some("7"));
    let again = write(&server, "POST", &copy, &[], b"").await;
    assert_eq!((again.status, json_field(&again, "reason")), (412, Some("conditionNotMet")));

    let other = format!("{object}?ifGenerationMatch=1");
    assert_eq!(ask(&server, "DELETE", &other, &[]).await.status, 412);
    let same = format!("{object}?ifGenerationMatch={generation}");
    assert_eq!(ask(&server, "DELETE", &same, &[]).await.status, 204);
    assert_eq!(ask(&server, "DELETE", &object, &[]).await.status, 404);
}

#[tokio::test]
async fn the_json_api_lists_in_pages() {
    let server = with(Flavour::Gcs, WriteOptions { page_len: 2, ..Default::default() }).await;
    for key in ["a", "b/1", "b/2", "c"] {
        write(&server, "PUT", &format!("/b/{key}"), &[], CHECK).await;
    }
    let first = get(&server, &format!("{JSON}?delimiter=/"), &[]).await;
    assert_eq!(json_field(&first, "name"), Some("a"));
    assert!(first.text().contains("\"prefixes\":[\"b/\"]"), "{}", first.text());
    let token = json_field(&first, "nextPageToken").unwrap();
    let next = get(&server, &format!("{JSON}?delimiter=/&pageToken={token}"), &[]).await;
    assert_eq!((json_field(&next, "name"), json_field(&next, "nextPageToken")), (Some("c"), None));
    let window = format!("{JSON}?startOffset=b/2&endOffset=c");
    assert_eq!(json_field(&get(&server, &window, &[]).await, "name"), Some("b/2"));
    let empty = get(&server, &format!("{JSON}?prefix=none"), &[]).await;
    assert_eq!(empty.text(), "{\"kind\":\"storage#objects\"}");
}

#[tokio::test]
async fn a_simple_upload_of_the_json_api() {
    let server = start(Flavour::Gcs).await;
    let target = "/upload/storage/v1/b/b/o?uploadType=media&name=a%2Fb&ifGenerationMatch=0";
    let hash = format!("x-goog-hash: crc32c={CHECK_CRC32C}");
    let put = write(&server, "POST", target, &[&hash], CHECK).await;
    assert_eq!((put.status, json_field(&put, "crc32c")), (200, Some(CHECK_CRC32C)));
    assert_eq!(write(&server, "POST", target, &[&hash], CHECK).await.status, 412);
    assert_eq!(server.object("/b/a/b").unwrap().bytes.as_deref(), Some(CHECK));
}
