//! PUT, DELETE, MOVE and OPTIONS of plain HTTP.

use tidegate_testkit::{Flavour, Preconditions, WriteOptions};

use super::{CHECK, start, with};
use crate::client::{ask, get, write};

#[tokio::test]
async fn a_put_creates_or_replaces() {
    let server = start(Flavour::Http).await;
    let put = write(&server, "PUT", "/a/k", &["Content-Type: text/plain"], CHECK).await;
    assert_eq!(put.status, 201);
    assert_eq!(
        write(&server, "PUT", "/a/k", &["Content-Type: text/css"], b"new").await.status,
        204
    );
    let head = ask(&server, "HEAD", "/a/k", &[]).await;
    assert_eq!(
        (head.field("content-length"), head.field("content-type")),
        (Some("3"), Some("text/css"))
    );
    // As the servers in use, it does not compare an MD5.
    let wrong = "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==";
    assert_eq!(write(&server, "PUT", "/a/k", &[wrong], CHECK).await.status, 204);
    let part = write(&server, "PUT", "/a/k", &["Content-Range: bytes 0-2/9"], b"XYZ").await;
    assert_eq!(part.status, 501);
    assert_eq!(get(&server, "/a/k", &[]).await.text(), "123456789");
    assert_eq!(ask(&server, "DELETE", "/a/k", &[]).await.status, 204);
    assert_eq!(ask(&server, "DELETE", "/a/k", &[]).await.status, 404);
}

#[tokio::test]
async fn preconditions_count_or_not() {
    for (preconditions, refused, replaced) in
        [(Preconditions::Kept, 412, 412), (Preconditions::Ignored, 201, 204)]
    {
        let writes = WriteOptions { preconditions, ..WriteOptions::default() };
        let server = with(Flavour::Http, writes).await;
        let absent = write(&server, "PUT", "/k", &["If-Match: \"x\""], CHECK).await;
        assert_eq!(absent.status, refused, "{preconditions:?}");
        write(&server, "PUT", "/k", &[], CHECK).await;
        for field in ["If-None-Match: *", "If-Match: \"x\""] {
            let put = write(&server, "PUT", "/k", &[field], b"new").await;
            assert_eq!(put.status, replaced, "{preconditions:?} {field}");
        }
        let etag = ask(&server, "HEAD", "/k", &[]).await.field("etag").unwrap().to_owned();
        let same = format!("If-Match: {etag}");
        assert_eq!(write(&server, "PUT", "/k", &[&same], b"new").await.status, 204);
    }
}

#[tokio::test]
async fn a_server_may_refuse_to_replace() {
    let writes = WriteOptions { replaces: false, ..WriteOptions::default() };
    let server = with(Flavour::Http, writes).await;
    assert_eq!(write(&server, "PUT", "/k", &[], CHECK).await.status, 201);
    assert_eq!(write(&server, "PUT", "/k", &[], b"new").await.status, 409);
    assert_eq!(server.object("/k").unwrap().bytes.as_deref(), Some(CHECK));
}

#[tokio::test]
async fn a_move_does_not_overwrite_if_asked_so() {
    let server = start(Flavour::Http).await;
    write(&server, "PUT", "/.k.part", &[], CHECK).await;
    let target = format!("Destination: {}", server.url("/a k"));
    let no_clobber = [target.as_str(), "Overwrite: F"];
    assert_eq!(ask(&server, "MOVE", "/.k.part", &no_clobber).await.status, 201);
    assert!(server.object("/.k.part").is_none());
    assert_eq!(server.object("/a k").unwrap().bytes.as_deref(), Some(CHECK));
    write(&server, "PUT", "/.k.part", &[], b"new").await;
    assert_eq!(ask(&server, "MOVE", "/.k.part", &no_clobber).await.status, 412);
    assert_eq!(server.object("/a k").unwrap().bytes.as_deref(), Some(CHECK));
    assert!(server.object("/.k.part").is_some(), "a refused move leaves the source");
    assert_eq!(ask(&server, "MOVE", "/.k.part", &["Destination: /a%20k"]).await.status, 204);
    assert_eq!(server.object("/a k").unwrap().bytes.as_deref(), Some(&b"new"[..]));
    assert_eq!(ask(&server, "MOVE", "/none", &[&target]).await.status, 404);
    assert_eq!(ask(&server, "MOVE", "/a%20k", &[]).await.status, 400);
    assert_eq!(ask(&server, "COPY", "/a%20k", &["Destination: /copy"]).await.status, 201);
    assert!(server.object("/a k").is_some() && server.object("/copy").is_some());
    assert_eq!(ask(&server, "MKCOL", "/folder/", &[]).await.status, 201);
}

#[tokio::test]
async fn options_say_what_there_is() {
    let server = start(Flavour::Http).await;
    let reply = ask(&server, "OPTIONS", "/k", &[]).await;
    assert_eq!((reply.status, reply.field("dav")), (200, Some("1, 2")));
    assert!(reply.field("allow").unwrap().contains("MOVE"));
    let server = with(Flavour::Http, WriteOptions { dav: false, ..Default::default() }).await;
    let reply = ask(&server, "OPTIONS", "/k", &[]).await;
    assert_eq!((reply.status, reply.field("dav")), (200, None));
    let allowed = reply.field("allow").unwrap();
    assert!(allowed.contains("PUT") && !allowed.contains("MOVE"), "{allowed}");
    let refused = ask(&server, "MOVE", "/k", &["Destination: /x"]).await;
    assert_eq!((refused.status, refused.field("allow")), (405, Some(allowed)));
}
