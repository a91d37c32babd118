//! `/cas/`: blobs, ranges, conditional requests, and other protocols' blobs.

use std::sync::Arc;

use bytes::Bytes;
use tidegate::store::{BlobStore as _, PutRequest};
use tidegate::{Budget, Digest, DigestFunction};

use crate::bed::{Bed, noise};

fn path(digest: &Digest) -> String {
    format!("/cas/{}", digest.checksum().hex())
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_come_back() {
    let bed = Bed::new().await;
    for len in [0, 1, 5000, 70_000, 1_000_000] {
        let body = noise(len);
        let digest = Digest::of(DigestFunction::Sha256, &body);
        let path = path(&digest);
        if len > 0 {
            assert_eq!(bed.get(&path).await.status, 404);
            assert_eq!(bed.send("HEAD", &path, b"").await.status, 404);
        }
        assert_eq!(bed.put(&path, &body).await.status, 200);
        let tag = format!("\"{}\"", digest.checksum().hex());
        for path in [path.clone(), format!("/a/b{path}"), format!("/{path}")] {
            let answer = bed.get(&path).await;
            assert_eq!(answer.status, 200);
            assert!(answer.body == body, "{len}");
            assert_eq!(answer.header("content-length"), Some(&*len.to_string()));
            assert_eq!(answer.header("etag"), Some(&*tag));
            assert_eq!(answer.header("content-encoding"), None);
            let head = bed.send("HEAD", &path, b"").await;
            assert_eq!((head.status, head.body.len()), (200, 0));
            assert_eq!(head.header("content-length"), Some(&*len.to_string()));
        }
        let again = bed.put(&path, &body).await;
        assert_eq!((again.status, again.header("etag")), (200, Some(&*tag)));
    }
    assert_eq!(bed.budget.held_bytes(), 0);
}

/// A blob of a gRPC client is found here, and one of an HTTP client there.
#[tokio::test(flavor = "multi_thread")]
async fn protocols_share_blobs() {
    let bed = Bed::new().await;
    for (function, folder) in [(DigestFunction::Sha256, ""), (DigestFunction::Blake3, "blake3/")] {
        let (first, second) = (Bytes::from(noise(3000)), noise(200_000));
        let digest = Digest::of(function, &first);
        bed.store.put(&PutRequest::new(digest, Arc::new(first.clone()))).await.unwrap();
        let at = |digest: &Digest| format!("/cas/{folder}{}", digest.checksum().hex());
        assert!(bed.get(&at(&digest)).await.body == first);
        let digest = Digest::of(function, &second);
        assert_eq!(bed.put(&at(&digest), &second).await.status, 200);
        assert!(bed.store.missing(&[digest]).await.unwrap().is_empty());
        assert!(bed.store.get(&digest, 0, &Budget::default()).await.is_ok());
    }
    let digest = Digest::of(DigestFunction::Blake3, &noise(3000));
    assert_eq!(bed.get(&path(&digest)).await.status, 404, "it is no SHA-256");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_name_nothing() {
    let bed = Bed::new().await;
    let digest = Digest::of(DigestFunction::Sha256, b"right");
    for wrong in [&b"wrong"[..], b"", b"right and more"] {
        let answer = bed.put(&path(&digest), wrong).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("differ"), "{}", answer.text());
        assert_eq!(bed.get(&path(&digest)).await.status, 404);
    }
    assert_eq!(bed.put(&path(&digest), b"right").await.status, 200);
    assert_eq!(bed.put(&path(&digest), b"longer").await.status, 400, "the length is known");
    assert_eq!(bed.get("/cas/abc").await.status, 400);
    let encoded = bed.send_with("PUT", &path(&digest), &["Content-Encoding: gzip"], b"right").await;
    assert_eq!(encoded.status, 415);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges() {
    let bed = Bed::new().await;
    let body = noise(700_000);
    let digest = Digest::of(DigestFunction::Sha256, &body);
    let path = path(&digest);
    assert_eq!(bed.put(&path, &body).await.status, 200);
    let tag = format!("\"{}\"", digest.checksum().hex());
    let rows = [
        ("bytes=0-0", 0, 1),
        ("bytes=100-299999", 100, 300_000),
        ("bytes=650000-", 650_000, 700_000),
        ("bytes=-10", 699_990, 700_000),
        ("bytes=699999-800000", 699_999, 700_000),
    ];
    for (range, start, end) in rows {
        let answer = bed.send_with("GET", &path, &[&format!("Range: {range}")], b"").await;
        assert_eq!(answer.status, 206, "{range}");
        assert!(answer.body == body[start..end], "{range}");
        let place = format!("bytes {start}-{}/700000", end - 1);
        assert_eq!(answer.header("content-range"), Some(&*place));
        assert_eq!(answer.header("content-length"), Some(&*(end - start).to_string()));
    }
    let beyond = bed.send_with("GET", &path, &["Range: bytes=700000-"], b"").await;
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */700000")));
    let several = bed.send_with("GET", &path, &["Range: bytes=0-1,4-5"], b"").await;
    assert_eq!((several.status, several.body.len()), (200, 700_000));
    let head = bed.send_with("HEAD", &path, &["Range: bytes=0-1"], b"").await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("700000")));

    let same = format!("If-Range: {tag}");
    let part = bed.send_with("GET", &path, &["Range: bytes=0-1", &same], b"").await;
    assert_eq!(part.status, 206);
    let other = bed.send_with("GET", &path, &["Range: bytes=0-1", "If-Range: \"x\""], b"").await;
    assert_eq!(other.status, 200);
    let known = format!("If-None-Match: \"x\", {tag}");
    let unchanged = bed.send_with("GET", &path, &[&known, "Range: bytes=0-1"], b"").await;
    assert_eq!((unchanged.status, unchanged.header("etag")), (304, Some(&*tag)));
    assert!(unchanged.body.is_empty());
    let differs = bed.send_with("GET", &path, &["If-None-Match: \"x\""], b"").await;
    assert_eq!(differs.status, 200);
    let plain = bed.send_with("GET", &path, &["Accept-Encoding: gzip, zstd"], b"").await;
    assert!(plain.body == body);
}
