//! Remotes that fail, lie or are gone, and requests that name nothing.

use http::Method;
use tidegate::store::BlobStore as _;
use tidegate::{Digest, DigestFunction};
use tidegate_testkit::{Fault, Gate, Rule, ServerOptions};

use crate::bed::{Bed, OK, all, noise, within};

/// A bit is wrong, anywhere. The client never gets the end, and the store names nothing.
#[tokio::test(flavor = "multi_thread")]
async fn damage_is_not_delivered_as_a_whole_blob() {
    let bed = Bed::verifying(|_| {}).await;
    for (index, flipped) in [0_usize, 600_000, 999_999].into_iter().enumerate() {
        let mut bytes = noise(1_000_000, 8 + index as u64);
        let path = format!("/origin/files/{index}");
        bed.put(&format!("/files/{index}"), &bytes);
        bed.remote.script().always(Fault::FlipBit(flipped as u64));
        let response = bed.server.open(Method::GET, &path, &[]).await;
        let cut = all(response).await;
        assert!(cut.status != OK || cut.body.is_err(), "{cut:?}");
        bytes[flipped] ^= 1;
        let damaged = Digest::of(DigestFunction::Sha256, &bytes);
        let missing = bed.server.store.missing(&[damaged]).await.unwrap();
        assert_eq!(missing, [damaged], "damaged bytes have a name");
        bed.remote.script().clear();
        bytes[flipped] ^= 1;
        bed.get(&path).await.is(OK, &bytes);
    }
}

/// All of it is held back until it was verified.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_blob_is_a_status_if_it_is_damaged() {
    let bed = Bed::verifying(|_| {}).await;
    bed.put("/files/blob", &noise(60_000, 20));
    bed.remote.script().always(Fault::FlipBit(0));
    let refused = bed.get("/origin/files/blob").await;
    refused.is(502, b"the bytes of the origin differ from its checksum\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_remote_are_statuses() {
    let bed = Bed::new().await;
    bed.put("/files/blob", &noise(100_000, 9));
    let missing = bed.get("/origin/files/none").await;
    assert_eq!((missing.status, missing.text()), (404, "the origin has no such blob\n"));
    assert_eq!(bed.server.head("/origin/files/none").await.status, 404);
    for (status, expected) in [(503, 502), (500, 502), (403, 502), (429, 503), (404, 404)] {
        bed.remote.script().always(Fault::status(status));
        for range in [&[][..], &[("range", "bytes=0-1")][..]] {
            let failed = bed.server.get("/origin/files/blob", range).await;
            assert_eq!(failed.status, expected, "{status}: {failed:?}");
            assert!(!failed.text().contains("127.0.0.1"), "{failed:?}");
        }
        assert_eq!(bed.server.head("/origin/files/blob").await.status, expected, "{status}");
        bed.remote.script().clear();
    }
    // One that passes is bridged.
    bed.remote.script().push(Rule::new(Fault::status(503)).times(2));
    assert_eq!(bed.get("/origin/files/blob").await.status, OK);
    let Bed { remote, server, folder: _folder } = bed;
    remote.shutdown().await;
    server.get("/origin/files/other", &[]).await.is(502, b"the connection to the origin failed\n");
    assert_eq!(server.get("/origin/files/blob", &[]).await.status, OK, "it is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_cannot_leave_the_origin() {
    let bed = Bed::new().await;
    bed.put("/secret", b"secret");
    bed.put("/files/a b", b"space");
    let rows = [
        ("/origin/other/blob", 404),
        ("/origin/files", 404),
        ("/origin/files/", 404),
        ("/origin/", 404),
        ("/origin/files/../secret", 400),
        ("/origin/files/%2e%2e/secret", 400),
        ("/origin/files/..%2fsecret", 400),
        ("/origin/files/..%5csecret", 400),
        ("/origin/files/a/./b", 400),
        ("/origin/files/%ff", 400),
        ("/origin/files/%00", 400),
    ];
    for (path, status) in rows {
        assert_eq!(bed.get(path).await.status, status, "{path}");
    }
    assert_eq!(bed.remote.requests(), 0);
    bed.get("/origin/files/a%20b").await.is(OK, b"space");
    let put = bed.server.send(Method::PUT, "/origin/files/blob", &[]).await;
    assert_eq!((put.status, put.header("allow")), (405, "GET, HEAD"));
}

/// The remote holds its bytes back for ever; the server stops all the same.
#[tokio::test(flavor = "multi_thread")]
async fn fills_end_with_the_server() {
    let bed = Bed::with(ServerOptions::default(), |options| {
        options.limits.drain_time_max = std::time::Duration::ZERO;
    })
    .await;
    bed.put("/files/blob", &noise(1_000_000, 10));
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.remote.script().push(Rule::new(hold).always());
    let response = bed.server.open(Method::GET, "/origin/files/blob", &[]).await;
    within(gate.reached(1)).await;
    let Bed { remote: _remote, server, folder: _folder } = bed;
    server.end().await;
    assert!(all(response).await.body.is_err());
}
