//! Requests that are cut or stall.

use std::time::Duration;

use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tonic::Code;

use crate::bed::{Bed, entry, messages, noise, sha256, upload_name};
use crate::raw::{CAS, RawConnection, WRITE, framed};

/// A write, and where to cut it: in the prefix, in each field, in the data, between messages, before
/// the end.
fn cuts(request: &[u8]) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..200.min(request.len())).step_by(7).collect();
    cuts.extend((200..request.len()).step_by(request.len() / 20 + 1));
    cuts.push(request.len() - 1);
    cuts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_ends_early_has_a_status_and_names_nothing() {
    let bed = Bed::new().await;
    let connection = RawConnection::open(&bed).await;
    for len in [2000, 150_000] {
        let bytes = noise(len, 1);
        let digest = sha256(&bytes);
        let parts = messages(&upload_name(&digest), &bytes, len / 3 + 1, 0);
        let request: Vec<u8> = parts.iter().flat_map(framed).collect();
        let ends: Vec<usize> = parts
            .iter()
            .scan(0, |end, part| {
                *end += framed(part).len();
                Some(*end)
            })
            .collect();
        for cut in cuts(&request) {
            let mut call = connection.call(WRITE, None).await;
            call.send(&request[..cut]).await;
            call.end();
            let (code, _) = call.outcome().await;
            // Between messages it is an upload that may continue.
            let expected = if ends.contains(&cut) { Code::Ok } else { Code::InvalidArgument };
            assert_eq!(code, expected, "{cut} of {}", request.len());
            let mut call = connection.call(WRITE, None).await;
            call.send(&request[..cut]).await;
            call.reset();
        }
        assert!(!bed.has(&digest).await);
        let mut call = connection.call(WRITE, None).await;
        call.send(&request).await;
        call.end();
        assert_eq!(call.outcome().await.0, Code::Ok);
        assert!(bed.has(&digest).await);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unary_call_that_ends_early_has_a_status_and_does_nothing() {
    let bed = Bed::new().await;
    let connection = RawConnection::open(&bed).await;
    let bytes = noise(5000, 1);
    let digest = sha256(&bytes);
    let batch = v2::BatchUpdateBlobsRequest {
        requests: vec![entry(&digest, &bytes)],
        ..Default::default()
    };
    let splice = v2::SpliceBlobRequest {
        blob_digest: Some(to_proto(&digest)),
        chunk_digests: vec![to_proto(&sha256(b"x"))],
        ..Default::default()
    };
    let find = v2::FindMissingBlobsRequest {
        blob_digests: vec![to_proto(&digest); 10],
        ..Default::default()
    };
    let calls = [
        ("BatchUpdateBlobs", framed(&batch)),
        ("SpliceBlob", framed(&splice)),
        ("FindMissingBlobs", framed(&find)),
    ];
    for (method, request) in &calls {
        for cut in cuts(request) {
            let mut call = connection.call(&format!("{CAS}/{method}"), None).await;
            call.send(&request[..cut]).await;
            call.end();
            assert_eq!(call.outcome().await.0, Code::InvalidArgument, "{method} {cut}");
            let mut call = connection.call(&format!("{CAS}/{method}"), None).await;
            call.send(&request[..cut]).await;
            call.reset();
        }
    }
    assert!(!bed.has(&digest).await);
    assert_eq!(bed.budget.held_bytes(), 0);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_are_refused() {
    let bed = Bed::new().await;
    let connection = RawConnection::open(&bed).await;
    let mut rng = fastrand::Rng::with_seed(7);
    for method in ["BatchUpdateBlobs", "BatchReadBlobs", "FindMissingBlobs", "GetTree", "SplitBlob"]
    {
        for len in 1..60_u8 {
            let mut request = vec![0, 0, 0, 0, len];
            request.extend(std::iter::repeat_with(|| rng.u8(..)).take(len.into()));
            let mut call = connection.call(&format!("{CAS}/{method}"), None).await;
            call.send(&request).await;
            call.end();
            let (code, _) = call.outcome().await;
            let is_sound = matches!(code, Code::Ok | Code::InvalidArgument | Code::NotFound);
            assert!(is_sound, "{method} {request:?}: {code:?}");
        }
    }
    let mut compressed = connection.call(&format!("{CAS}/FindMissingBlobs"), None).await;
    compressed.send(&[1, 0, 0, 0, 0]).await;
    compressed.end();
    assert_eq!(compressed.outcome().await.0, Code::Unimplemented);
    let mut two = connection.call(&format!("{CAS}/FindMissingBlobs"), None).await;
    two.send(&[0; 10]).await;
    two.end();
    assert_eq!(two.outcome().await.0, Code::InvalidArgument);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_timeout() {
    let bed = Bed::new().await;
    let connection = RawConnection::open(&bed).await;
    for path in [WRITE, &format!("{CAS}/FindMissingBlobs")] {
        let call = connection.call(path, Some("20m")).await;
        assert_eq!(call.outcome().await.0, Code::DeadlineExceeded);
        let call = connection.call(path, Some("20")).await;
        assert_eq!(call.outcome().await.0, Code::InvalidArgument);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_stalls_is_refused() {
    let bed = Bed::with(|options| options.limits.stall_time_max = Duration::from_millis(30)).await;
    let connection = RawConnection::open(&bed).await;
    let bytes = noise(200_000, 1);
    let parts = messages(&upload_name(&sha256(&bytes)), &bytes, 100_000, 0);
    let mut call = connection.call(WRITE, None).await;
    call.send(&framed(&parts[0])).await;
    assert_eq!(call.outcome().await.0, Code::DeadlineExceeded);
    bed.end().await;
}
