//! `/metrics`: hits, misses, bytes, latencies, the store.

use std::path::{Path, PathBuf};

use tidegate_core::digest::Digest;
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::Code;

use crate::bed::{get, send, settled};
use crate::serving::{Bed, blob_name, noise, refused, sha256, upload_name};

/// The value of a metric with these labels.
fn value(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.rsplit_once(' ').is_some_and(|one| one.0 == name));
    line.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

async fn metrics(bed: &Bed) -> String {
    settled(bed).await;
    let answer = get(bed, "/metrics").await;
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"));
    text.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_and_misses_are_counted_by_kind() {
    let bed = Bed::new().await;
    let bytes = noise(300_000, 1);
    let (there, absent) = (sha256(&bytes), sha256(b"absent"));
    bed.write_all(&upload_name(&there), &bytes, 100_000).await.unwrap();
    for _ in 0..3 {
        bed.read(&blob_name(&there), 0, 0).await.unwrap();
    }
    refused(bed.read(&blob_name(&absent), 0, 0).await, Code::NotFound);
    assert_eq!(bed.missing(&[there, absent]).await.len(), 1);
    let cas = format!("/cas/{}", there.checksum().hex());
    assert_eq!(get(&bed, &cas).await.status, 200);
    assert_eq!(get(&bed, "/cache/0123456789abcdef0123456789abcdef").await.status, 404);
    assert_eq!(send(&bed, "HEAD /cache/0123456789abcdef", &[], b"").await.status, 404);
    assert_eq!(send(&bed, "PUT /v1/cache/17", &[], b"value").await.status, 200);
    assert_eq!(get(&bed, "/v1/cache/17").await.body, b"value");

    let metrics = metrics(&bed).await;
    for (name, expected) in [
        (r#"tidegate_hits_total{kind="cas"}"#, 4.0),
        (r#"tidegate_misses_total{kind="cas",reason="absent"}"#, 1.0),
        (r#"tidegate_misses_total{kind="cas",reason="damaged"}"#, 0.0),
        (r#"tidegate_presence_questions_total{kind="cas",found="present"}"#, 1.0),
        (r#"tidegate_presence_questions_total{kind="cas",found="absent"}"#, 1.0),
        (r#"tidegate_misses_total{kind="gradle",reason="absent"}"#, 1.0),
        (r#"tidegate_hits_total{kind="nx"}"#, 1.0),
        (r#"tidegate_requests_total{protocol="grpc",call="Read",code="ok"}"#, 3.0),
        (r#"tidegate_requests_total{protocol="grpc",call="Read",code="not_found"}"#, 1.0),
        (r#"tidegate_requests_total{protocol="http",call="gradle.read",code="404"}"#, 1.0),
        (r#"tidegate_requests_total{protocol="http",call="gradle.other",code="404"}"#, 1.0),
        (r#"tidegate_presence_questions_total{kind="gradle",found="absent"}"#, 1.0),
        (r#"tidegate_request_duration_seconds_count{protocol="grpc",call="Write"}"#, 1.0),
        (r#"tidegate_response_body_bytes_total{protocol="http",call="nx.read"}"#, 5.0),
        (r#"tidegate_request_body_bytes_total{protocol="http",call="nx.write"}"#, 5.0),
        ("tidegate_requests_in_flight", 1.0),
        ("tidegate_budget_max_bytes", 512.0 * 1_048_576.0),
        ("tidegate_store_max_bytes", 1_073_741_824.0),
    ] {
        assert_eq!(value(&metrics, name), Some(expected), "{name}\n{metrics}");
    }
    let received = r#"tidegate_request_body_bytes_total{protocol="grpc",call="Write"}"#;
    assert!(value(&metrics, received).unwrap() > 300_000.0);
    let sent = r#"tidegate_response_body_bytes_total{protocol="grpc",call="Read"}"#;
    assert!(value(&metrics, sent).unwrap() > 900_000.0);
    assert!(value(&metrics, "tidegate_store_commit_operations_count").unwrap() >= 2.0);
    assert!(value(&metrics, "tidegate_store_used_bytes").unwrap() > 0.0);
    bed.end().await;
}

/// A blob whose bytes rotted on the disk, and an action result that needs it.
#[tokio::test(flavor = "multi_thread")]
async fn misses_have_reasons() {
    let bed = Bed::new().await;
    let bytes = noise(3 << 20, 1);
    let (digest, action) = (sha256(&bytes), sha256(b"action"));
    for at in [100, 2_000_000] {
        bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
        update_action(&bed, &action, &digest).await;
        let file = largest_file(&bed.folder.path().join("store/files")).unwrap();
        let mut stored = std::fs::read(&file).unwrap();
        stored[at] ^= 1;
        std::fs::write(&file, stored).unwrap();
        refused(bed.read(&blob_name(&digest), 0, 0).await, Code::NotFound);
        for _ in 0..2 {
            let request = v2::GetActionResultRequest {
                action_digest: Some(to_proto(&action)),
                ..v2::GetActionResultRequest::default()
            };
            refused(bed.actions().await.get_action_result(request).await, Code::NotFound);
        }
    }
    let metrics = metrics(&bed).await;
    for (name, expected) in [
        (r#"tidegate_misses_total{kind="cas",reason="damaged"}"#, 2.0),
        (r#"tidegate_misses_total{kind="cas",reason="absent"}"#, 0.0),
        (r#"tidegate_misses_total{kind="ac",reason="incomplete"}"#, 2.0),
        (r#"tidegate_misses_total{kind="ac",reason="absent"}"#, 2.0),
        (r#"tidegate_hits_total{kind="cas"}"#, 0.0),
        ("tidegate_store_damaged_values_total", 2.0),
    ] {
        assert_eq!(value(&metrics, name), Some(expected), "{name}\n{metrics}");
    }
    bed.end().await;
}

async fn update_action(bed: &Bed, action: &Digest, output: &Digest) {
    let file = v2::OutputFile {
        path: "out".to_owned(),
        digest: Some(to_proto(output)),
        ..v2::OutputFile::default()
    };
    let result = v2::ActionResult { output_files: vec![file], ..v2::ActionResult::default() };
    let request = v2::UpdateActionResultRequest {
        action_digest: Some(to_proto(action)),
        action_result: Some(result),
        ..v2::UpdateActionResultRequest::default()
    };
    bed.actions().await.update_action_result(request).await.unwrap();
}

/// `None` for a folder without files.
fn largest_file(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files =
        entries.filter_map(|path| if path.is_dir() { largest_file(&path) } else { Some(path) });
    files.max_by_key(|path| std::fs::metadata(path).unwrap().len())
}

/// A client that leaves in the middle of a call is counted once, and the call is not in flight any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cut_is_counted() {
    let bed = Bed::new().await;
    let bytes = noise(64 << 20, 2);
    let digest = sha256(&bytes);
    bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
    let request = tidegate_reapi::bytestream::ReadRequest {
        resource_name: blob_name(&digest),
        read_offset: 0,
        read_limit: 0,
    };
    let mut stream = bed.streams().await.read(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    drop(stream);
    let path = format!("/cas/{}", digest.checksum().hex());
    let mut socket = tokio::net::TcpStream::connect(bed.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    socket.read_exact(&mut [0; 1000]).await.unwrap();
    drop(socket);
    let metrics = metrics(&bed).await;
    let cut = r#"tidegate_requests_total{protocol="grpc",call="Read",code="cut"}"#;
    assert_eq!(value(&metrics, cut), Some(1.0), "{metrics}");
    let cut = r#"tidegate_requests_total{protocol="http",call="cas.read",code="cut"}"#;
    assert_eq!(value(&metrics, cut), Some(1.0), "{metrics}");
    bed.end().await;
}
