//! The client of programs against the server.

use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use tidegate::{Digest, DigestFunction};
use tidegate_server::cache_client::{CacheClient, CacheClientError};
use tidegate_testkit::RefusedPort;

use crate::bed::{Bed, noise};

#[tokio::test(flavor = "multi_thread")]
async fn values_and_blobs_come_back() {
    let bed = Bed::new().await;
    let url = format!("http://{}/go/", bed.address);
    let client = CacheClient::new(&url, Some("Basic YTpi")).unwrap();
    assert_eq!(client.value("key").await.unwrap(), None);
    client.put_value("key", "{}".into()).await.unwrap();
    assert_eq!(client.value("key").await.unwrap(), Some("{}".into()));
    assert_eq!(bed.get("/go/ac/key").await.body, b"{}");
    for len in [0, 1, 300_000] {
        let body = Bytes::from(noise(len));
        let digest = Digest::of(DigestFunction::Sha256, &body);
        assert_eq!(client.has_blob(&digest).await.unwrap(), len == 0);
        let pieces: Vec<_> = body.chunks(100_000).map(Bytes::copy_from_slice).map(Ok).collect();
        client.put_blob(&digest, stream::iter(pieces)).await.unwrap();
        assert!(client.has_blob(&digest).await.unwrap());
        let pieces = client.blob(&digest).await.unwrap().unwrap();
        assert!(pieces.try_collect::<Vec<Bytes>>().await.unwrap().concat() == body);
    }
    // A digest with the right hash and another length.
    let body = noise(300_000);
    let digest = Digest::of(DigestFunction::Sha256, &body);
    for len in [299_999, 300_001] {
        let pieces = client.blob(&Digest { len, ..digest }).await.unwrap().unwrap();
        let failed = pieces.try_collect::<Vec<Bytes>>().await.unwrap_err();
        assert!(matches!(failed, CacheClientError::Mismatch), "{len}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_errors() {
    let bed = Bed::new().await;
    let client = CacheClient::new(&format!("http://{}", bed.address), None).unwrap();
    let digest = Digest::of(DigestFunction::Sha256, b"right");
    let wrong = stream::iter([Ok(Bytes::from_static(b"wrong"))]);
    let failed = client.put_blob(&digest, wrong).await.unwrap_err();
    assert!(matches!(failed, CacheClientError::Status(status) if status == 400));
    assert!(client.blob(&digest).await.unwrap().is_none());
    let cut = stream::iter([Ok(Bytes::from_static(b"rig")), Err(std::io::Error::other("cut"))]);
    assert!(client.put_blob(&digest, cut).await.is_err());
    assert!(client.blob(&digest).await.unwrap().is_none());
    assert!(client.value("a key").await.is_err());

    let port = RefusedPort::bind().unwrap();
    let client = CacheClient::new(&format!("http://{}", port.address().unwrap()), None);
    let failed = client.unwrap().value("key").await.unwrap_err();
    assert!(matches!(failed, CacheClientError::NoResponse(_)), "{failed}");
    for url in ["", "host", "ftp://host", "http://", "http://host/?a=b"] {
        assert!(CacheClient::new(url, None).is_err(), "{url}");
    }
}
