//! The exact status codes of each tool, and that no tool reads what another one wrote.

use crate::bed::{Bed, noise};

const CCACHE: &str = "06fa0e48kou9hr7m1c2d3e4f5g6h7i8jk";

/// Path, status of PUT, whether DELETE is allowed.
#[tokio::test(flavor = "multi_thread")]
async fn values_come_back_with_the_status_codes_of_the_tool() {
    let bed = Bed::new().await;
    let rows = [
        (format!("/{CCACHE}"), 200, Some(204)),
        (format!("/{}/{}", &CCACHE[..2], &CCACHE[2..]), 200, Some(204)),
        ("/cache/0123456789abcdef0123456789abcdef".into(), 200, None),
        ("/v1/cache/12345678901234567890".into(), 200, None),
        ("/v8/artifacts/0123456789abcdef?slug=t".into(), 202, None),
        ("/webdav/any/name".into(), 201, Some(204)),
        (
            "/p/0/6/f/06fa0e4806fa0e4806fa0e4806fa0e4806fa0e4806fa0e4806fa0e4806fa0e48".into(),
            201,
            Some(204),
        ),
    ];
    for (number, (path, status, deletes)) in rows.into_iter().enumerate() {
        for len in [number, 100_000 + number] {
            let body = noise(len);
            assert_eq!(bed.get(&path).await.status, 404, "{path}");
            assert_eq!(bed.send("HEAD", &path, b"").await.status, 404, "{path}");
            assert_eq!(bed.put(&path, &body).await.status, status, "{path}");
            let answer = bed.get(&path).await;
            assert!(answer.status == 200 && answer.body == body, "{path}");
            let head = bed.send("HEAD", &path, b"").await;
            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            assert_eq!(head.header("content-length"), Some(&*len.to_string()), "{path}");
            let delete = bed.send("DELETE", &path, b"").await;
            assert_eq!(delete.status, deletes.unwrap_or(405), "{path}");
            if deletes.is_none() {
                assert_eq!(delete.header("allow"), Some("GET, HEAD, PUT"), "{path}");
                break;
            }
        }
    }
    assert_eq!(
        bed.send("DELETE", &format!("/{CCACHE}"), b"").await.status,
        204,
        "ccache needs 2xx"
    );
    assert_eq!(bed.send("DELETE", "/webdav/none", b"").await.status, 404);
    assert_eq!(bed.budget.held_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_dialects_are_apart() {
    let bed = Bed::new().await;
    let key = "0123456789abcdef0123456789abcdef";
    let paths = ["/cache/", "/v1/cache/", "/v8/artifacts/", "/ac/", "/webdav/"];
    for path in paths {
        let put = bed.put(&format!("{path}{key}"), path.as_bytes()).await;
        assert!((200..300).contains(&put.status), "{path}");
    }
    for path in paths {
        assert_eq!(bed.get(&format!("{path}{key}")).await.body, path.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods() {
    let bed = Bed::new().await;
    for path in ["/unknown", "/v2/", "/v8/x/y", "/cas", "/webdav"] {
        let status = bed.get(path).await.status;
        assert_eq!(status, if path.ends_with('/') { 405 } else { 404 }, "{path}");
    }
    let rows = [
        ("/cas/0", "DELETE", "GET, HEAD, PUT"),
        ("/ac/0", "PATCH", "GET, HEAD, PUT, DELETE"),
        ("/v8/artifacts", "GET", "POST"),
        ("/v8/artifacts/status", "PUT", "GET, HEAD"),
        ("/status", "POST", "GET, HEAD"),
        ("/webdav/a", "MKCOL", "GET, HEAD, PUT, DELETE, PROPFIND"),
        ("/a/", "GET", "PROPFIND, MKCOL"),
    ];
    for (path, method, allowed) in rows {
        let answer = bed.send(method, path, b"").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{path}");
    }
    assert_eq!(bed.get("/status").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nx_replaces_no_record() {
    let bed = Bed::new().await;
    assert_eq!(bed.put("/v1/cache/7", b"first").await.status, 200);
    assert_eq!(bed.put("/v1/cache/7", b"second").await.status, 409);
    assert_eq!(bed.get("/v1/cache/7").await.body, b"first");
}

#[tokio::test(flavor = "multi_thread")]
async fn turborepo_gives_headers_back() {
    let bed = Bed::new().await;
    let status = bed.get("/v8/artifacts/status?slug=t").await;
    assert_eq!((status.status, status.text()), (200, "{\"status\":\"enabled\"}"));
    let headers =
        ["x-artifact-duration: 1234", "x-artifact-tag: c2lnbmVk", "x-artifact-dirty-hash: ab"];
    let path = "/v8/artifacts/00aa?slug=t";
    let put = bed.send_with("PUT", path, &headers, &noise(90_000)).await;
    assert_eq!((put.status, put.text()), (202, "{\"urls\":[]}"));
    for method in ["GET", "HEAD"] {
        let answer = bed.send(method, path, b"").await;
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            assert_eq!(answer.header(name), Some(value), "{method}");
        }
        assert_eq!(answer.header("content-length"), Some("90000"));
    }
    assert_eq!(bed.get("/v8/artifacts/00aa?slug=other").await.status, 404, "teams are apart");
    assert_eq!(bed.get("/v8/artifacts/00aa?teamId=t").await.status, 404);
    let long = format!("x-artifact-tag: {}", "x".repeat(1025));
    assert_eq!(bed.send_with("PUT", path, &[&long], b"x").await.status, 400);

    assert_eq!(bed.send("POST", "/v8/artifacts/events", b"[{}]").await.status, 200);
    let query = bed.send("POST", "/v8/artifacts?slug=t", b"{\"hashes\":[\"00aa\",\"00bb\"]}").await;
    let expected =
        "{\"00aa\":{\"size\":90000,\"taskDurationMs\":1234,\"tag\":\"c2lnbmVk\"},\"00bb\":null}";
    assert_eq!((query.status, query.text()), (200, expected));
    for wrong in ["", "{}", "{\"hashes\":[1]}"] {
        assert_eq!(bed.send("POST", "/v8/artifacts", wrong.as_bytes()).await.status, 400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_webdav_exist() {
    let bed = Bed::new().await;
    for path in ["/", "/prefix/", "/webdav/e/9/"] {
        let answer = bed.send_with("PROPFIND", path, &["Depth: 0"], b"").await;
        assert_eq!(answer.status, 207);
        assert!(answer.text().contains("<D:collection/>"), "{}", answer.text());
        assert!(answer.text().contains(&format!("<D:href>{path}</D:href>")), "{}", answer.text());
        assert_eq!(bed.send("MKCOL", path, b"").await.status, 201);
    }
    let path = "/webdav/a&b";
    assert_eq!(bed.send("PROPFIND", path, b"").await.status, 404);
    assert_eq!(bed.put(path, &noise(77)).await.status, 201);
    let answer = bed.send("PROPFIND", path, b"").await;
    assert_eq!(answer.status, 207);
    assert!(answer.text().contains("<D:getcontentlength>77</D:getcontentlength>"));
    assert!(answer.text().contains("/webdav/a%26b<"), "{}", answer.text());
    assert!(!answer.text().contains("<D:collection/>"));
}
