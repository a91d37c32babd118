//! Conditional requests decide as RFC 9110 section 13 says.

use std::time::{Duration, SystemTime};

use tidegate_testkit::{Blob, EtagStyle, Server, ServerOptions};

use crate::client::get;

const MODIFIED: &str = "Wed, 15 Nov 2023 00:00:00 GMT";
const EARLIER: &str = "Tue, 14 Nov 2023 00:00:00 GMT";

async fn tagged(etag: EtagStyle) -> Server {
    let server = Server::start(ServerOptions { etag, ..Default::default() }).await.unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_hours(472_224);
    server.put("/d", Blob::new(&b"0123456789"[..]).with_etag("a").with_last_modified(modified));
    server
}

#[tokio::test]
async fn preconditions() {
    let server = tagged(EtagStyle::Strong).await;
    let cases = [
        ("If-Match: \"a\"", 200),
        ("If-Match: \"b\", \"a\"", 200),
        ("If-Match: *", 200),
        ("If-Match: \"b\"", 412),
        ("If-Match: W/\"a\"", 412),
        ("If-None-Match: \"a\"", 304),
        ("If-None-Match: W/\"a\"", 304),
        ("If-None-Match: \"b\"", 200),
        ("If-None-Match: *", 304),
    ];
    for (field, status) in cases {
        assert_eq!(get(&server, "/d", &[field]).await.status, status, "{field}");
    }
    let dated = [
        ("If-Unmodified-Since", MODIFIED, 200),
        ("If-Unmodified-Since", EARLIER, 412),
        ("If-Modified-Since", MODIFIED, 304),
        ("If-Modified-Since", EARLIER, 200),
        ("If-Unmodified-Since", "no date", 200),
    ];
    for (name, date, status) in dated {
        let field = format!("{name}: {date}");
        assert_eq!(get(&server, "/d", &[&field]).await.status, status, "{field}");
    }
    let fields = ["If-Match: \"a\"", &format!("If-Unmodified-Since: {EARLIER}")];
    assert_eq!(get(&server, "/d", &fields).await.status, 200, "a tag goes before a date");
    let unchanged = get(&server, "/d", &["If-None-Match: \"a\""]).await;
    assert_eq!(
        (unchanged.field("etag"), unchanged.field("last-modified")),
        (Some("\"a\""), Some(MODIFIED))
    );
}

#[tokio::test]
async fn a_range_counts_only_for_the_representation_it_was_meant_for() {
    let server = tagged(EtagStyle::Strong).await;
    let dated = format!("If-Range: {MODIFIED}");
    let earlier = format!("If-Range: {EARLIER}");
    let cases = [
        ("If-Range: \"a\"", 206),
        ("If-Range: \"b\"", 200),
        ("If-Range: W/\"a\"", 200),
        (dated.as_str(), 206),
        (earlier.as_str(), 200),
        ("If-Range: nonsense", 200),
    ];
    for (field, status) in cases {
        let reply = get(&server, "/d", &["Range: bytes=2-4", field]).await;
        assert_eq!(reply.status, status, "{field}");
        let expected = if status == 206 { "234" } else { "0123456789" };
        assert_eq!(reply.text(), expected, "{field}");
    }
}

#[tokio::test]
async fn a_weak_tag_matches_no_precondition() {
    let server = tagged(EtagStyle::Weak).await;
    assert_eq!(get(&server, "/d", &["If-Match: W/\"a\""]).await.status, 412);
    let reply = get(&server, "/d", &["Range: bytes=2-4", "If-Range: W/\"a\""]).await;
    assert_eq!(reply.status, 200);
    assert_eq!(get(&server, "/d", &["If-None-Match: W/\"a\""]).await.status, 304);
}

#[tokio::test]
async fn a_replaced_blob_has_another_tag_and_date() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    server.put("/d", Blob::new(&b"old"[..]));
    let old = get(&server, "/d", &[]).await;
    server.replace("/d", Blob::new(&b"new"[..]));
    let new = get(&server, "/d", &[]).await;
    assert_eq!(new.text(), "new");
    assert_ne!(old.field("etag"), new.field("etag"));
    assert_ne!(old.field("last-modified"), new.field("last-modified"));
    let pinned = format!("If-Match: {}", old.field("etag").unwrap());
    assert_eq!(get(&server, "/d", &[&pinned]).await.status, 412);
}
