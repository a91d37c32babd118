//! Without a fault, the server keeps to RFC 9110.

use tidegate_testkit::{
    Blob, EtagStyle, Framing, HttpDigests, Rule, Server, ServerOptions, fill, pseudo_random,
};

use crate::client::{Client, End, get};

async fn serving(len: usize, options: ServerOptions) -> (Server, Vec<u8>) {
    let server = Server::start(options).await.unwrap();
    let data = pseudo_random(len, 1);
    server.put("/data", Blob::new(data.clone()));
    (server, data.to_vec())
}

#[tokio::test]
async fn whole_and_ranged_answers_on_one_connection() {
    let (server, data) = serving(1_000_000, ServerOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let whole = client.ask("GET", "/data", &[]).await;
    assert_eq!((whole.status, whole.end), (200, End::Complete));
    assert_eq!(whole.body, data);
    assert_eq!(whole.field("accept-ranges"), Some("bytes"));
    let cases = [
        ("bytes=0-9", 0..10),
        ("bytes=999990-", 999_990..1_000_000),
        ("bytes=-5", 999_995..1_000_000),
        ("bytes=500000-5000000", 500_000..1_000_000),
    ];
    for (field, range) in cases {
        let part = client.ask("GET", "/data", &[&format!("Range: {field}")]).await;
        assert_eq!(part.status, 206, "{field}");
        assert_eq!(part.body, data[range.clone()], "{field}");
        let expected = format!("bytes {}-{}/1000000", range.start, range.end - 1);
        assert_eq!(part.field("content-range"), Some(expected.as_str()));
    }
    server.idle().await;
    assert_eq!(server.requests(), 5);
    assert_eq!(server.connections_accepted(), 1);
    let log = server.log();
    assert_eq!(log[1].range.as_deref(), Some("bytes=0-9"));
    assert_eq!((log[1].status, log[1].bytes_sent, log[1].finished), (Some(206), 10, true));
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let (server, _) = serving(1234, ServerOptions::default()).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..2 {
        let reply = client.ask("HEAD", "/data", &["Range: bytes=0-1"]).await;
        assert_eq!((reply.status, reply.field("content-length")), (200, Some("1234")));
    }
    let missing = client.ask("HEAD", "/nothing", &[]).await;
    assert_eq!(missing.status, 404);
    assert_eq!(client.ask("POST", "/data", &["Content-Length: 0"]).await.status, 405);
}

#[tokio::test]
async fn beyond_the_end_is_416_and_names_the_length() {
    let (server, _) = serving(10, ServerOptions::default()).await;
    let reply = get(&server, "/data", &["Range: bytes=10-"]).await;
    assert_eq!((reply.status, reply.field("content-range")), (416, Some("bytes */10")));
}

#[tokio::test]
async fn an_empty_blob_is_whole_and_has_no_ranges() {
    let (server, _) = serving(0, ServerOptions::default()).await;
    let whole = get(&server, "/data", &[]).await;
    assert_eq!((whole.status, whole.field("content-length")), (200, Some("0")));
    let part = get(&server, "/data", &["Range: bytes=0-"]).await;
    assert_eq!((part.status, part.field("content-range")), (416, Some("bytes */0")));
}

#[tokio::test]
async fn names_are_percent_decoded_and_queries_are_no_part_of_them() {
    let (server, _) = serving(0, ServerOptions::default()).await;
    server.put("/a b/ü%?", Blob::new(&b"odd"[..]));
    let url = server.url("/a b/ü%?");
    let target = url.strip_prefix(&server.endpoint()).unwrap();
    assert_eq!(target, "/a%20b/%C3%BC%25%3F");
    assert_eq!(get(&server, &format!("{target}?x=1"), &[]).await.text(), "odd");
    assert_eq!(get(&server, "/a%20b%2F%c3%bc%25%3f", &[]).await.text(), "odd");
}

#[tokio::test]
async fn other_framings_deliver_the_same_bytes() {
    for framing in [Framing::Chunked, Framing::UntilClose] {
        let options = ServerOptions { framing, ..ServerOptions::default() };
        let (server, data) = serving(300_000, options).await;
        let whole = get(&server, "/data", &[]).await;
        assert_eq!(whole.field("content-length"), None, "{framing:?}");
        assert_eq!(whole.body, data, "{framing:?}");
        let part = get(&server, "/data", &["Range: bytes=7-299998"]).await;
        assert_eq!((part.status, &part.body[..]), (206, &data[7..299_999]), "{framing:?}");
        let expected = if framing == Framing::Chunked { End::Complete } else { End::Fin };
        assert_eq!(part.end, expected);
    }
}

#[tokio::test]
async fn a_cut_of_a_body_of_unknown_length_looks_like_its_end() {
    let options = ServerOptions { framing: Framing::UntilClose, ..ServerOptions::default() };
    let (server, data) = serving(1000, options).await;
    server.script().next(tidegate_testkit::Fault::CutAfter(10));
    let reply = get(&server, "/data", &[]).await;
    assert_eq!((reply.status, &reply.body[..], reply.end), (200, &data[..10], End::Fin));
}

#[tokio::test]
async fn a_server_without_ranges_answers_whole() {
    let options = ServerOptions { ranges: false, ..ServerOptions::default() };
    let (server, data) = serving(100, options).await;
    let reply = get(&server, "/data", &["Range: bytes=5-9"]).await;
    assert_eq!((reply.status, &reply.body), (200, &data));
    assert_eq!(reply.field("accept-ranges"), None);
}

#[tokio::test]
async fn tags_dates_and_digests_are_as_chosen() {
    let weak = ServerOptions {
        etag: EtagStyle::Weak,
        digests: HttpDigests { repr_digest: true, content_md5: true },
        ..ServerOptions::default()
    };
    let server = Server::start(weak).await.unwrap();
    let blob = Blob::new(&b"123456789"[..]).with_etag("tag").with_content_encoding("gzip");
    server.put("/data", blob);
    let whole = get(&server, "/data", &[]).await;
    assert_eq!(whole.field("etag"), Some("W/\"tag\""));
    assert_eq!(whole.field("content-encoding"), Some("gzip"));
    assert_eq!(whole.field("content-md5"), Some("JfnnlDI7RTiF9RgfG2JNCw=="));
    let digest = Some("sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:");
    assert_eq!(whole.field("repr-digest"), digest);
    let part = get(&server, "/data", &["Range: bytes=0-1"]).await;
    assert_eq!((part.field("repr-digest"), part.field("content-md5")), (digest, None));

    let bare = ServerOptions { etag: EtagStyle::None, last_modified: false, ..Default::default() };
    let (server, _) = serving(1, bare).await;
    let reply = get(&server, "/data", &[]).await;
    assert_eq!((reply.field("etag"), reply.field("last-modified")), (None, None));
    assert_eq!((reply.field("repr-digest"), reply.field("content-md5")), (None, None));
}

#[tokio::test]
async fn a_file_is_served_like_memory() {
    let mut data = vec![0; 3_000_001];
    fill(&mut data, 5, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blob");
    std::fs::write(&path, &data).unwrap();
    let server = Server::start(ServerOptions::default()).await.unwrap();
    server.put("/data", Blob::from_file(&path).unwrap());
    server.script().push(Rule::new(tidegate_testkit::Fault::FlipBit(2_000_000)).nth(3));
    assert_eq!(get(&server, "/data", &[]).await.body, data);
    let part = get(&server, "/data", &["Range: bytes=1000000-2999999"]).await;
    assert_eq!(part.body, data[1_000_000..3_000_000]);
    data[2_000_000] ^= 1;
    assert_eq!(get(&server, "/data", &[]).await.body, data);
    server.shutdown().await;
}

#[tokio::test]
async fn a_request_that_is_not_http_is_refused() {
    let (server, _) = serving(1, ServerOptions::default()).await;
    let mut client = Client::connect(&server).await;
    tokio::io::AsyncWriteExt::write_all(&mut client.stream, b"\x16\x03\x01\r\n\r\n").await.unwrap();
    assert_eq!(client.reply(false).await.status, 400);
}

#[tokio::test]
async fn a_connection_ends_politely_after_its_share_of_requests() {
    let options =
        ServerOptions { requests_per_connection_max: Some(2), ..ServerOptions::default() };
    let (server, data) = serving(10, options).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.ask("GET", "/data", &[]).await.field("connection"), None);
    let last = client.ask("GET", "/data", &[]).await;
    assert_eq!((last.field("connection"), &last.body), (Some("close"), &data));
    assert_eq!(client.more().await, Some(End::Fin));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (server, data) = serving(100_000, ServerOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let ranges = [0..50_000, 50_000..50_001, 50_001..100_000];
    for range in &ranges {
        let field = format!("Range: bytes={}-{}", range.start, range.end - 1);
        client.send("GET", "/data", &[&field, "Content-Length: 0"]).await;
    }
    for range in ranges {
        assert_eq!(client.reply(false).await.body, data[range]);
    }
}

#[tokio::test]
async fn a_client_that_closes_the_connection_gets_its_end() {
    let (server, data) = serving(10, ServerOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let reply = client.ask("GET", "/data", &["Connection: close"]).await;
    assert_eq!((&reply.body, reply.end), (&data, End::Complete));
    assert_eq!(client.more().await, Some(End::Fin));
    let chunked = ServerOptions { framing: Framing::Chunked, ..ServerOptions::default() };
    let (server, data) = serving(10, chunked).await;
    let mut client = Client::connect(&server).await;
    let old = b"GET /data HTTP/1.0\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut client.stream, old).await.unwrap();
    let reply = client.reply(false).await;
    assert_eq!((reply.field("transfer-encoding"), &reply.body, reply.end), (None, &data, End::Fin));
}
