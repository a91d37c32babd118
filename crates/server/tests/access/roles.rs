//! Every route and every call needs a role. This walks them all.

use http::StatusCode;
use tidegate_server::serve::Origin;

use crate::bed::{ADMIN, Bed, READER, ROLES, WRITER};

const UNAUTHENTICATED: u32 = 16;
const PERMISSION_DENIED: u32 = 7;
const UNIMPLEMENTED: u32 = 12;

const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const CCACHE: &str = "06fa0e48kou9hr7m1c2d3e4f5g6h7i8jk";

const CAS: &str = "build.bazel.remote.execution.v2.ContentAddressableStorage";
const ACTIONS: &str = "build.bazel.remote.execution.v2.ActionCache";

/// All calls of the server, and whether they write.
fn calls() -> Vec<(String, bool)> {
    let call = |service: &str, name: &str, writes| (format!("/{service}/{name}"), writes);
    vec![
        call("build.bazel.remote.execution.v2.Capabilities", "GetCapabilities", false),
        call(CAS, "FindMissingBlobs", false),
        call(CAS, "BatchUpdateBlobs", true),
        call(CAS, "BatchReadBlobs", false),
        call(CAS, "GetTree", false),
        call(CAS, "SplitBlob", false),
        call(CAS, "SpliceBlob", true),
        call("google.bytestream.ByteStream", "Read", false),
        call("google.bytestream.ByteStream", "Write", true),
        call("google.bytestream.ByteStream", "QueryWriteStatus", true),
        call(ACTIONS, "GetActionResult", false),
        call(ACTIONS, "UpdateActionResult", true),
        call("build.bazel.remote.asset.v1.Fetch", "FetchBlob", false),
    ]
}

/// All paths of the server over HTTP with their methods, and whether they write.
fn requests() -> Vec<(&'static str, String, bool)> {
    let artifact = "/v8/artifacts/0123456789abcdef";
    let mut requests = Vec::new();
    let mut add = |path: &str, reads: &[&'static str], writes: &[&'static str]| {
        let path = path.replace("HASH", HASH).replace("CCACHE", CCACHE);
        requests.extend(reads.iter().map(|method| (*method, path.clone(), false)));
        requests.extend(writes.iter().map(|method| (*method, path.clone(), true)));
    };
    add("/cas/HASH", &["GET", "HEAD"], &["PUT"]);
    add("/cas/none", &["GET", "HEAD"], &["PUT"]);
    add("/ac/HASH", &["GET", "HEAD"], &["PUT", "DELETE"]);
    add("/status", &["GET", "HEAD"], &[]);
    add("/v8/artifacts/status", &["GET"], &[]);
    add("/v8/artifacts/events", &["POST"], &[]);
    add("/v8/artifacts", &["POST"], &[]);
    add(artifact, &["GET", "HEAD"], &["PUT"]);
    add("/v1/cache/123", &["GET", "HEAD"], &["PUT"]);
    add("/cache/0123456789abcdef0123456789abcdef", &["GET", "HEAD"], &["PUT"]);
    add("/CCACHE", &["GET", "HEAD"], &["PUT", "DELETE"]);
    add("/webdav/file", &["GET", "HEAD", "PROPFIND"], &["PUT", "DELETE"]);
    add("/folder/", &["PROPFIND"], &["MKCOL"]);
    add("/unknown", &["GET", "PUT"], &[]);
    add("/origin/files/a", &["GET", "HEAD"], &[]);
    requests
}

#[tokio::test]
async fn every_call_needs_its_role() {
    let bed = Bed::new(ROLES).await;
    for (path, writes) in calls() {
        for token in ["", "unknown-token-0123", "reader", "reader-012345678"] {
            let answer = bed.call(token, &path, b"").await;
            assert_eq!(answer.code, Some(UNAUTHENTICATED), "{path} {token}");
        }
        let answer = bed.call(READER, &path, b"").await;
        assert_eq!(answer.code == Some(PERMISSION_DENIED), writes, "{path} {answer:?}");
        for token in [WRITER, ADMIN] {
            let answer = bed.call(token, &path, b"").await;
            let is_in =
                ![Some(PERMISSION_DENIED), Some(UNAUTHENTICATED), None].contains(&answer.code);
            assert!(is_in, "{path} {answer:?}");
        }
    }
    let unknown = "/build.bazel.remote.execution.v2.Execution/Execute";
    assert_eq!(bed.call("", unknown, b"").await.code, Some(UNAUTHENTICATED));
    assert_eq!(bed.call(READER, unknown, b"").await.code, Some(UNIMPLEMENTED));
    bed.end().await;
}

#[tokio::test]
async fn every_path_needs_its_role() {
    let bed = Bed::with(ROLES, |options| {
        let files = Origin::parse("files=file:///nowhere").unwrap();
        options.origins.origins = vec![files];
    })
    .await;
    for (method, path, writes) in requests() {
        for token in ["", "unknown-token-0123"] {
            let answer = bed.http(token, method, &path, b"x").await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path}");
            let asked = answer.headers.get("www-authenticate").unwrap();
            assert!(asked.to_str().unwrap().contains("Basic"));
        }
        let answer = bed.http(READER, method, &path, b"x").await;
        assert_eq!(answer.status == StatusCode::FORBIDDEN, writes, "{method} {path}");
        let answer = bed.http(WRITER, method, &path, b"x").await;
        let refused = [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED];
        assert!(!refused.contains(&answer.status), "{method} {path}");
    }
    bed.end().await;
}

#[tokio::test]
async fn probes_of_a_load_balancer_need_nothing() {
    let bed = Bed::new(ROLES).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(bed.http("", "GET", path, b"").await.status, StatusCode::OK);
    }
    bed.end().await;
}

/// moon asks for `/status` with the token of a writer, before it caches.
#[tokio::test]
async fn the_state_of_the_server_is_for_admins() {
    let bed = Bed::new(ROLES).await;
    for path in ["/", "/metrics", "/status"] {
        assert_eq!(bed.http("", "GET", path, b"").await.status, StatusCode::UNAUTHORIZED);
        let answer = bed.http(ADMIN, "GET", path, b"").await;
        assert!(answer.status == StatusCode::OK && answer.body.len() > 100, "{path}");
    }
    for path in ["/", "/metrics"] {
        assert_eq!(bed.http(WRITER, "GET", path, b"").await.status, StatusCode::FORBIDDEN);
    }
    let answer = bed.http(WRITER, "GET", "/status", b"").await;
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"{}"[..]));
    bed.end().await;
}

#[tokio::test]
async fn only_an_admin_purges() {
    let bed = Bed::new(ROLES).await;
    let path = format!("/ac/{HASH}");
    assert_eq!(bed.http(WRITER, "PUT", &path, b"value").await.status, StatusCode::OK);
    let purge = format!("{{\"key\":\"{HASH}\",\"remove\":true}}");
    for token in [READER, WRITER] {
        let answer = bed.http(token, "POST", "/purge", purge.as_bytes()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    let unknown = bed.http("", "POST", "/purge", purge.as_bytes()).await;
    assert_eq!(unknown.status, StatusCode::UNAUTHORIZED);
    assert_eq!(bed.http(READER, "GET", &path, b"").await.status, StatusCode::OK);
    // A name with a mistake must not make the filter match more.
    let mistaken = purge.replace("\"remove\"", "\"instnace\":\"main\",\"remove\"");
    for body in ["", "{}", "{\"remove\":true}", "{\"kee\":\"x\"}", "[]", &mistaken] {
        let answer = bed.http(ADMIN, "POST", "/purge", body.as_bytes()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
    }
    let answer = bed.http(ADMIN, "GET", "/purge", b"").await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    let answer = bed.http(ADMIN, "POST", "/purge", purge.as_bytes()).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(bed.http(READER, "GET", &path, b"").await.status, StatusCode::NOT_FOUND);
    bed.end().await;
}

#[tokio::test]
async fn a_refused_write_stores_nothing() {
    let bed = Bed::new(ROLES).await;
    let path = format!("/ac/{HASH}");
    assert_eq!(bed.http(READER, "PUT", &path, b"value").await.status, StatusCode::FORBIDDEN);
    assert_eq!(bed.http(READER, "GET", &path, b"").await.status, StatusCode::NOT_FOUND);
    assert_eq!(bed.http(WRITER, "PUT", &path, b"value").await.status, StatusCode::OK);
    assert_eq!(&bed.http(READER, "GET", &path, b"").await.body[..], b"value");
    assert_eq!(bed.http(READER, "DELETE", &path, b"").await.status, StatusCode::FORBIDDEN);
    assert_eq!(&bed.http(READER, "GET", &path, b"").await.body[..], b"value");
    bed.end().await;
}

/// Forks read, the main line writes.
#[tokio::test]
async fn anyone_may_read_where_the_file_says_so() {
    let bed = Bed::new(&format!("[anonymous]\nrole = 'read'\n{ROLES}")).await;
    let path = format!("/ac/{HASH}");
    assert_eq!(bed.http(WRITER, "PUT", &path, b"value").await.status, StatusCode::OK);
    assert_eq!(&bed.http("", "GET", &path, b"").await.body[..], b"value");
    // A client that can present a token is asked for one.
    assert_eq!(bed.http("", "PUT", &path, b"x").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(bed.call("", &calls()[2].0, b"").await.code, Some(UNAUTHENTICATED));
    // A wrong token is not the same as none.
    let wrong = bed.http("unknown-token-0123", "GET", &path, b"").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    bed.end().await;
}
