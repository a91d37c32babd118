//! Whole blobs: cold, warm, while they arrive.

use http::Method;
use tidegate_testkit::{Fault, Gate, Rule};

use crate::bed::{Bed, OK, all, noise, some};

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_fetched_once() {
    let bed = Bed::new().await;
    for (name, len) in [("empty", 0), ("short", 100), ("record", 65_536), ("long", 9_000_000)] {
        let bytes = noise(len, 1);
        bed.put(&format!("/files/a/{name}"), &bytes);
        let path = format!("/origin/files/a/{name}");
        bed.remote.clear_log();
        let cold = bed.get(&path).await;
        cold.is(OK, &bytes);
        assert_eq!(cold.header("content-length"), len.to_string());
        assert_eq!(cold.header("cache-status"), "tidegate; fwd=miss; stored");
        let fetches = bed.fetches();
        assert!(fetches > 0);
        for _ in 0..3 {
            let warm = bed.get(&path).await;
            warm.is(OK, &bytes);
            assert_eq!(warm.header("cache-status"), "tidegate; hit");
            assert_eq!(warm.header("etag"), cold.header("etag"));
            assert!(warm.header("etag").starts_with('"'));
        }
        let head = bed.server.head(&path).await;
        assert_eq!((head.status, head.header("content-length")), (OK, &*len.to_string()));
        assert_eq!(bed.fetches(), fetches, "{name}");
    }
}

/// Fifty clients. Forty leave, and there is one fill.
#[tokio::test(flavor = "multi_thread")]
async fn one_fill_however_many_ask() {
    let bed = Bed::new().await;
    let bytes = noise(3_000_000, 2);
    bed.put("/files/blob", &bytes);
    let gate = Gate::new();
    bed.remote.script().push(Rule::new(Fault::HoldAfter { bytes: 1_500_000, gate: gate.clone() }));
    let mut bodies = Vec::new();
    for _ in 0..50 {
        let response = bed.server.open(Method::GET, "/origin/files/blob", &[]).await;
        assert_eq!(response.status(), OK);
        bodies.push(response);
    }
    // What has arrived is delivered while the rest is still at the remote.
    let mut first = bodies.remove(0);
    let mut start = some(first.body_mut(), 1_000_000).await;
    drop(bodies.drain(..40));
    gate.open();
    for response in bodies {
        all(response).await.is(OK, &bytes);
    }
    start.extend_from_slice(all(first).await.bytes());
    assert!(start == bytes);
    assert_eq!(bed.fetches(), 1);
}

/// The only client leaves, and the next one finds the blob.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_does_not_end_the_fill() {
    let bed = Bed::new().await;
    let bytes = noise(2_000_000, 3);
    bed.put("/files/blob", &bytes);
    let gate = Gate::new();
    bed.remote.script().push(Rule::new(Fault::HoldAfter { bytes: 500_000, gate: gate.clone() }));
    let mut response = bed.server.open(Method::GET, "/origin/files/blob", &[]).await;
    some(response.body_mut(), 100_000).await;
    drop(response);
    gate.open();
    bed.get("/origin/files/blob").await.is(OK, &bytes);
    assert_eq!(bed.fetches(), 1);
}
