//! Whole blobs, as from any remote: facts, ranges, downloads.

use tidegate::remote::{RemoteOptions, Version};
use tidegate::{ErrorKind, Location, Target};
use tidegate_core::checksum::Checksum;
use tidegate_core::digest::DigestFunction;
use tidegate_testkit::reapi::{
    Code, Cut, GrpcStatus, HashFunction, ReapiFault, ReapiOptions, ReapiRule, ReapiServer, Rpc,
};

use super::bed::{digest, noise};
use crate::call::{DownloadOptions, client_of, download};

fn locate(server: &ReapiServer, name: &tidegate_testkit::reapi::BlobName) -> Location {
    let url = format!("{}/{}", server.url(), digest(name));
    client_of(RemoteOptions::default()).locate(&url).unwrap()
}

async fn start() -> ReapiServer {
    ReapiServer::start(ReapiOptions { instance: "a/b".to_owned(), ..ReapiOptions::default() })
        .await
        .unwrap()
}

#[tokio::test]
async fn a_blob_is_downloaded_in_shards_and_verified_by_its_name() {
    let server = start().await;
    let (_, bytes) = noise(3_000_000, 1);
    for function in [HashFunction::Sha256, HashFunction::Blake3] {
        let location = locate(&server, &server.put_as(function, bytes.clone()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blob");
        let options = DownloadOptions {
            shard_bytes_min: Some(512 << 10),
            shard_bytes_max: Some(512 << 10),
            ..DownloadOptions::default()
        };
        server.clear_counts();
        let report = download(&location, Target::File(path.clone()), &options).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
        let algorithm = match function {
            HashFunction::Sha256 => DigestFunction::Sha256,
            HashFunction::Blake3 => DigestFunction::Blake3,
        };
        let verified: Vec<_> =
            report.verified.checksums().iter().map(Checksum::algorithm).collect();
        assert_eq!(verified, [algorithm.algorithm()]);
        assert_eq!(server.counts().calls(Rpc::Read), 6);
        assert_eq!(server.counts().bytes_out, 3_000_000);
    }
}

#[tokio::test]
async fn a_flipped_bit_is_detected() {
    let server = start().await;
    let (_, bytes) = noise(100_000, 2);
    let location = locate(&server, &server.put(bytes));
    server.script().always(Rpc::Read, ReapiFault::FlipBit(77_777));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blob");
    let failed = download(&location, Target::File(path.clone()), &DownloadOptions::default()).await;
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Integrity);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_read_that_is_cut_goes_on_where_it_ended() {
    for cut in [
        Cut::End,
        Cut::Status(GrpcStatus::new(Code::Unavailable, "going down")),
        Cut::Reset(8),
        Cut::Reset(0),
        Cut::Close,
    ] {
        let server = start().await;
        let (_, bytes) = noise(2_000_000, 3);
        let location = locate(&server, &server.put(bytes.clone()));
        let fault = ReapiFault::CutAfter { bytes: 700_000, cut: cut.clone() };
        server.script().push(ReapiRule::new(fault).rpc(Rpc::Read).nth(1));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blob");
        let options = DownloadOptions { window: Some(1), ..DownloadOptions::default() };
        let report = download(&location, Target::File(path.clone()), &options).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes, "{cut:?}");
        assert_eq!(report.totals.restarts, 1, "{cut:?}");
        server.idle().await;
    }
}

#[tokio::test]
async fn stat_reads_no_bytes() {
    let server = start().await;
    let (_, bytes) = noise(1000, 4);
    let name = server.put(bytes);
    let location = locate(&server, &name);
    let info = location.remote.stat(&location.blob).await.unwrap();
    assert_eq!(info.len_bytes, Some(1000));
    assert_eq!(info.version, Some(Version::Digest(digest(&name).to_string())));
    assert_eq!(server.counts().calls(Rpc::Read), 0);
    server.evict(&name.hash);
    let gone = location.remote.stat(&location.blob).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert!(gone.to_string().contains("/a/b/sha256/"), "{gone}");
}

#[tokio::test]
async fn the_empty_blob_is_there_without_asking() {
    let server = start().await;
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let url = format!("{}/sha256/{hash}/0", server.url());
    let location = client_of(RemoteOptions::default()).locate(&url).unwrap();
    assert_eq!(location.file_name(), Some(hash));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blob");
    download(&location, Target::File(path.clone()), &DownloadOptions::default()).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    assert_eq!(server.counts().total.arrived, 0);
}

#[tokio::test]
async fn only_the_version_of_the_digest_can_be_requested() {
    let server = start().await;
    let location = locate(&server, &server.put(&b"data"[..]));
    let tag = location.at(Version::ETag("\"a\"".to_owned())).unwrap_err();
    assert_eq!(tag.kind(), ErrorKind::Invalid);
    let other = location.at(Version::Digest("sha256/x/1".to_owned())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = Target::File(folder.path().join("blob"));
    let failed = download(&other, target, &DownloadOptions::default()).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Changed);
}
