//! Caches of the Remote Execution API: files into them and out again.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::reapi::{
    ChunkFunction, Code, GrpcStatus, HashFunction, ReapiFault, ReapiOptions, ReapiServer, Rpc,
};
use tidegate_testkit::{Blob, Server, ServerOptions, pseudo_random};

use crate::bed::{Ran, finish, names, run_in, shell};

/// A cache and a folder.
struct Caches {
    server: ReapiServer,
    folder: TempDir,
}

impl Caches {
    async fn new(options: ReapiOptions) -> Self {
        let server = ReapiServer::start(options).await.unwrap();
        Self { server, folder: tempfile::tempdir().unwrap() }
    }

    async fn default() -> Self {
        Self::new(ReapiOptions { instance: "a/b".to_owned(), ..ReapiOptions::default() }).await
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    async fn run(&self, args: &[&str]) -> Ran {
        run_in(self.folder.path(), args).await
    }

    /// Puts a file; gives the URL that was printed.
    async fn put(&self, name: &str) -> String {
        let ran = self.run(&["cp", name, &self.server.url()]).await;
        let out = ran.ends(0).out();
        out.strip_suffix('\n').unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uploaded_file_is_downloaded_unchanged() {
    let caches = Caches::default().await;
    for len in [0, 1000, 5_000_000] {
        let bytes = pseudo_random(len, 1);
        caches.write("in", &bytes);
        let url = caches.put("in").await;
        assert!(url.starts_with(&format!("{}/sha256/", caches.server.url())), "{url}");
        assert!(url.ends_with(&format!("/{len}")), "{url}");
        caches.run(&["cp", &url, "out"]).await.ends(0).says("verified sha256");
        assert!(caches.read("out") == bytes);
        let stat = caches.run(&["stat", "--json", &url]).await;
        let facts: Value = serde_json::from_slice(&stat.ends(0).stdout).unwrap();
        assert_eq!(facts["bytes"], len);
    }
    assert_eq!(names(caches.folder.path()), ["in", "out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_missing_chunks_are_transferred() {
    let caches = Caches::default().await;
    let mut bytes = pseudo_random(30_000_000, 2).to_vec();
    caches.write("old", &bytes);
    caches.put("old").await;
    bytes.splice(10_000_000..10_000_000, *b"an insertion");
    caches.write("new", &bytes);
    caches.server.clear_counts();
    let ran = caches.run(&["cp", "--json", "new", &caches.server.url()]).await;
    let put: Value = serde_json::from_slice(&ran.ends(0).stdout).unwrap();
    assert_eq!(put["outcome"], "chunked");
    let sent = caches.server.counts().bytes_in;
    assert!(sent < 6_000_000 && put["sent_bytes"] == sent, "{sent}: {put}");
    caches.server.clear_counts();
    let url = put["target"].as_str().unwrap();
    let index = caches.folder.path().join(".copy.tidegate-chunks");
    let ran = caches.run(&["cp", "--json", "--seed", "old", url, "copy"]).await;
    ran.ends(0);
    assert!(!index.exists(), "of the seed only");
    std::fs::remove_file(caches.folder.path().join("copy")).unwrap();
    caches.server.clear_counts();
    let ran = caches.run(&["cp", "--json", "--keep-index", "--seed", "old", url, "copy"]).await;
    let done: Value = serde_json::from_slice(&ran.ends(0).stdout).unwrap();
    assert!(caches.read("copy") == bytes);
    let fetched = caches.server.counts().bytes_out;
    assert!(fetched < 6_000_000 && done["chunks"]["fetched_bytes"] == fetched, "{done}");
    assert_eq!(done["verified"][0], "sha256");
    assert!(index.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chunking_option_decides_how_a_blob_is_transferred() {
    let caches = Caches::default().await;
    let bytes = pseudo_random(5_000_000, 3);
    caches.write("in", &bytes);
    let url = caches.server.url();
    let ran = caches.run(&["cp", "--json", "--chunking", "never", "in", &url]).await;
    let put: Value = serde_json::from_slice(&ran.ends(0).stdout).unwrap();
    assert_eq!(put["outcome"], "whole");
    let target = put["target"].as_str().unwrap();
    caches.run(&["cp", "--chunking", "never", target, "out"]).await.ends(0);
    assert!(caches.read("out") == bytes);
    let calls = |rpc| caches.server.counts().calls(rpc);
    assert_eq!((calls(Rpc::Split), calls(Rpc::Splice)), (0, 0));
    caches.run(&["cp", "--chunking", "always", target, "out"]).await.ends(0);
    assert_eq!(calls(Rpc::Split), 1);
    // A cache without chunk support.
    let plain =
        Caches::new(ReapiOptions { split: false, splice: false, ..ReapiOptions::default() }).await;
    plain.write("in", &bytes);
    let url = plain.put("in").await;
    let ran = plain.run(&["cp", "--seed", "in", &url, "out"]).await;
    ran.ends(0).says("note: the seeds were not used: the remote gives no chunks");
    assert!(plain.read("out") == bytes);
    let always = ["cp", "--chunking", "always"];
    let server = plain.server.url();
    let ran = plain.run(&[&always[..], &["in", &server]].concat()).await;
    ran.ends(2).says("takes no chunks").says("hint: leave out --chunking always");
    let ran = plain.run(&[&always[..], &[url.trim_end(), "out"]].concat()).await;
    ran.ends(1).says("the remote gives no chunks").says("hint: leave out --chunking always");
    // A cache that accepts chunks with any cut points.
    let options =
        ReapiOptions { split: false, chunk_functions: Vec::new(), ..ReapiOptions::default() };
    let open = Caches::new(options).await;
    open.write("in", &bytes);
    let server = open.server.url();
    let ran = open.run(&[&always[..], &["in", &server]].concat()).await;
    let url = ran.ends(0).out();
    assert_eq!(open.server.counts().calls(Rpc::Splice), 1);
    open.run(&["cp", url.trim_end(), "out"]).await.ends(0);
    assert!(open.read("out") == bytes);
    let ran = plain.run(&[&always[..], &[&url, "out2"]].concat()).await;
    assert_ne!(ran.says("gives no chunks").code, Some(0));
    assert!(!Path::new(&plain.folder.path().join("out2")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_files_are_uploaded_and_each_is_reported() {
    let caches = Caches::default().await;
    caches.write("one", b"one");
    caches.write("two", b"two");
    let url = caches.server.url();
    let ran = caches.run(&["cp", "one", "missing", "two", &url]).await;
    let out = ran.ends(3).says("missing").out();
    assert_eq!(out.lines().count(), 2);
    let ran = caches.run(&["cp", "--json", "--digest", "blake3", "one", "two", &url]).await;
    let report: Value = serde_json::from_slice(&ran.ends(0).stdout).unwrap();
    assert_eq!(report["blobs"].as_array().unwrap().len(), 2);
    let named = report["blobs"][1]["digest"].as_str().unwrap().to_owned();
    let expected = HashFunction::Blake3.hash(b"two");
    assert_eq!(named, format!("blake3/{expected}/3"));
    // For several blobs JSON reports each blob, and the totals.
    let ran = caches.run(&["cp", "--json", "one", "missing", "two", &url]).await;
    let report: Value = serde_json::from_slice(&ran.ends(3).stdout).unwrap();
    assert_eq!((&report["failed"], &report["bytes"]), (&1.into(), &6.into()), "{report}");
    assert_eq!(report["error"]["kind"], "not_found");
    assert_eq!(report["error"], report["blobs"][1]["error"]);
    let failed = (&report["blobs"][1]["source"], &report["blobs"][1]["target"]);
    assert_eq!(failed, (&"missing".into(), &url.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn options_without_an_effect_are_refused() {
    let caches = Caches::default().await;
    caches.write("in", b"data");
    let url = caches.put("in").await;
    let hash = HashFunction::Sha256.hash(b"data");
    let cases: [(&[&str], &str); 8] = [
        (&["--seed", "in", "in", "out"], "--seed: it is for grpc://"),
        (&["--chunking", "always", "in", "out"], "--chunking: it is for grpc://"),
        (&["--chunking", "never", "in", "out"], "--chunking: it is for grpc://"),
        (&["--digest", "blake3", &url, "out"], "--digest: it is for what is put"),
        (&["--confirm", &url, "out"], "--confirm: it is for what is put"),
        (&["--seed", "in", "--chunking", "never", &url, "out"], "--seed: it is for what comes"),
        (&["--seed", "in", "--sha256", &hash, &url, "out"], "--seed: it is for what comes"),
        (&["--keep-index", "--chunking", "never", &url, "out"], "--keep-index: it is for what"),
    ];
    for (args, message) in cases {
        caches.run(&[&["cp"], args].concat()).await.ends(2).says(message);
    }
    assert_eq!(names(caches.folder.path()), ["in"]);
}

/// The cache knew the blob, and had lost one of its chunks.
#[tokio::test(flavor = "multi_thread")]
async fn sent_chunks_are_reported_though_the_cache_lists_the_blob() {
    let caches = Caches::default().await;
    let bytes = pseudo_random(5_000_000, 5);
    caches.write("in", &bytes);
    let chunking = ChunkFunction::FAST_CDC_2020;
    let (_, chunks) = caches.server.put_chunked(HashFunction::Sha256, chunking, bytes);
    caches.server.evict(&chunks[1].hash);
    let url = caches.server.url();
    let ran = caches.run(&["cp", "--json", "in", &url]).await;
    let put: Value = serde_json::from_slice(&ran.ends(0).stdout).unwrap();
    assert_eq!((&put["outcome"], &put["sent_chunks"]), (&"chunked".into(), &1.into()), "{put}");
    let ran = caches.run(&["cp", "--json", "in", &url]).await;
    let put: Value = serde_json::from_slice(&ran.ends(0).stdout).unwrap();
    assert_eq!((&put["outcome"], &put["sent_chunks"]), (&"present".into(), &0.into()), "{put}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_another_digest_fails_even_if_the_cache_has_that_digest() {
    let caches = Caches::default().await;
    caches.write("in", b"data");
    let url = caches.put("in").await;
    caches.run(&["cp", "in", &caches.server.url()]).await.ends(0).says("already in the cache");
    caches.write("in", b"else");
    caches.run(&["cp", "in", &url]).await.ends(5).says("its bytes are not those of");
    caches.write("in", b"longer");
    caches.run(&["cp", "in", &url]).await.ends(5).says("its bytes are not those of");
}

/// With several blobs in a run, the error must name the one that failed.
#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_chunk_names_the_blob() {
    let caches = Caches::default().await;
    let bytes = pseudo_random(5_000_000, 6);
    let chunking = ChunkFunction::FAST_CDC_2020;
    let (blob, chunks) = caches.server.put_chunked(HashFunction::Sha256, chunking, bytes);
    let url = format!("{}/sha256/{}/{}", caches.server.url(), blob.hash, blob.len_bytes);
    for rpc in [Rpc::BatchRead, Rpc::Read] {
        caches.server.script().always(rpc, ReapiFault::FlipBit(0));
    }
    let ran = caches.run(&["cp", &url, "out"]).await;
    let hint = "if it repeats, the stored blob is damaged";
    ran.ends(5).says(&format!("cannot download {url} at bytes ")).says(hint);
    let mut start = 0;
    let is_named = chunks.iter().any(|chunk| {
        let range = start..start + chunk.len_bytes;
        start = range.end;
        let (place, hash) = (format!("at bytes {}..{}: ", range.start, range.end), &chunk.hash);
        ran.stderr.contains(&format!("{place}chunk sha256/{hash}/{} failed", chunk.len_bytes))
    });
    assert!(is_named, "{}", ran.stderr);
}

/// Through this process, which verifies it on the way in and names it by its digest.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_of_another_remote_is_put_into_a_cache() {
    let (caches, other) = (Caches::default().await, Caches::default().await);
    let web = Server::start(ServerOptions::default()).await.unwrap();
    let bytes = pseudo_random(5_000_000, 7);
    web.put("/a.bin", Blob::new(bytes.clone()));
    let ran = caches.run(&["cp", &web.url("/a.bin"), &caches.server.url()]).await;
    let url = ran.ends(0).out().trim().to_owned();
    let ran = caches.run(&["cp", &url, &other.server.url()]).await;
    let copied = ran.ends(0).out().trim().to_owned();
    assert!(copied.starts_with(&other.server.url()), "{copied}");
    caches.run(&["cp", &copied, "out"]).await.ends(0);
    assert!(caches.read("out") == bytes);
    let absent = web.url("/absent");
    caches.run(&["cp", &absent, &caches.server.url()]).await.ends(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_has_its_exit_code() {
    let caches = Caches::default().await;
    caches.write("in", b"data");
    let url = caches.put("in").await;
    caches.server.evict(&HashFunction::Sha256.hash(b"data"));
    caches.run(&["cp", &url, "out"]).await.ends(3).says("it is not there");
    caches.run(&["stat", &url]).await.ends(3);
    let server = caches.server.url();
    caches.run(&["cp", &server, "out"]).await.ends(2).says("no blob in it");
    caches.run(&["cp", "--compress", "auto", "in", "out"]).await.ends(2).says("grpc://");
    caches.run(&["cp", "--client-cert", "c.pem", "in", &server]).await.ends(2);
    let message = "--generation: it is for what is fetched";
    caches.run(&["cp", "--generation", "5", "in", &server]).await.ends(2).says(message);
    caches.run(&["cp", "--seed", "in", "in", &server]).await.ends(2).says("--seed: it is for");
    caches.run(&["cp", "--keep-index", "in", &server]).await.ends(2).says("--keep-index: it is");
    let denied = GrpcStatus::new(Code::PermissionDenied, "read-only");
    caches.server.script().always(Rpc::BatchUpdate, ReapiFault::Fail(denied.clone()));
    caches.server.script().always(Rpc::Write, ReapiFault::Fail(denied));
    let ran = caches.run(&["cp", "in", &server]).await;
    ran.ends(6).says("PERMISSION_DENIED: read-only");
    // The digest in the URL must match.
    let other = format!("{server}/sha256/{}/4", HashFunction::Sha256.hash(b"else"));
    caches.run(&["cp", "in", &other]).await.ends(5);
}

/// The command line is right, and the cache refuses the request.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_argument_status_is_a_remote_error() {
    let caches = Caches::default().await;
    caches.write("in", b"data");
    let url = caches.put("in").await;
    let refused = ReapiFault::Fail(GrpcStatus::new(Code::InvalidArgument, "not like this"));
    for rpc in [Rpc::Read, Rpc::BatchUpdate, Rpc::Write] {
        caches.server.script().always(rpc, refused.clone());
    }
    caches.write("other", b"else");
    for args in [["cp", "--json", &url, "out"], ["cp", "--json", "other", &caches.server.url()]] {
        let ran = caches.run(&args).await;
        let report: Value = serde_json::from_slice(&ran.ends(1).stdout).unwrap();
        let error = &report["error"];
        assert_eq!(error["kind"], "remote", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("INVALID_ARGUMENT: not like this"), "{message}");
    }
}

/// A script that continues with the printed URLs must not mistake some of them for all.
#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_cannot_be_printed_is_an_error() {
    let caches = Caches::default().await;
    caches.write("in", b"data");
    let script = "exec \"$0\" cp in \"$1\" > /dev/full";
    let ran = finish(shell(caches.folder.path(), script, &[&caches.server.url()])).await;
    ran.ends(1).says("error: cannot write standard output");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_and_never_shown() {
    let token = Some("s3cret".to_owned());
    let caches = Caches::new(ReapiOptions { token, ..ReapiOptions::default() }).await;
    caches.write("in", b"data");
    let url = caches.server.url();
    let refused = caches.run(&["cp", "in", &url]).await;
    refused.ends(6);
    let header = "Authorization: Bearer s3cret";
    let ran = caches.run(&["cp", "-v", "--header", header, "in", &url]).await;
    assert!(!ran.ends(0).stderr.contains("s3cret"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn confirm_finds_a_blob_that_the_cache_lost() {
    let caches = Caches::default().await;
    caches.write("in", b"data");
    let url = caches.server.url();
    caches.server.script().always(Rpc::BatchUpdate, ReapiFault::Forget);
    caches.run(&["cp", "in", &url]).await.ends(0);
    let ran = caches.run(&["cp", "--confirm", "in", &url]).await;
    ran.ends(5).says("now it lacks the blob sha256/").says("hint: upload it again");
    caches.server.script().clear();
    caches.run(&["cp", "--confirm", "in", &url]).await.ends(0);
}
