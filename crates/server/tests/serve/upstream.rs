//! A server in front of another cache: hits, misses, damage, outages.

use tidegate::store::BlobStore as _;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{ReapiFault, ReapiOptions, ReapiRule, ReapiServer, Rpc};
use tonic::Code;

use crate::actions::{get, result, update};
use crate::bed::{Bed, blob_name, noise, refused, sha256, within, zstd};

/// A server whose upstream is at `url`.
async fn before(url: String) -> Bed {
    Bed::with(|options| options.upstream = Some(url)).await
}

async fn upstream() -> ReapiServer {
    ReapiServer::start(ReapiOptions::default()).await.unwrap()
}

async fn batch(bed: &Bed, digests: &[Digest]) -> Vec<(i32, Vec<u8>)> {
    let request = v2::BatchReadBlobsRequest {
        digests: digests.iter().map(to_proto).collect(),
        ..v2::BatchReadBlobsRequest::default()
    };
    let response = bed.cas().await.batch_read_blobs(request).await.unwrap().into_inner();
    let one = |one: v2::batch_read_blobs_response::Response| {
        (one.status.unwrap().code, one.data.to_vec())
    };
    response.responses.into_iter().map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_filled_once_and_stored() {
    let upstream = upstream().await;
    let bed = before(upstream.url()).await;
    for len in [1000, 100_000, 20_000_000] {
        let bytes = noise(len, 31);
        upstream.put(bytes.clone());
        let digest = sha256(&bytes);
        assert!(!bed.has(&digest).await, "only this store counts");
        assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes);
        assert!(bed.has(&digest).await);
        upstream.evict(&digest.checksum().hex());
        let part = bed.read(&blob_name(&digest), 7, 100).await.unwrap();
        assert!(part == bytes[7..107]);
    }
    // A part of a blob, and a compressed one.
    let bytes = noise(300_000, 32);
    upstream.put(bytes.clone());
    let digest = sha256(&bytes);
    assert!(bed.read(&blob_name(&digest), 299_000, 0).await.unwrap() == bytes[299_000..]);
    let bytes = noise(300_000, 33);
    upstream.put(bytes.clone());
    let digest = sha256(&bytes);
    let name = format!("compressed-{}", blob_name(&digest).replacen("blobs/", "blobs/zstd/", 1));
    let packed = bed.read(&name, 0, 0).await.unwrap();
    assert!(zstd::bulk::decompress(&packed, 300_000).unwrap() == bytes);
    assert!(!zstd(&bytes).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_filled() {
    let upstream = upstream().await;
    let bed = before(upstream.url()).await;
    let blobs: Vec<_> = (0..40).map(|seed| noise(3000, 100 + seed)).collect();
    bed.put(&[&blobs[0]]).await;
    for blob in &blobs[1..39] {
        upstream.put(blob.clone());
    }
    let digests: Vec<Digest> = blobs.iter().map(|blob| sha256(blob)).collect();
    for (index, (code, data)) in batch(&bed, &digests).await.into_iter().enumerate() {
        let expected = if index < 39 { (0, &blobs[index][..]) } else { (5, &[][..]) };
        assert_eq!((code, &data[..]), expected, "{index}");
    }
    assert_eq!(bed.missing(&digests).await, [to_proto(&digests[39])]);
}

/// Fifty readers wait while the upstream holds the blob, and it is read there once.
#[tokio::test(flavor = "multi_thread")]
async fn one_fill_however_many_read() {
    let upstream = upstream().await;
    let bed = before(upstream.url()).await;
    let bytes = noise(1_000_000, 34);
    upstream.put(bytes.clone());
    let digest = sha256(&bytes);
    let gate = Gate::new();
    let hold = ReapiFault::HoldAfter { bytes: 500_000, gate: gate.clone() };
    upstream.script().push(ReapiRule::new(hold).rpc(Rpc::Read));
    let name = blob_name(&digest);
    let readers = futures_util::future::join_all((0..50).map(|_| bed.read(&name, 0, 0)));
    let opened = async {
        within(gate.reached(1)).await;
        gate.open();
    };
    let (read, ()) = tokio::join!(readers, opened);
    assert!(read.into_iter().all(|one| one.unwrap() == bytes));
    let calls = upstream.calls();
    let first = calls.iter().filter(|call| call.rpc == Rpc::Read && call.offset == 0);
    assert_eq!(first.count(), 1);
}

/// Damage and outages are misses.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_upstream_is_a_miss() {
    let upstream = upstream().await;
    let bed = before(upstream.url()).await;
    let bytes = noise(200_000, 35);
    upstream.put(bytes.clone());
    let digest = sha256(&bytes);
    upstream.script().push(ReapiRule::new(ReapiFault::FlipBit(199_999)).always());
    refused(bed.read(&blob_name(&digest), 0, 0).await, Code::NotFound);
    assert!(!bed.has(&digest).await, "damaged bytes have a name");
    upstream.script().clear();
    assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes);
    let missing = sha256(b"nowhere");
    refused(bed.read(&blob_name(&missing), 0, 0).await, Code::NotFound);
    refused(get(&bed, "", &missing).await, Code::NotFound);

    let closed = Bed::new().await;
    let url = format!("grpc://{}", closed.address);
    closed.end().await;
    let bed = before(url).await;
    for _ in 0..3 {
        refused(bed.read(&blob_name(&digest), 0, 0).await, Code::NotFound);
        refused(get(&bed, "", &digest).await, Code::NotFound);
        assert_eq!(batch(&bed, &[digest]).await, [(5, Vec::new())]);
    }
    bed.put(&[&bytes]).await;
    assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes);
}

/// A result comes with everything that it needs, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn results_come_with_their_outputs() {
    let above = Bed::new().await;
    let bed = before(format!("grpc://{}", above.address)).await;
    let (action, outputs) = (sha256(b"action"), [noise(3000, 36), noise(200_000, 37)]);
    let digests = above.put(&[&outputs[0], &outputs[1]]).await;
    update(&above, "team", &action, result(&digests)).await.unwrap();
    refused(get(&bed, "", &action).await, Code::NotFound);
    assert_eq!(get(&bed, "team", &action).await.unwrap(), result(&digests));
    // The upstream is not needed any more.
    above.end().await;
    assert_eq!(get(&bed, "team", &action).await.unwrap(), result(&digests));
    for (digest, bytes) in digests.iter().zip(&outputs) {
        assert!(bed.read(&blob_name(digest), 0, 0).await.unwrap() == *bytes);
    }
}

/// The files of a tree are found and filled.
#[tokio::test(flavor = "multi_thread")]
async fn trees_are_filled() {
    use prost::Message as _;
    let above = Bed::new().await;
    let bed = before(format!("grpc://{}", above.address)).await;
    let files: Vec<_> = (0..30).map(|seed| noise(500, 200 + seed)).collect();
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let digests = above.put(&files).await;
    let node = |(index, digest): (usize, &Digest)| v2::FileNode {
        name: index.to_string(),
        digest: Some(to_proto(digest)),
        ..v2::FileNode::default()
    };
    let root = v2::Directory {
        files: digests.iter().enumerate().map(node).collect(),
        ..v2::Directory::default()
    };
    let tree = v2::Tree { root: Some(root), children: Vec::new() }.encode_to_vec();
    let tree = above.put(&[&tree]).await[0];
    let directory = v2::OutputDirectory {
        tree_digest: Some(to_proto(&tree)),
        ..v2::OutputDirectory::default()
    };
    let expected =
        v2::ActionResult { output_directories: vec![directory], ..v2::ActionResult::default() };
    let action = sha256(b"tree");
    update(&above, "", &action, expected.clone()).await.unwrap();
    assert_eq!(get(&bed, "", &action).await.unwrap(), expected);
    assert!(bed.missing(&digests).await.is_empty());
}

/// HTTP names no length; an upstream that answers HTTP says it.
#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_filled_by_their_hash() {
    let above = Bed::new().await;
    let bed = before(format!("grpc://{}", above.address)).await;
    let bytes = noise(100_000, 38);
    let digest = above.put(&[&bytes]).await[0];
    let path = format!("/cas/{}", digest.checksum().hex());
    let url = format!("http://{}{path}", bed.address);
    let client = tidegate::Client::default();
    let fetched = client.fetch(&client.locate(&url).unwrap()).await.unwrap();
    assert!(fetched == bytes);
    assert!(bed.store.missing(&[digest]).await.unwrap().is_empty());
    let other = Digest::of(DigestFunction::Sha256, b"nowhere").checksum().hex();
    let nowhere = client.locate(&format!("http://{}/cas/{other}", bed.address)).unwrap();
    let missing = client.fetch(&nowhere).await.unwrap_err();
    assert_eq!(missing.kind(), tidegate::ErrorKind::NotFound);
}
