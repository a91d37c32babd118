//! Each fault has its documented effect on the wire.

use tidegate_testkit::{
    Blob, ContentRangeLie, Fault, Flavour, Gate, RangeMatch, Rule, Server, ServerOptions,
    pseudo_random,
};

use crate::client::{Client, End, Reply, get};

const LEN: usize = 100_000;
/// A range in the middle, and its offsets.
const RANGE: &str = "Range: bytes=1000-60999";
const PART: std::ops::Range<usize> = 1000..61_000;

async fn serving() -> (Server, Vec<u8>) {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    let data = pseudo_random(LEN, 2);
    server.put("/d", Blob::new(data.clone()));
    (server, data.to_vec())
}

/// The response to a ranged request with `fault`; the next response must be right.
async fn meet(fault: Fault) -> (Reply, Vec<u8>) {
    let (server, data) = serving().await;
    server.script().next(fault);
    let reply = get(&server, "/d", &[RANGE]).await;
    let after = get(&server, "/d", &[RANGE]).await;
    assert_eq!((after.status, &after.body[..]), (206, &data[PART]));
    assert_eq!(server.script().applied(), 1);
    (reply, data)
}

fn promises_the_range(reply: &Reply) {
    assert_eq!(reply.status, 206);
    assert_eq!(reply.field("content-length"), Some("60000"));
    assert_eq!(reply.field("content-range"), Some("bytes 1000-60999/100000"));
}

#[tokio::test]
async fn cut_after_some_bytes() {
    let (reply, data) = meet(Fault::CutAfter(12_345)).await;
    promises_the_range(&reply);
    assert_eq!((reply.end, &reply.body[..]), (End::Fin, &data[1000..13_345]));
}

#[tokio::test]
async fn reset_after_some_bytes() {
    let (reply, data) = meet(Fault::ResetAfter(12_345)).await;
    assert_eq!(reply.end, End::Reset);
    assert!(reply.body.len() <= 12_345);
    assert_eq!(reply.body[..], data[1000..1000 + reply.body.len()]);
}

#[tokio::test]
async fn close_before_the_first_byte() {
    let (reply, _) = meet(Fault::CloseBeforeFirstByte).await;
    assert_eq!((reply.head.as_str(), reply.end), ("", End::Fin));
}

#[tokio::test]
async fn one_byte_of_many() {
    let (reply, data) = meet(Fault::OneByteBody).await;
    promises_the_range(&reply);
    assert_eq!((reply.end, &reply.body[..]), (End::Fin, &data[1000..1001]));
}

#[tokio::test]
async fn one_byte_short() {
    let (reply, data) = meet(Fault::BodyShortByOne).await;
    promises_the_range(&reply);
    assert_eq!((reply.end, &reply.body[..]), (End::Fin, &data[1000..60_999]));
}

#[tokio::test]
async fn a_shorter_range_than_asked() {
    let (reply, data) = meet(Fault::ShortRange(10)).await;
    assert_eq!(reply.field("content-range"), Some("bytes 1000-1009/100000"));
    assert_eq!((reply.end, &reply.body[..]), (End::Complete, &data[1000..1010]));
}

#[tokio::test]
async fn statuses() {
    let (reply, _) = meet(Fault::status_retry_after(429, "7")).await;
    assert_eq!((reply.status, reply.field("retry-after")), (429, Some("7")));
    let (reply, _) = meet(Fault::status(503)).await;
    assert_eq!((reply.status, reply.field("retry-after"), reply.end), (503, None, End::Complete));
    let fault = Fault::Status { code: 500, retry_after: None, body: "why".to_owned() };
    let (reply, _) = meet(fault).await;
    assert_eq!((reply.status, reply.text()), (500, "why"));
    let server = Server::start(ServerOptions::of(Flavour::S3)).await.unwrap();
    server.script().next(Fault::status(503));
    let reply = get(&server, "/b/k", &[]).await;
    assert!(reply.text().contains("<Code>SlowDown</Code>"), "{}", reply.text());
}

#[tokio::test]
async fn wrong_content_ranges_over_the_right_body() {
    let cases = [
        (ContentRangeLie::Shifted, Some("bytes 1001-61000/100000")),
        (ContentRangeLie::Longer, Some("bytes 1000-61000/100000")),
        (ContentRangeLie::OtherTotal, Some("bytes 1000-60999/100001")),
        (ContentRangeLie::UnknownTotal, Some("bytes 1000-60999/*")),
        (ContentRangeLie::Malformed, Some("bytes some-of/it")),
        (ContentRangeLie::Missing, None),
    ];
    for (lie, expected) in cases {
        let (reply, data) = meet(Fault::WrongContentRange(lie)).await;
        assert_eq!((reply.status, reply.field("content-range")), (206, expected), "{lie:?}");
        assert_eq!(reply.body, data[PART], "{lie:?}");
    }
}

#[tokio::test]
async fn one_bit_flipped() {
    let (reply, mut data) = meet(Fault::FlipBit(30_000)).await;
    assert_eq!(reply.end, End::Complete);
    data[30_000] ^= 1;
    assert_eq!(reply.body, data[PART]);
    let (reply, data) = meet(Fault::FlipBit(61_000)).await;
    assert_eq!(reply.body, data[PART], "a byte that is not asked for harms nothing");
}

#[tokio::test]
async fn another_version_from_now_on() {
    let (server, data) = serving().await;
    let new = pseudo_random(LEN, 3);
    server.script().push(Rule::new(Fault::ChangedVersion(Blob::new(new.clone()))).nth(2));
    let before = get(&server, "/d", &[RANGE]).await;
    assert_eq!(before.body, data[PART]);
    let etag = before.field("etag").unwrap();
    let pinned = get(&server, "/d", &[RANGE, &format!("If-Match: {etag}")]).await;
    assert_eq!(pinned.status, 412);
    let after = get(&server, "/d", &[RANGE]).await;
    assert_ne!(after.field("etag"), Some(etag));
    assert_eq!(after.body, new[PART]);
}

#[tokio::test]
async fn a_body_torn_between_versions() {
    let (server, mut data) = serving().await;
    let new = pseudo_random(LEN, 3);
    server.script().next(Fault::ChangeDuringBody { after: 500, blob: Blob::new(new.clone()) });
    let torn = get(&server, "/d", &[RANGE]).await;
    promises_the_range(&torn);
    data[1500..].copy_from_slice(&new[1500..]);
    assert_eq!(torn.body, data[PART]);
    let after = get(&server, "/d", &[RANGE]).await;
    assert_eq!(after.body, new[PART]);
    assert_ne!(after.field("etag"), torn.field("etag"));
}

#[tokio::test]
async fn not_satisfiable_whatever_was_asked() {
    let (reply, _) = meet(Fault::NotSatisfiable).await;
    assert_eq!((reply.status, reply.field("content-range")), (416, Some("bytes */100000")));
}

#[tokio::test]
async fn a_range_ignored() {
    let (reply, data) = meet(Fault::NoRangeSupport).await;
    assert_eq!((reply.status, reply.body), (200, data));
}

#[tokio::test]
async fn silence_until_the_server_ends() {
    let (server, data) = serving().await;
    server.script().next(Fault::Stall(100));
    let mut client = Client::connect(&server).await;
    client.send("GET", "/d", &[RANGE]).await;
    while !client.buffer.ends_with(&data[1000..1100]) {
        assert_eq!(client.more().await, None);
    }
    assert_eq!(get(&server, "/d", &[RANGE]).await.body, data[PART], "others are served");
    let log = server.log();
    assert_eq!((log[0].status, log[0].bytes_sent, log[0].finished), (Some(206), 100, false));
    server.shutdown().await;
    let reply = client.reply(false).await;
    promises_the_range(&reply);
    assert_eq!((reply.end, &reply.body[..]), (End::Fin, &data[1000..1100]));
}

#[tokio::test]
async fn a_held_body_goes_on_when_the_gate_opens() {
    let (server, data) = serving().await;
    let gate = Gate::new();
    server.script().next(Fault::HoldAfter { bytes: 100, gate: gate.clone() });
    let mut client = Client::connect(&server).await;
    client.send("GET", "/d", &[RANGE]).await;
    gate.reached(1).await;
    let log = server.log();
    assert_eq!((log[0].bytes_sent, log[0].finished), (100, false));
    gate.open();
    let reply = client.reply(false).await;
    assert_eq!((reply.end, &reply.body[..]), (End::Complete, &data[PART]));
}

#[tokio::test]
async fn lies_about_length() {
    let (longer, data) = meet(Fault::LieAboutLength(5)).await;
    assert_eq!(longer.field("content-range"), Some("bytes 1000-60999/100005"));
    assert_eq!((longer.end, &longer.body[..]), (End::Complete, &data[PART]));
    let (shorter, data) = meet(Fault::LieAboutLength(-50_000)).await;
    assert_eq!(shorter.field("content-range"), Some("bytes 1000-49999/50000"));
    assert_eq!(shorter.body, data[1000..50_000]);

    let (server, data) = serving().await;
    server.script().always(Fault::LieAboutLength(5));
    let whole = get(&server, "/d", &[]).await;
    assert_eq!((whole.field("content-length"), whole.end), (Some("100005"), End::Fin));
    assert_eq!(whole.body, data);
    let beyond = get(&server, "/d", &["Range: bytes=100001-"]).await;
    assert_eq!(beyond.field("content-range"), Some("bytes 100001-100004/100005"));
    assert_eq!((beyond.end, beyond.body.len()), (End::Fin, 0));
}

#[tokio::test]
async fn a_redirect() {
    let (reply, _) = meet(Fault::Redirect("http://elsewhere.invalid/d".to_owned())).await;
    assert_eq!(reply.status, 302);
    assert_eq!(reply.field("location"), Some("http://elsewhere.invalid/d"));
}

#[tokio::test]
async fn a_temporary_redirect_and_a_refusal_with_a_code() {
    let (reply, _) = meet(Fault::TemporaryRedirect("http://elsewhere.invalid/d".to_owned())).await;
    assert_eq!((reply.status, reply.field("location")), (307, Some("http://elsewhere.invalid/d")));
    let server = Server::start(ServerOptions::of(Flavour::S3)).await.unwrap();
    server.put("/b/d", Blob::new(pseudo_random(10, 2)));
    let refused = Fault::Coded { status: 400, code: "ExpiredToken" };
    server.script().push(Rule::new(refused).field("x-amz-security-token", "old").always());
    let reply = get(&server, "/b/d", &["X-Amz-Security-Token: old"]).await;
    let document = String::from_utf8(reply.body).unwrap();
    assert!(reply.status == 400 && document.contains("<Code>ExpiredToken</Code>"), "{document}");
    assert_eq!(get(&server, "/b/d", &["X-Amz-Security-Token: new"]).await.status, 200);
}

#[tokio::test]
async fn truncated_and_garbage_heads() {
    let (reply, _) = meet(Fault::TruncatedHead).await;
    assert!(reply.head.starts_with("HTTP/1.1 206 ") && reply.status == 0, "{}", reply.head);
    assert_eq!(reply.end, End::Fin);
    let (reply, _) = meet(Fault::GarbageHead).await;
    assert!(reply.status == 0 && !reply.head.starts_with("HTTP/"), "{}", reply.head);
}

#[tokio::test]
async fn a_slow_drip_and_latency_change_no_bytes() {
    let (reply, data) = meet(Fault::SlowDrip { bytes: 20_000, interval_ms: 1 }).await;
    assert_eq!(reply.body, data[PART]);
    let (server, data) = serving().await;
    server.script().next(Fault::Latency(1));
    server.script().next(Fault::CutAfter(10));
    let reply = get(&server, "/d", &[RANGE]).await;
    assert_eq!(reply.body, data[1000..1010], "latency goes along with another fault");
    assert_eq!(server.log()[0].faults.len(), 2);
}

#[tokio::test]
async fn a_rule_finds_its_request() {
    let (server, data) = serving().await;
    server.put("/e", Blob::new(data.clone()));
    let rule = Rule::new(Fault::status(500)).method("GET").path("/e");
    server.script().push(rule.range(RangeMatch::StartsAt(1000)).nth(2).times(1));
    let mut client = Client::connect(&server).await;
    let mut statuses = Vec::new();
    for (target, field) in
        [("/d", RANGE), ("/e", RANGE), ("/e", "Range: bytes=0-9"), ("/e", RANGE), ("/e", RANGE)]
    {
        statuses.push(client.ask("GET", target, &[field]).await.status);
    }
    assert_eq!(statuses, [206, 206, 206, 500, 206]);
}
