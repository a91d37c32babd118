//! `/ac/`: results are checked, other values are opaque, and both come back byte for byte.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use tidegate::store::{BlobStore as _, PutRequest};
use tidegate::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;

use crate::bed::{Bed, noise};

const KEY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn result(output: &Digest) -> Vec<u8> {
    let file =
        v2::OutputFile { path: "out".into(), digest: Some(to_proto(output)), ..Default::default() };
    v2::ActionResult { output_files: vec![file], ..Default::default() }.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn opaque_values_come_back() {
    let bed = Bed::new().await;
    // JSON as moon sends it, an entry of ccache, protobuf of another kind, noise of all lengths.
    let values = [
        b"{\"outputFiles\":[]}".to_vec(),
        [&[0xcc, 0xac, 0, 1][..], &noise(300)].concat(),
        vec![0x0a, 3, 1, 2, 3],
        vec![0x12, 3, 1, 2, 3],
        Vec::new(),
        noise(100_000),
        [&[0x12, 0x80][..], &noise(200_000)].concat(),
    ];
    for path in [format!("/ac/{KEY}"), format!("/moon-outputs/ac/{KEY}")] {
        assert_eq!(bed.get(&path).await.status, 404);
        for value in &values {
            assert_eq!(bed.put(&path, value).await.status, 200);
            let answer = bed.get(&path).await;
            assert_eq!(answer.status, 200);
            assert!(answer.body == *value, "{}", value.len());
            let head = bed.send("HEAD", &path, b"").await;
            assert_eq!(head.header("content-length"), Some(&*value.len().to_string()));
        }
    }
    assert_eq!(bed.get(&format!("//ac/{KEY}")).await.status, 200, "an empty segment");
    assert_eq!(bed.get(&format!("/other/ac/{KEY}")).await.status, 404, "instances are apart");
    assert_eq!(bed.send("DELETE", &format!("/ac/{KEY}"), b"").await.status, 204);
    assert_eq!(bed.get(&format!("/ac/{KEY}")).await.status, 404);
    assert_eq!(bed.send("DELETE", &format!("/ac/{KEY}"), b"").await.status, 204);
    let long = bed.put(&format!("/ac/{}", "k".repeat(1100)), b"x").await;
    assert_eq!(long.status, 414);
    assert_eq!(bed.budget.held_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_needs_its_outputs() {
    let bed = Bed::new().await;
    let path = format!("/ac/{KEY}");
    let output = Bytes::from(noise(1000));
    let digest = Digest::of(DigestFunction::Sha256, &output);
    let result = result(&digest);
    let early = bed.put(&path, &result).await;
    assert_eq!(early.status, 409);
    assert!(early.text().contains(&digest.checksum().hex()), "{}", early.text());
    assert_eq!(bed.get(&path).await.status, 404);
    bed.store.put(&PutRequest::new(digest, Arc::new(output))).await.unwrap();
    assert_eq!(bed.put(&path, &result).await.status, 200);
    assert!(bed.get(&path).await.body == result);
    // A value that replaces a result, and a result that replaces a value.
    assert_eq!(bed.put(&path, b"{}").await.status, 200);
    assert_eq!(bed.get(&path).await.body, b"{}");
    assert_eq!(bed.put(&path, &result).await.status, 200);
    assert!(bed.get(&path).await.body == result);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_whose_tree_is_none_is_refused() {
    let bed = Bed::new().await;
    let tree = Bytes::from_static(b"not a tree");
    let digest = Digest::of(DigestFunction::Sha256, &tree);
    bed.store.put(&PutRequest::new(digest, Arc::new(tree))).await.unwrap();
    let folder = v2::OutputDirectory {
        path: "dir".into(),
        tree_digest: Some(to_proto(&digest)),
        ..Default::default()
    };
    let result = v2::ActionResult { output_directories: vec![folder], ..Default::default() };
    let path = format!("/ac/{KEY}");
    assert_eq!(bed.put(&path, &result.encode_to_vec()).await.status, 400);
    assert_eq!(bed.get(&path).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_apart() {
    let bed = Bed::new().await;
    let path = format!("/ac/{KEY}");
    for (tenant, value) in [("x-tenant: a", "one"), ("x-tenant: b", "two")] {
        let put = bed.send_with("PUT", &path, &[tenant], value.as_bytes()).await;
        assert_eq!(put.status, 200);
    }
    assert_eq!(bed.send_with("GET", &path, &["x-tenant: a"], b"").await.body, b"one");
    assert_eq!(bed.send_with("GET", &path, &["x-tenant: b"], b"").await.body, b"two");
    assert_eq!(bed.get(&path).await.status, 404);
}
