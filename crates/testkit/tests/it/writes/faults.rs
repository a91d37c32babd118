//! Each fault of a write has its documented effect.

use tidegate_testkit::{
    Fault, FaultMix, Flavour, PartLie, Rule, Server, WriteChecksums, WriteOptions, pseudo_random,
};

use super::{
    CHECK, CHECK_CRC64_NVME, ENABLED, begin, complete, element, elements, named, part, refusal,
    start, upload, with,
};
use crate::client::{Client, End, ask, get, write};

/// The response to a PUT with `fault`; the next PUT must succeed.
async fn meet(fault: Fault) -> (crate::client::Reply, Server) {
    let server = start(Flavour::S3).await;
    server.script().push(Rule::new(fault).method("PUT"));
    let reply = write(&server, "PUT", "/b/k", &[], CHECK).await;
    assert_eq!(server.script().applied(), 1);
    assert_eq!(write(&server, "PUT", "/b/after", &[], CHECK).await.status, 200);
    (reply, server)
}

fn coded(status: u16, code: &'static str) -> Fault {
    Fault::Coded { status, code }
}

#[tokio::test]
async fn refusals_come_before_or_after_the_body() {
    let cases = [
        (Fault::status_retry_after(503, "7"), (503, "SlowDown")),
        (Fault::status(429), (429, "SlowDown")),
        (Fault::status(412), (412, "PreconditionFailed")),
        (coded(409, "ConditionalRequestConflict"), (409, "ConditionalRequestConflict")),
        (coded(400, "ExpiredToken"), (400, "ExpiredToken")),
        (Fault::status(401), (401, "AccessDenied")),
        (Fault::status(403), (403, "AccessDenied")),
        (coded(404, "NoSuchUpload"), (404, "NoSuchUpload")),
    ];
    for (fault, expected) in cases {
        let (reply, server) = meet(fault.clone()).await;
        assert_eq!(refusal(&reply), expected);
        assert_eq!(reply.field("connection"), Some("close"), "the body was not read");
        assert_eq!(server.object("/b/k"), None);
        server.idle().await;
        assert_eq!(server.log()[0].body_bytes_received, 0);
        let (reply, server) = meet(Fault::AfterBody(Box::new(fault.clone()))).await;
        assert_eq!((refusal(&reply), reply.field("connection")), (expected, None));
        assert_eq!(server.object("/b/k"), None);
        assert_eq!(server.log()[0].body_bytes_received, 9);
        let (reply, server) = meet(Fault::AfterEffect(Box::new(fault))).await;
        assert_eq!(refusal(&reply), expected);
        assert!(server.object("/b/k").is_some());
    }
    let (reply, _) = meet(Fault::status_retry_after(503, "7")).await;
    assert_eq!(reply.field("retry-after"), Some("7"));
}

#[tokio::test]
async fn an_early_refusal_of_a_long_body_arrives() {
    let server = start(Flavour::S3).await;
    server.script().next(Fault::status(403));
    let data = pseudo_random(8 * 1024 * 1024, 1);
    let reply = write(&server, "PUT", "/b/k", &[], &data).await;
    assert_eq!((refusal(&reply), reply.end), ((403, "AccessDenied"), End::Complete));
}

#[tokio::test]
async fn a_client_that_waits_keeps_its_body() {
    let server = start(Flavour::S3).await;
    server.script().next(Fault::status(403));
    let mut client = Client::connect(&server).await;
    client.send("PUT", "/b/k", &["Content-Length: 9", "Expect: 100-continue"]).await;
    assert_eq!(client.reply(false).await.status, 403);
}

#[tokio::test]
async fn a_lost_response_had_its_effect() {
    let (reply, server) = meet(Fault::LoseResponse).await;
    assert_eq!((reply.head.as_str(), reply.end), ("", End::Reset));
    assert_eq!(server.object("/b/k").unwrap().bytes.as_deref(), Some(CHECK));
    assert_eq!(server.log()[0].status, None);
    let (id, parts) = upload(&server, "/b/parts", &[], &[CHECK]).await;
    server.script().push(Rule::new(Fault::LoseResponse).method("POST").query("uploadId="));
    let lost = complete(&server, "/b/parts", &id, &[], &named(&parts)).await;
    assert_eq!(lost.end, End::Reset);
    assert!(server.object("/b/parts").is_some());
}

#[tokio::test]
async fn a_cut_request_has_no_effect() {
    for bytes in [0, 5, 9] {
        let (reply, server) = meet(Fault::CutRequestAfter(bytes)).await;
        assert_eq!((reply.head.as_str(), reply.end), ("", End::Reset), "{bytes}");
        assert_eq!(server.object("/b/k"), None);
        assert_eq!(server.log()[0].body_bytes_received, bytes);
    }
    let (reply, server) = meet(Fault::CutRequestAfter(10)).await;
    assert_eq!(reply.status, 200, "a shorter body is not cut");
    assert!(server.object("/b/k").is_some());
}

#[tokio::test]
async fn a_stalled_request_ends_with_its_client() {
    let server = start(Flavour::S3).await;
    server.script().next(Fault::StallRequestAfter(4));
    let mut client = Client::connect(&server).await;
    client.send("PUT", "/b/k", &["Content-Length: 9"]).await;
    tokio::io::AsyncWriteExt::write_all(&mut client.stream, CHECK).await.unwrap();
    server.arrived(1).await;
    assert_eq!(write(&server, "PUT", "/b/other", &[], CHECK).await.status, 200);
    assert!(!server.log()[0].finished);
    drop(client);
    server.idle().await;
    assert_eq!((server.log()[0].body_bytes_received, server.object("/b/k")), (4, None));
}

#[tokio::test]
async fn a_flipped_byte_is_noticed_by_a_server_that_verifies() {
    let sum = format!("x-amz-checksum-crc64nvme: {CHECK_CRC64_NVME}");
    let flip = || Rule::new(Fault::FlipRequestByte(3));
    let server = start(Flavour::S3).await;
    server.script().push(flip());
    let put = write(&server, "PUT", "/b/k", &[&sum], CHECK).await;
    assert_eq!(refusal(&put), (400, "BadDigest"));
    let writes = WriteOptions { checksums: WriteChecksums::Ignored, ..WriteOptions::default() };
    let server = with(Flavour::S3, writes).await;
    server.script().push(flip());
    assert_eq!(write(&server, "PUT", "/b/k", &[&sum], CHECK).await.status, 200);
    assert_eq!(server.object("/b/k").unwrap().bytes.as_deref(), Some(&b"123556789"[..]));
}

#[tokio::test]
async fn an_error_may_come_in_the_body_of_a_success() {
    for has_effect in [false, true] {
        let server = start(Flavour::S3).await;
        let (id, parts) = upload(&server, "/b/k", &[], &[CHECK]).await;
        let fault = Fault::ErrorInBody { code: "InternalError", has_effect };
        server.script().push(Rule::new(fault).query("uploadId=").method("POST"));
        let reply = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
        assert_eq!(refusal(&reply), (200, "InternalError"));
        assert!(reply.text().contains("   \n<Error>"), "{}", reply.text());
        assert_eq!(server.object("/b/k").is_some(), has_effect);
        assert_eq!(server.unfinished_uploads().is_empty(), has_effect);
        assert_eq!(complete(&server, "/b/k", &id, &[], &named(&parts)).await.status, 200);
    }
}

#[tokio::test]
async fn a_response_may_name_a_wrong_checksum() {
    let (reply, server) = meet(Fault::LieChecksum).await;
    let lie = reply.field("x-amz-checksum-crc64nvme").unwrap().to_owned();
    assert_ne!(lie, CHECK_CRC64_NVME);
    server.script().next(Fault::LieChecksum);
    let head = ask(&server, "HEAD", "/b/k", &[ENABLED]).await;
    assert_eq!(head.field("x-amz-checksum-crc64nvme"), Some(lie.as_str()));
    let (id, parts) = upload(&server, "/b/parts", &[], &[CHECK]).await;
    server.script().next(Fault::LieChecksum);
    let done = complete(&server, "/b/parts", &id, &[], &named(&parts)).await;
    assert_eq!(element(&done, "ChecksumCRC64NVME"), Some(lie.as_str()));
    let head = ask(&server, "HEAD", "/b/parts", &[ENABLED]).await;
    assert_eq!(head.field("x-amz-checksum-crc64nvme"), Some(CHECK_CRC64_NVME));
}

#[tokio::test]
async fn a_list_of_parts_may_be_wrong() {
    let server = start(Flavour::S3).await;
    let fields = ["x-amz-checksum-algorithm: CRC64NVME"];
    let (id, _) = upload(&server, "/b/k", &fields, &[b"1", b"22"]).await;
    let target = format!("/b/k?uploadId={id}");
    let right = get(&server, &target, &[]).await;
    for (lie, name) in [
        (PartLie::Size, "Size"),
        (PartLie::Etag, "ETag"),
        (PartLie::Checksum, "ChecksumCRC64NVME"),
        (PartLie::Missing, "PartNumber"),
    ] {
        server.script().next(Fault::WrongPartsList { part: 2, lie });
        let wrong = get(&server, &target, &[]).await;
        assert_eq!(elements(&wrong, name)[0], elements(&right, name)[0], "{lie:?}");
        assert_ne!(elements(&wrong, name).get(1), elements(&right, name).get(1), "{lie:?}");
    }
}

#[tokio::test]
async fn a_rule_finds_a_part() {
    let server = start(Flavour::S3).await;
    let rule = Rule::new(Fault::status(500)).method("PUT").query("partNumber=2");
    server.script().push(rule);
    let (id, _) = upload(&server, "/b/k", &[], &[CHECK]).await;
    let mut statuses = Vec::new();
    for number in [20, 2, 2] {
        statuses.push(part(&server, "/b/k", &id, number, &[], CHECK).await.status);
    }
    assert_eq!(statuses, [200, 500, 200]);
    assert_eq!(server.parts_received().into_iter().collect::<Vec<_>>(), [(1, 1), (2, 1), (20, 1)]);
}

#[tokio::test]
async fn a_list_may_be_cut() {
    let server = start(Flavour::S3).await;
    write(&server, "PUT", "/b/k", &[], CHECK).await;
    server.script().next(Fault::CutAfter(60));
    let list = get(&server, "/b?list-type=2", &[]).await;
    assert_eq!((list.status, list.body.len(), list.end), (200, 60, End::Fin));
}

#[tokio::test]
async fn bounded_retries_survive_random_faults() {
    let mut faults = 0;
    for seed in 0..20 {
        let server = start(Flavour::S3).await;
        let id = begin(&server, "/b/k", &[]).await;
        server.script().random(seed, FaultMix::recoverable(0.7));
        let mut parts = Vec::new();
        for number in 1..=3 {
            let mut etag = None;
            for _ in 0..3 {
                let reply = part(&server, "/b/k", &id, number, &[], CHECK).await;
                etag =
                    etag.or(reply.field("etag").filter(|_| reply.status == 200).map(str::to_owned));
            }
            parts.push((number, etag.unwrap_or_else(|| panic!("seed {seed}, part {number}"))));
        }
        let mut is_complete = false;
        for _ in 0..3 {
            let reply = complete(&server, "/b/k", &id, &[], &named(&parts)).await;
            is_complete |= reply.status == 200;
        }
        assert!(is_complete, "seed {seed}");
        assert_eq!(server.object("/b/k").unwrap().bytes.unwrap(), CHECK.repeat(3), "seed {seed}");
        faults += server.script().applied();
    }
    assert!(faults > 40, "{faults}");
}
