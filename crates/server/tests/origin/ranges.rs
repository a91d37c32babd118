//! Ranges and conditional requests: cold, warm, while the blob arrives.

use http::Method;
use tidegate_testkit::{Fault, Gate, Rule, ServerOptions};

use crate::bed::{Bed, OK, all, noise, some};

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_those_of_the_blob() {
    let bed = Bed::new().await;
    let bytes = noise(700_000, 4);
    let rows = [
        ("bytes=0-0", 0, 1),
        ("bytes=100-299999", 100, 300_000),
        ("bytes=650000-", 650_000, 700_000),
        ("bytes=-10", 699_990, 700_000),
    ];
    for (index, (range, start, end)) in rows.into_iter().enumerate() {
        bed.put(&format!("/files/{index}"), &bytes);
        let path = format!("/origin/files/{index}");
        // Cold, then warm.
        for _ in 0..2 {
            let part = bed.server.get(&path, &[("range", range)]).await;
            part.is(206, &bytes[start..end]);
            assert_eq!(part.header("content-range"), format!("bytes {start}-{}/700000", end - 1));
            assert_eq!(part.header("content-length"), (end - start).to_string());
        }
        assert_eq!(bed.fetches(), index + 1);
        let beyond = bed.server.get(&path, &[("range", "bytes=700000-")]).await;
        assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */700000"));
    }
    let tag = bed.server.head("/origin/files/0").await.header("etag").to_owned();
    let range = ("range", "bytes=1-2");
    let same = bed.server.get("/origin/files/0", &[range, ("if-range", &tag)]).await;
    same.is(206, &bytes[1..3]);
    let other = bed.server.get("/origin/files/0", &[range, ("if-range", "\"x\"")]).await;
    other.is(OK, &bytes);
}

/// A client that has the blob gets it from nowhere, not even into the store.
#[tokio::test(flavor = "multi_thread")]
async fn entity_tags_are_the_same_before_and_after_a_fill() {
    let bed = Bed::new().await;
    bed.put("/files/blob", &noise(200_000, 5));
    let tag = bed.server.head("/origin/files/blob").await.header("etag").to_owned();
    let known = [("if-none-match", &*tag)];
    let unchanged = bed.server.get("/origin/files/blob", &known).await;
    unchanged.is(304, b"");
    assert_eq!((unchanged.header("etag"), bed.fetches()), (&*tag, 0));
    let whole = bed.get("/origin/files/blob").await;
    assert_eq!((whole.status, whole.header("etag")), (OK, &*tag));
    bed.server.get("/origin/files/blob", &known).await.is(304, b"");
    let other = bed.server.get("/origin/files/blob", &[("if-none-match", "\"x\"")]).await;
    assert_eq!((other.status, bed.fetches()), (OK, 1));
}

/// The last byte is wrong. A range of the first bytes is an error, because the blob is.
#[tokio::test(flavor = "multi_thread")]
async fn a_range_waits_for_verification() {
    let bed = Bed::verifying(|_| {}).await;
    let bytes = noise(1_000_000, 6);
    bed.put("/files/blob", &bytes);
    bed.remote.script().always(Fault::FlipBit(999_999));
    let part = bed.server.get("/origin/files/blob", &[("range", "bytes=0-9")]).await;
    assert_eq!(part.status, 502, "{part:?}");
    assert!(part.text().contains("checksum"), "{part:?}");
    bed.remote.script().clear();
    bed.server.get("/origin/files/blob", &[("range", "bytes=0-9")]).await.is(206, &bytes[..10]);
}

/// With the option, a range is served while the rest of its blob is still at the remote.
#[tokio::test(flavor = "multi_thread")]
async fn unverified_ranges_do_not_wait() {
    let bed = Bed::with(ServerOptions::default(), |options| {
        options.origins.serves_unverified = true;
    })
    .await;
    let bytes = noise(2_000_000, 7);
    bed.put("/files/blob", &bytes);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 1_000_000, gate: gate.clone() };
    bed.remote.script().push(Rule::new(hold).always());
    let mut whole = bed.server.open(Method::GET, "/origin/files/blob", &[]).await;
    let start = some(whole.body_mut(), 100_000).await;
    let part = bed.server.get("/origin/files/blob", &[("range", "bytes=100-499999")]).await;
    part.is(206, &bytes[100..500_000]);
    gate.open();
    assert!([&start[..], all(whole).await.bytes()].concat() == bytes);
}
