//! `/status`: the same as the metrics, and tables of bounded size.

use tidegate_reapi::bytestream::ReadRequest;
use tonic::Code;
use tonic::metadata::MetadataValue;

use crate::bed::{get, send, settled};
use crate::serving::{Bed, blob_name, noise, refused, sha256, upload_name};

#[tokio::test(flavor = "multi_thread")]
async fn the_last_hour_and_the_hottest_blobs_are_shown() {
    let bed = Bed::new().await;
    let bytes = noise(5000, 1);
    let digest = sha256(&bytes);
    bed.write_all(&upload_name(&digest), &bytes, 5000).await.unwrap();
    for _ in 0..3 {
        bed.read(&blob_name(&digest), 0, 0).await.unwrap();
    }
    let status = settled(&bed).await;
    assert_eq!(status["status"], "ok");
    assert_eq!(status["store"]["level"], "process");
    assert_eq!((&status["hits"], &status["misses"]), (&3.into(), &0.into()));
    assert_eq!(status["hottest"][0]["hash"], digest.checksum().hex());
    assert_eq!(status["hottest"][0]["reads"], 3);
    assert_eq!(status["kinds"]["cas"]["hits"], 3);
    let hour = &status["hour"];
    assert_eq!(hour["step_seconds"], 10);
    let sum: u64 = hour["hits"].as_array().unwrap().iter().map(|hits| hits.as_u64().unwrap()).sum();
    assert_eq!(sum, 3);
    assert!(status["uptime_seconds"].as_u64().unwrap() < 60);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_shown_and_misses_are_not() {
    let bed = Bed::new().await;
    refused(bed.write_all("uploads/x", b"x", 1).await, Code::InvalidArgument);
    refused(bed.read(&blob_name(&sha256(b"absent")), 0, 0).await, Code::NotFound);
    let hash = sha256(b"other").checksum().hex();
    let id = "x-request-id: put-7";
    assert_eq!(send(&bed, &format!("PUT /cas/{hash}"), &[id], b"bytes").await.status, 400);
    assert_eq!(get(&bed, "/nothing").await.status, 404);
    let status = settled(&bed).await;
    let failures = status["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert_eq!(failures[0]["request_id"], "put-7");
    assert_eq!(failures[0]["outcome"], "400");
    assert_eq!(failures[0]["call"], "cas.write");
    assert!(failures[0]["message"].as_str().unwrap().contains("differ from the hash"));
    assert_eq!(failures[1]["outcome"], "invalid_argument");
    bed.end().await;
}

/// Tables keep their length, whatever clients send.
#[tokio::test(flavor = "multi_thread")]
async fn tables_are_bounded() {
    let bed = Bed::new().await;
    let mut streams = bed.streams().await;
    for number in 0_u64..120 {
        let resource_name = format!("malformed-{number}-{}", "x".repeat(1000));
        let request = ReadRequest { resource_name, read_offset: 0, read_limit: 0 };
        let mut request = tonic::Request::new(request);
        let metadata = super::requests::metadata("bazel", &format!("{number}{}", "y".repeat(500)));
        let metadata = MetadataValue::from_bytes(&metadata);
        request.metadata_mut().insert_bin(super::requests::HEADER, metadata);
        refused(streams.read(request).await.map(|_| ()), Code::InvalidArgument);
    }
    let status = settled(&bed).await;
    for table in ["failures", "invocations"] {
        let table = status[table].as_array().unwrap();
        assert_eq!(table.len(), 50);
        assert!(table.iter().all(|row| row.to_string().len() < 600), "{table:?}");
    }
    bed.end().await;
}
