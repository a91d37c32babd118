//! Bodies: chunked, cut off, too long, announced with `Expect`, and for a full store.

use std::time::Duration;

use tidegate::{Budget, BudgetOptions, Digest, DigestFunction};
use tidegate_server::serve::HttpLimits;
use tidegate_server::store::StoreOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bed::{Bed, answer, noise};

fn path(body: &[u8]) -> String {
    format!("/cas/{}", Digest::of(DigestFunction::Sha256, body).checksum().hex())
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_bodies() {
    let bed = Bed::new().await;
    for len in [0, 5, 300_000] {
        let body = noise(len);
        for path in [path(&body), format!("/ac/{len}")] {
            let mut connection = bed.connect().await;
            let head = format!(
                "PUT {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            connection.write_all(head.as_bytes()).await.unwrap();
            for chunk in body.chunks(1000) {
                let size = format!("{:x}\r\n", chunk.len());
                let chunk = [size.as_bytes(), chunk, b"\r\n"].concat();
                connection.write_all(&chunk).await.unwrap();
            }
            connection.write_all(b"0\r\n\r\n").await.unwrap();
            assert_eq!(answer(&mut connection).await.status, 200, "{len}");
            assert!(bed.get(&path).await.body == body, "{len}");
        }
    }
}

/// A body that ends early names nothing, wherever it ends.
#[tokio::test(flavor = "multi_thread")]
async fn cut_bodies_name_nothing() {
    let bed = Bed::new().await;
    let body = noise(100_000);
    for path in [path(&body), "/ac/key".into(), "/v8/artifacts/aa".into(), "/webdav/a".into()] {
        for sent in [0, 1, 65_536, 99_999] {
            let mut connection = bed.connect().await;
            let head =
                format!("PUT {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n");
            connection.write_all(head.as_bytes()).await.unwrap();
            connection.write_all(&body[..sent]).await.unwrap();
            connection.shutdown().await.unwrap();
            let mut all = Vec::new();
            let _ = connection.read_to_end(&mut all).await;
            assert!(!String::from_utf8_lossy(&all).starts_with("HTTP/1.1 20"), "{sent}");
            assert_eq!(bed.get(&path).await.status, 404, "{path} {sent}");
        }
    }
    assert_eq!(bed.budget.held_bytes(), 0);
}

/// The final response comes although no byte of the body was sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_known_blob_is_answered_before_its_body() {
    let bed = Bed::new().await;
    let body = noise(500_000);
    let path = path(&body);
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 500000\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut connection = bed.connect().await;
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    connection.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write_all(&body).await.unwrap();
    assert_eq!(answer(&mut connection).await.status, 200);

    let mut connection = bed.connect().await;
    connection.write_all(head.as_bytes()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_mins(1), answer(&mut connection)).await;
    assert_eq!(early.expect("the server waits for the body").status, 200);
}

/// Clients that declare a body and send nothing hold no memory, so others still read and write.
#[tokio::test(flavor = "multi_thread")]
async fn idle_uploads_hold_no_memory() {
    let limit = BudgetOptions { bytes: 300 << 10, ..BudgetOptions::default() };
    let options = StoreOptions::new(512 << 20);
    let bed = Bed::with_budget(options, HttpLimits::default(), Budget::new(limit)).await;
    let mut idle = Vec::new();
    for number in 0..20 {
        let mut connection = bed.connect().await;
        let head = format!(
            "PUT /ac/{number} HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        // The server waits for the body now.
        let mut interim = [0; 25];
        connection.read_exact(&mut interim).await.unwrap();
        assert_eq!(bed.budget.held_bytes(), 0);
        idle.push(connection);
    }
    let body = noise(500_000);
    assert_eq!(bed.put(&path(&body), &body).await.status, 200);
    assert!(bed.get(&path(&body)).await.body == body);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_bounded() {
    let limits = HttpLimits { blob_bytes_max: 1000, value_bytes_max: 2000 };
    let bed = Bed::with(StoreOptions::new(512 << 20), limits).await;
    let rows = [
        (path(&noise(1000)), 1000, 200),
        (path(&noise(1001)), 1001, 413),
        ("/ac/key".into(), 2000, 200),
        ("/ac/key".into(), 2001, 413),
        ("/cache/key".into(), 2001, 413),
        ("/v1/cache/1".into(), 2001, 413),
        ("/v8/artifacts/aa".into(), 2001, 413),
    ];
    for (path, len, status) in rows {
        assert_eq!(bed.put(&path, &noise(len)).await.status, status, "{path} {len}");
    }
    assert_eq!(bed.get("/ac/key").await.body.len(), 2000, "the refused value replaced nothing");
    // Without a declared length, too.
    let mut connection = bed.connect().await;
    let head = "PUT /ac/other HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = [b"7d1\r\n", &noise(2001)[..], b"\r\n0\r\n\r\n"].concat();
    connection.write_all(&[head.as_bytes(), &chunk].concat()).await.unwrap();
    assert_eq!(answer(&mut connection).await.status, 413);
    assert_eq!(bed.get("/ac/other").await.status, 404);
}

/// A full store says so, and still serves what it has.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_507() {
    let bed = Bed::with(StoreOptions::new(64 << 20), HttpLimits::default()).await;
    let kept = noise(1000);
    assert_eq!(bed.put(&path(&kept), &kept).await.status, 200);
    let mut refused = None;
    for len in 0..20 {
        let body = noise((8 << 20) + len);
        let answer = bed.put(&path(&body), &body).await;
        if answer.status != 200 {
            refused = Some((answer, path(&body)));
            break;
        }
    }
    // Nothing is older than the minimum age, so nothing is evicted.
    let (answer, path_refused) = refused.expect("160 MiB in a store of 64 MiB");
    assert_eq!(answer.status, 507);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(bed.get(&path_refused).await.status, 404);
    assert!(bed.get(&path(&kept)).await.body == kept);
}
