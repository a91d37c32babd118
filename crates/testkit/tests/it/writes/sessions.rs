//! GCS's resumable sessions.

use tidegate_testkit::{Fault, Flavour, Rule, Server, WriteOptions, pseudo_random};
use tokio::io::AsyncWriteExt as _;

use super::{CHECK, CHECK_CRC32C, CHECK_MD5, gcs::json_field, start, with};
use crate::client::{Client, End, Reply, ask, write};

const GRANULE: usize = 256 * 1024;
const START: &str = "/upload/storage/v1/b/b/o?uploadType=resumable&name=k";

/// Starts a session and returns the target of its requests.
async fn session(server: &Server, query: &str, document: &str) -> String {
    let target = format!("{START}{query}");
    let reply = write(server, "POST", &target, &[], document.as_bytes()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let location = reply.field("location").unwrap();
    let rest = location.strip_prefix("http://test/").unwrap();
    format!("/{rest}")
}

async fn send(server: &Server, session: &str, range: &str, bytes: &[u8]) -> Reply {
    write(server, "PUT", session, &[&format!("Content-Range: bytes {range}")], bytes).await
}

#[tokio::test]
async fn an_object_comes_in_pieces() {
    let server = start(Flavour::Gcs).await;
    let document = "{\"contentType\": \"text/plain\", \"metadata\": {\"id\": \"7\"}}";
    let session = session(&server, "&ifGenerationMatch=0", document).await;
    let data = pseudo_random(2 * GRANULE + 100, 1);
    assert_eq!(server.unfinished_uploads().len(), 1);
    let none = send(&server, &session, &format!("*/{}", data.len()), b"").await;
    assert_eq!((none.status, none.field("range")), (308, None));
    let first = send(&server, &session, "0-262143/*", &data[..GRANULE]).await;
    assert_eq!((first.status, first.field("range")), (308, Some("bytes=0-262143")));
    let state = send(&server, &session, "*/*", b"").await;
    assert_eq!((state.status, state.field("range")), (308, Some("bytes=0-262143")));
    // The bytes that are kept are sent again.
    let last = send(&server, &session, "0-524387/524388", &data).await;
    assert_eq!(last.status, 200, "{}", last.text());
    assert_eq!(json_field(&last, "size"), Some("524388"));
    let generation = json_field(&last, "generation").unwrap().to_owned();
    let state = send(&server, &session, "*/524388", b"").await;
    assert_eq!(json_field(&state, "generation"), Some(generation.as_str()), "{}", state.text());
    let stored = server.object("/b/k").unwrap();
    assert_eq!(stored.bytes.unwrap(), data);
    assert_eq!((stored.content_type.as_str(), &stored.metadata[0].1[..]), ("text/plain", "7"));
    let head = ask(&server, "HEAD", "/b/k", &[]).await;
    assert_eq!(head.field("x-goog-meta-id"), Some("7"));
    assert!(server.unfinished_uploads().is_empty());
}

#[tokio::test]
async fn only_whole_granules_are_kept_before_the_end() {
    let server = start(Flavour::Gcs).await;
    let session = session(&server, "", "").await;
    let data = pseudo_random(GRANULE + 1000, 1);
    let odd = send(&server, &session, "0-263143/*", &data).await;
    assert_eq!((odd.status, odd.field("range")), (308, Some("bytes=0-262143")));
    let gap = send(&server, &session, "263000-263143/263144", &data[263_000..]).await;
    assert_eq!(gap.status, 400, "a gap");
    let wrong = send(&server, &session, "262144-263143/263144", &data[GRANULE + 1..]).await;
    assert_eq!(wrong.status, 400, "another length");
    let last = send(&server, &session, "262144-263143/263144", &data[GRANULE..]).await;
    assert_eq!(last.status, 200);
    assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), data);
}

#[tokio::test]
async fn less_may_be_kept_than_was_sent() {
    let kept = u64::try_from(GRANULE).unwrap() + 5;
    let writes = WriteOptions { session_kept_bytes_max: Some(kept), ..Default::default() };
    let server = with(Flavour::Gcs, writes).await;
    let session = session(&server, "", "").await;
    let data = pseudo_random(4 * GRANULE, 1);
    let first = send(&server, &session, "0-786431/*", &data[..3 * GRANULE]).await;
    assert_eq!(first.field("range"), Some("bytes=0-262143"));
    let last = send(&server, &session, "262144-1048575/1048576", &data[GRANULE..]).await;
    assert_eq!(last.status, 200);
    assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), data);
}

#[tokio::test]
async fn a_cut_request_keeps_what_arrived() {
    let server = start(Flavour::Gcs).await;
    let session = session(&server, "", "").await;
    let data = pseudo_random(2 * GRANULE, 1);
    let cut = u64::try_from(GRANULE).unwrap() + 77;
    server.script().push(Rule::new(Fault::CutRequestAfter(cut)).method("PUT"));
    let reply = send(&server, &session, "0-524287/524288", &data).await;
    assert_eq!((reply.status, reply.end), (0, End::Reset));
    let state = send(&server, &session, "*/524288", b"").await;
    assert_eq!((state.status, state.field("range")), (308, Some("bytes=0-262143")));
    let last = send(&server, &session, "262144-524287/524288", &data[GRANULE..]).await;
    assert_eq!(last.status, 200);
    assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), data);
}

#[tokio::test]
async fn a_question_finishes_what_is_complete() {
    let server = start(Flavour::Gcs).await;
    let session = session(&server, "", "").await;
    let data = pseudo_random(GRANULE, 1);
    assert_eq!(send(&server, &session, "0-262143/*", &data).await.status, 308);
    assert_eq!(send(&server, &session, "*/262144", b"").await.status, 200);
    assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), data);
}

#[tokio::test]
async fn the_whole_is_verified_at_the_end() {
    for (hash, is_right) in [
        (format!("crc32c={CHECK_CRC32C}"), true),
        (format!("md5={CHECK_MD5}"), true),
        ("crc32c=AAAAAA==".to_owned(), false),
    ] {
        let server = start(Flavour::Gcs).await;
        let session = session(&server, "", "").await;
        let fields = ["Content-Range: bytes 0-8/9", &format!("x-goog-hash: {hash}")];
        let reply = write(&server, "PUT", &session, &fields, CHECK).await;
        assert_eq!(reply.status, if is_right { 200 } else { 400 }, "{hash}");
        assert_eq!(server.object("/b/k").is_some(), is_right);
        if is_right {
            assert_eq!(json_field(&reply, "crc32c"), Some(CHECK_CRC32C));
        }
    }
}

#[tokio::test]
async fn a_generation_counts_at_the_start_and_at_the_end() {
    let server = start(Flavour::Gcs).await;
    let session = session(&server, "&ifGenerationMatch=0", "").await;
    write(&server, "PUT", "/b/k", &[], b"other").await;
    let late = send(&server, &session, "0-8/9", CHECK).await;
    assert_eq!((late.status, json_field(&late, "reason")), (412, Some("conditionNotMet")));
    let early = format!("{START}&ifGenerationMatch=0");
    assert_eq!(write(&server, "POST", &early, &[], b"").await.status, 412);
    assert_eq!(server.object("/b/k").unwrap().bytes.as_deref(), Some(&b"other"[..]));
}

#[tokio::test]
async fn sessions_end() {
    let server = start(Flavour::Gcs).await;
    let session = session(&server, "", "").await;
    assert_eq!(ask(&server, "DELETE", &session, &[]).await.status, 499);
    assert_eq!(send(&server, &session, "0-8/9", CHECK).await.status, 499);
    let session = self::session(&server, "", "").await;
    server.forget_uploads();
    assert_eq!(send(&server, &session, "0-8/9", CHECK).await.status, 410);
    let unknown = format!("{START}&upload_id=none");
    assert_eq!(send(&server, &unknown, "0-8/9", CHECK).await.status, 404);
    assert_eq!(server.object("/b/k"), None);
    let session = self::session(&server, "", "").await;
    for range in ["x", "5-1/9", "0-9/9"] {
        assert_eq!(send(&server, &session, range, CHECK).await.status, 400, "{range}");
    }
    assert_eq!(write(&server, "PUT", &session, &[], CHECK).await.status, 200, "the whole at once");
}

#[tokio::test]
async fn requests_at_once_do_not_mix_their_bytes() {
    let server = start(Flavour::Gcs).await;
    let session = session(&server, "", "").await;
    let data = pseudo_random(2 * GRANULE, 1);
    let mut slow = Client::connect(&server).await;
    let fields = ["Content-Length: 524288", "Content-Range: bytes 0-524287/524288"];
    slow.send("PUT", &session, &fields).await;
    slow.stream.write_all(&data[..GRANULE]).await.unwrap();
    while send(&server, &session, "*/524288", b"").await.field("range").is_none() {}
    let fast = send(&server, &session, "262144-524287/524288", &data[GRANULE..]).await;
    assert_eq!(fast.status, 200);
    slow.stream.write_all(&data[GRANULE..]).await.unwrap();
    assert_eq!(slow.reply(false).await.status, 503);
    assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), data);
    assert_eq!(send(&server, &session, "*/524288", b"").await.status, 200);
    assert_eq!(ask(&server, "DELETE", &session, &[]).await.status, 404, "it is complete");
}

#[tokio::test]
async fn a_second_writer_of_an_open_session_ends_the_first() {
    let server = start(Flavour::Gcs).await;
    let session = session(&server, "", "").await;
    let data = pseudo_random(3 * GRANULE, 1);
    let mut slow = Client::connect(&server).await;
    let fields = ["Content-Length: 524288", "Content-Range: bytes 0-524287/786432"];
    slow.send("PUT", &session, &fields).await;
    slow.stream.write_all(&data[..GRANULE]).await.unwrap();
    while send(&server, &session, "*/786432", b"").await.field("range").is_none() {}
    let fast = send(&server, &session, "262144-524287/786432", &data[GRANULE..2 * GRANULE]).await;
    assert_eq!(fast.field("range"), Some("bytes=0-524287"));
    slow.stream.write_all(&data[GRANULE..2 * GRANULE]).await.unwrap();
    assert_eq!(slow.reply(false).await.status, 503);
    let last = send(&server, &session, "524288-786431/786432", &data[2 * GRANULE..]).await;
    assert_eq!(last.status, 200, "{}", last.text());
    assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), data);
}
