//! Versions: fresh, revalidated, changed, gone; remotes that are down; restarts.

use std::time::Duration;

use tidegate_server::serve::ServeOptions;
use tidegate_testkit::{Blob, EtagStyle, Fault, Framing, ServerOptions};

use crate::bed::{Bed, OK, noise};

/// Nothing is fresh, so each request asks the remote.
fn never_fresh(options: &mut ServeOptions) {
    options.origins.fresh_for = Duration::ZERO;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_revalidated_without_its_bytes() {
    let bed = Bed::with(ServerOptions::default(), never_fresh).await;
    // Of one length, so that only the versions differ.
    let (first, second) = (noise(300_000, 11), noise(300_000, 12));
    bed.put("/files/blob", &first);
    let cold = bed.get("/origin/files/blob").await;
    cold.is(OK, &first);
    bed.remote.clear_log();
    let same = bed.get("/origin/files/blob").await;
    same.is(OK, &first);
    assert_eq!(same.header("cache-status"), "tidegate; fwd=stale; fwd-status=304");
    bed.server.get("/origin/files/blob", &[("range", "bytes=5-9")]).await.is(206, &first[5..10]);
    let log = bed.remote.log();
    assert!(log.len() == 2 && log.iter().all(|one| one.method == "HEAD"), "{log:?}");
    bed.put("/files/blob", &second);
    let changed = bed.get("/origin/files/blob").await;
    changed.is(OK, &second);
    assert_ne!(changed.header("etag"), cold.header("etag"));
    bed.remote.remove("/files/blob");
    assert_eq!(bed.get("/origin/files/blob").await.status, 404);
    // It is forgotten, so a remote that is down now delivers nothing old.
    bed.remote.script().always(Fault::status(503));
    assert_eq!(bed.get("/origin/files/blob").await.status, 502);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_version_is_not_revalidated() {
    let bed = Bed::new().await;
    let first = noise(1000, 13);
    bed.put("/files/blob", &first);
    bed.get("/origin/files/blob").await.is(OK, &first);
    bed.put("/files/blob", b"second");
    bed.get("/origin/files/blob").await.is(OK, &first);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_is_served_while_the_remote_is_down() {
    let bed = Bed::with(ServerOptions::default(), never_fresh).await;
    let bytes = noise(300_000, 14);
    bed.put("/files/blob", &bytes);
    bed.get("/origin/files/blob").await.is(OK, &bytes);
    bed.remote.script().always(Fault::status(503));
    let stale = bed.get("/origin/files/blob").await;
    stale.is(OK, &bytes);
    assert_eq!(stale.header("cache-status"), "tidegate; hit; detail=origin-down");
    // A remote that refuses is not down.
    bed.remote.script().clear();
    bed.remote.script().always(Fault::status(403));
    assert_eq!(bed.get("/origin/files/blob").await.status, 502);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_forgets_nothing() {
    let bed = Bed::new().await;
    let (short, long) = (noise(1000, 15), noise(2_000_000, 16));
    bed.put("/files/short", &short);
    bed.put("/files/long", &long);
    bed.get("/origin/files/short").await.is(OK, &short);
    bed.get("/origin/files/long").await.is(OK, &long);
    let requests = bed.remote.requests();
    let bed = bed.restart(|_| {}).await;
    bed.get("/origin/files/short").await.is(OK, &short);
    bed.server
        .get("/origin/files/long", &[("range", "bytes=-5")])
        .await
        .is(206, &long[1_999_995..]);
    assert_eq!(bed.remote.requests(), requests);
}

/// A remote that says neither length nor version: nothing pins its bytes, so each time is a fetch.
#[tokio::test(flavor = "multi_thread")]
async fn a_remote_may_say_little() {
    let remote = ServerOptions {
        etag: EtagStyle::None,
        last_modified: false,
        framing: Framing::Chunked,
        ranges: false,
        ..ServerOptions::default()
    };
    let bed = Bed::with(remote, never_fresh).await;
    let bytes = noise(500_000, 17);
    bed.remote.put("/files/blob", Blob::new(bytes.clone()));
    let whole = bed.get("/origin/files/blob").await;
    whole.is(OK, &bytes);
    assert_eq!(whole.header("content-length"), "");
    bed.server.get("/origin/files/blob", &[("range", "bytes=-9")]).await.is(206, &bytes[499_991..]);
    assert!(bed.fetches() > 1);
}

/// Headers that belong to the bytes come along.
#[tokio::test(flavor = "multi_thread")]
async fn the_coding_of_a_blob_is_in_the_response() {
    let bed = Bed::new().await;
    let blob = Blob::new(noise(90_000, 18)).with_content_type("text/plain");
    bed.remote.put("/files/blob", blob.with_content_encoding("gzip"));
    for _ in 0..2 {
        let whole = bed.get("/origin/files/blob").await;
        whole.is(OK, &noise(90_000, 18));
        assert_eq!(whole.header("content-type"), "text/plain");
        assert_eq!(whole.header("content-encoding"), "gzip");
    }
}

/// A blob of ten times the memory, to a client that reads it and to one that does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_may_be_longer_than_the_memory() {
    let bed = Bed::with(ServerOptions::default(), |options| {
        options.memory_bytes_max = 4 << 20;
    })
    .await;
    let bytes = noise(40 << 20, 19);
    bed.put("/files/blob", &bytes);
    let slow = bed.server.open(http::Method::GET, "/origin/files/blob", &[]).await;
    bed.get("/origin/files/blob").await.is(OK, &bytes);
    crate::bed::all(slow).await.is(OK, &bytes);
}
