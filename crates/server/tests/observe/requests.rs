//! Identifiers of requests, and what clients of gRPC say of them.

use prost::Message as _;
use tidegate_reapi::bytestream::ReadRequest;
use tidegate_reapi::v2::{RequestMetadata, ToolDetails};
use tonic::metadata::MetadataValue;

use crate::bed::{get, send, settled};
use crate::serving::{Bed, blob_name, sha256};

pub(crate) const HEADER: &str = "build.bazel.remote.execution.v2.requestmetadata-bin";

pub(crate) fn metadata(tool: &str, invocation: &str) -> Vec<u8> {
    let tool_details =
        Some(ToolDetails { tool_name: tool.to_owned(), tool_version: "8.4.2".to_owned() });
    let tool_invocation_id = invocation.to_owned();
    RequestMetadata { tool_details, tool_invocation_id, ..RequestMetadata::default() }
        .encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_response_has_the_identifier_of_its_request() {
    let bed = Bed::new().await;
    let given = send(&bed, "GET /healthz", &["x-request-id: build-7/step.2"], b"").await;
    assert_eq!(given.header("x-request-id"), Some("build-7/step.2"));
    let one = get(&bed, "/cas/nothing").await;
    let other = get(&bed, "/cas/nothing").await;
    assert_eq!(one.header("x-request-id").unwrap().len(), 16);
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
    let forged = send(&bed, "GET /healthz", &["x-request-id: <b>"], b"").await;
    assert_eq!(forged.header("x-request-id").unwrap().len(), 16);

    let request = ReadRequest { resource_name: blob_name(&sha256(b"")), ..ReadRequest::default() };
    let mut request = tonic::Request::new(request);
    request.metadata_mut().insert("x-request-id", "grpc-1".parse().unwrap());
    let response = bed.streams().await.read(request).await.unwrap();
    assert_eq!(response.metadata().get("x-request-id").unwrap(), "grpc-1");
    drop(response);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_has_its_own_hit_rate() {
    let bed = Bed::new().await;
    let there = bed.put(&[b"there"]).await[0];
    let mut streams = bed.streams().await;
    for (invocation, digest, count) in
        [("one", there, 3), ("one", sha256(b"absent"), 1), ("two", sha256(b"absent"), 2)]
    {
        for _ in 0..count {
            let resource_name = blob_name(&digest);
            let mut request =
                tonic::Request::new(ReadRequest { resource_name, ..ReadRequest::default() });
            let metadata = MetadataValue::from_bytes(&metadata("bazel", invocation));
            request.metadata_mut().insert_bin(HEADER, metadata);
            if let Ok(response) = streams.read(request).await {
                let mut messages = response.into_inner();
                while messages.message().await.unwrap().is_some() {}
            }
        }
    }
    let status = settled(&bed).await;
    let invocations = status["invocations"].as_array().unwrap();
    let row = |id: &str| invocations.iter().find(|one| one["id"] == id).unwrap();
    assert_eq!(invocations.len(), 2);
    for (id, requests, hits, misses) in [("one", 4, 3, 1), ("two", 2, 0, 2)] {
        assert_eq!(row(id)["tool"], "bazel 8.4.2");
        assert_eq!(row(id)["requests"], requests);
        assert_eq!((&row(id)["hits"], &row(id)["misses"]), (&hits.into(), &misses.into()));
    }
    bed.end().await;
}
