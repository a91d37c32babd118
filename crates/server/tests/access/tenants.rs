//! Tenants and instances are apart; quotas.

use bytes::Bytes;
use http::StatusCode;
use prost::Message;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2::{self, batch_update_blobs_request};
use tidegate_server::serve::{Origin, Quota};

use crate::bed::{Bed, READER, ROLES, WRITER};

const CAS: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage";
const ACTIONS: &str = "/build.bazel.remote.execution.v2.ActionCache";
const CAPABILITIES: &str = "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities";
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const FAILED_PRECONDITION: u32 = 9;
const NOT_FOUND: u32 = 5;

const A: &str = "token-of-tenant-a-";
const B: &str = "token-of-tenant-b-";
const LISTED: &str = "listed-0123456789";
const TENANTS: &str = "
[[token]]
name = 'a'
token = 'token-of-tenant-a-'
role = 'write'
tenant = 'a'

[[token]]
name = 'b'
token = 'token-of-tenant-b-'
role = 'write'
tenant = 'b'
";

fn sha256(bytes: &[u8]) -> Digest {
    Digest::of(DigestFunction::Sha256, bytes)
}

fn update(instance: &str, blob: &[u8]) -> Vec<u8> {
    let request = batch_update_blobs_request::Request {
        digest: Some(to_proto(&sha256(blob))),
        data: Bytes::copy_from_slice(blob),
        compressor: 0,
    };
    let instance_name = instance.to_owned();
    let requests = vec![request];
    v2::BatchUpdateBlobsRequest { instance_name, requests, ..Default::default() }.encode_to_vec()
}

fn find(instance: &str, blob: &[u8]) -> Vec<u8> {
    let blob_digests = vec![to_proto(&sha256(blob))];
    let instance_name = instance.to_owned();
    v2::FindMissingBlobsRequest { instance_name, blob_digests, ..Default::default() }
        .encode_to_vec()
}

async fn has(bed: &Bed, token: &str, blob: &[u8]) -> bool {
    let answer = bed.call(token, &format!("{CAS}/FindMissingBlobs"), &find("", blob)).await;
    let missing = v2::FindMissingBlobsResponse::decode(answer.message()).unwrap();
    missing.missing_blob_digests.is_empty()
}

/// Stores a result whose standard output is a blob.
fn result_of(action: &[u8], output: &[u8]) -> Vec<u8> {
    let result = v2::ActionResult {
        stdout_digest: Some(to_proto(&sha256(output))),
        ..v2::ActionResult::default()
    };
    v2::UpdateActionResultRequest {
        action_digest: Some(to_proto(&sha256(action))),
        action_result: Some(result),
        ..Default::default()
    }
    .encode_to_vec()
}

fn get_result(action: &[u8]) -> Vec<u8> {
    let action_digest = Some(to_proto(&sha256(action)));
    v2::GetActionResultRequest { action_digest, ..Default::default() }.encode_to_vec()
}

#[tokio::test]
async fn tenants_share_blobs_and_nothing_else() {
    let bed = Bed::new(TENANTS).await;
    let updated = bed.call(A, &format!("{CAS}/BatchUpdateBlobs"), &update("", b"blob")).await;
    assert_eq!(updated.code, Some(0));
    assert!(has(&bed, A, b"blob").await && has(&bed, B, b"blob").await);
    let put =
        bed.call(A, &format!("{ACTIONS}/UpdateActionResult"), &result_of(b"x", b"blob")).await;
    assert_eq!(put.code, Some(0));
    let path = format!("{ACTIONS}/GetActionResult");
    assert_eq!(bed.call(A, &path, &get_result(b"x")).await.code, Some(0));
    assert_eq!(bed.call(B, &path, &get_result(b"x")).await.code, Some(NOT_FOUND));
    let path = "/webdav/file";
    assert_eq!(bed.http(A, "PUT", path, b"of a").await.status, StatusCode::CREATED);
    assert_eq!(bed.http(B, "GET", path, b"").await.status, StatusCode::NOT_FOUND);
    assert_eq!(bed.http(B, "PUT", path, b"of b").await.status, StatusCode::CREATED);
    assert_eq!(&bed.http(A, "GET", path, b"").await.body[..], b"of a");
    bed.end().await;
}

/// The upstream knows nothing of the tenants of this server.
#[tokio::test(flavor = "multi_thread")]
async fn results_of_an_upstream_come_to_each_tenant() {
    let above = Bed::new("[anonymous]\nrole = 'write'\n").await;
    let updated = above.call("", &format!("{CAS}/BatchUpdateBlobs"), &update("", b"blob")).await;
    assert_eq!(updated.code, Some(0));
    let put = format!("{ACTIONS}/UpdateActionResult");
    assert_eq!(above.call("", &put, &result_of(b"x", b"blob")).await.code, Some(0));
    let url = format!("grpc://{}", above.address);
    let bed = Bed::with(TENANTS, |options| options.upstream = Some(url)).await;
    for token in [A, B] {
        let answer =
            bed.call(token, &format!("{ACTIONS}/GetActionResult"), &get_result(b"x")).await;
        assert_eq!(answer.code, Some(0), "{token} {answer:?}");
        assert!(has(&bed, token, b"blob").await);
    }
    bed.end().await;
    above.end().await;
}

/// By a call, by a hash in a path, in a closure, and by an early answer: only what the tenant sent
/// counts.
#[tokio::test]
async fn an_isolated_tenant_has_only_what_it_sent() {
    let bed = Bed::with(TENANTS, |options| options.isolates_tenants = true).await;
    let path = format!("/cas/{}", sha256(b"blob").checksum().hex());
    assert_eq!(bed.http(A, "PUT", &path, b"blob").await.status, StatusCode::OK);
    assert!(has(&bed, A, b"blob").await && !has(&bed, B, b"blob").await);
    assert_eq!(bed.http(B, "HEAD", &path, b"").await.status, StatusCode::NOT_FOUND);
    let put =
        bed.call(B, &format!("{ACTIONS}/UpdateActionResult"), &result_of(b"x", b"blob")).await;
    assert_eq!(put.code, Some(FAILED_PRECONDITION));
    // The bytes are compared, although another tenant has the blob.
    assert_eq!(bed.http(B, "PUT", &path, b"blub").await.status, StatusCode::BAD_REQUEST);
    assert!(!has(&bed, B, b"blob").await);
    assert_eq!(bed.http(B, "PUT", &path, b"blob").await.status, StatusCode::OK);
    assert_eq!(&bed.http(B, "GET", &path, b"").await.body[..], b"blob");
    let put =
        bed.call(B, &format!("{ACTIONS}/UpdateActionResult"), &result_of(b"x", b"blob")).await;
    assert_eq!(put.code, Some(0));
    bed.end().await;
}

#[tokio::test]
async fn a_token_is_for_its_instances() {
    let listed = "
[[token]]
name = 'listed'
token = 'listed-0123456789'
role = 'write'
instances = ['main', 'ci/*']
";
    let bed = Bed::with(listed, |options| {
        options.origins.origins = vec![Origin::parse("files=file:///nowhere").unwrap()];
    })
    .await;
    let updated = format!("{CAS}/BatchUpdateBlobs");
    let found = format!("{CAS}/FindMissingBlobs");
    for instance in ["main", "/main", "ci/1"] {
        assert_eq!(bed.call(LISTED, &updated, &update(instance, b"blob")).await.code, Some(0));
        assert_eq!(bed.call(LISTED, &found, &find(instance, b"blob")).await.code, Some(0));
    }
    for instance in ["other", "ci", ""] {
        for (path, message) in
            [(&updated, update(instance, b"blob")), (&found, find(instance, b"blob"))]
        {
            let answer = bed.call(LISTED, path, &message).await;
            assert_eq!(answer.code, Some(PERMISSION_DENIED), "{path} {instance}");
        }
    }
    let hash = sha256(b"blob").checksum().hex();
    assert_eq!(bed.http(LISTED, "GET", &format!("/main/cas/{hash}"), b"").await.status, 200);
    assert_eq!(bed.http(LISTED, "GET", &format!("/ci/x/cas/{hash}"), b"").await.status, 200);
    for path in ["/cas/", "/other/cas/", "/other/ac/"] {
        let answer = bed.http(LISTED, "GET", &format!("{path}{hash}"), b"").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
    // Tools that name no instance use the empty one.
    for path in ["/webdav/file", "/origin/files/file"] {
        assert_eq!(
            bed.http(LISTED, "GET", path, b"").await.status,
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
    bed.end().await;
}

/// Bazel takes a refused write for an error, so a reader must learn that it cannot write.
#[tokio::test]
async fn capabilities_say_whether_the_caller_writes() {
    let bed = Bed::new(ROLES).await;
    for (token, expected) in [(READER, false), (WRITER, true)] {
        let answer = bed.call(token, CAPABILITIES, b"").await;
        let all = v2::ServerCapabilities::decode(answer.message()).unwrap();
        let update = all.cache_capabilities.unwrap().action_cache_update_capabilities.unwrap();
        assert_eq!(update.update_enabled, expected);
    }
    bed.end().await;
}

#[tokio::test]
async fn an_instance_writes_its_quota_and_still_reads() {
    let bed = Bed::with(ROLES, |options| {
        options.quotas = vec![Quota { instance: "small".into(), bytes_per_day: 1000 }];
    })
    .await;
    let path = format!("{CAS}/BatchUpdateBlobs");
    let (first, second) = (vec![1; 900], vec![2; 200]);
    let updated = bed.call(WRITER, &path, &update("small", &first)).await;
    assert_eq!(updated.code, Some(0));
    let refused = bed.call(WRITER, &path, &update("small", &second)).await;
    assert_eq!(refused.code, Some(RESOURCE_EXHAUSTED));
    assert!(!has(&bed, WRITER, &second).await && has(&bed, WRITER, &first).await);
    let hash = sha256(&second).checksum().hex();
    let refused = bed.http(WRITER, "PUT", &format!("/small/cas/{hash}"), &second).await;
    assert_eq!(refused.status, StatusCode::INSUFFICIENT_STORAGE);
    let after: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((3600..=24 * 3600).contains(&after), "{after}");
    let refused = bed.http(WRITER, "PUT", &format!("/small/ac/{hash}"), &second).await;
    assert_eq!(refused.status, StatusCode::INSUFFICIENT_STORAGE);
    // Others are free.
    let message = update("other", &second);
    assert_eq!(bed.call(WRITER, &path, &message).await.code, Some(0));
    bed.end().await;
}
