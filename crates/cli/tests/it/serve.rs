//! `tidegate serve`.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::pseudo_random;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Child;

use crate::bed::{command, run_in, within};
use crate::interrupt::signal;

/// Starts a server on a free port; returns it and what it says of itself.
async fn start(folder: &TempDir, more: &[&str]) -> (Child, Value) {
    let mut command = command(folder.path());
    command.args(["serve", "--dir", "cache", "--max-size", "1GiB", "--listen", "127.0.0.1:0"]);
    let mut child = command.arg("--json").args(more).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    within(lines.read_line(&mut line)).await.unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

/// Stops a server by a signal; returns its messages.
async fn stop(mut child: Child, name: &str) -> String {
    signal(&child, name).await;
    let status = within(child.wait()).await.unwrap();
    let mut messages = String::new();
    child.stderr.take().unwrap().read_to_string(&mut messages).await.unwrap();
    assert_eq!(status.code(), Some(0), "{messages}");
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn files_survive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pseudo_random(9 << 20, 5);
    std::fs::write(folder.path().join("file"), &bytes).unwrap();
    let (server, said) = start(&folder, &[]).await;
    let ran = run_in(folder.path(), &["cp", "file", said["url"].as_str().unwrap()]).await;
    let blob = ran.ends(0).out().trim_end().rsplit_once("/sha256/").unwrap().1.to_owned();
    stop(server, "TERM").await;
    for (level, end) in [("power", "INT"), ("process", "TERM")] {
        let (server, said) = start(&folder, &["--level", level]).await;
        let url = format!("{}/sha256/{blob}", said["url"].as_str().unwrap());
        run_in(folder.path(), &["cp", &url, level]).await.ends(0);
        assert!(std::fs::read(folder.path().join(level)).unwrap() == bytes);
        stop(server, end).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pseudo_random(5 << 20, 6);
    std::fs::write(folder.path().join("file"), &bytes).unwrap();
    let (mut server, said) = start(&folder, &[]).await;
    let ran = run_in(folder.path(), &["cp", "file", said["url"].as_str().unwrap()]).await;
    let blob = ran.ends(0).out().trim_end().rsplit_once("/sha256/").unwrap().1.to_owned();
    server.kill().await.unwrap();
    let (server, said) = start(&folder, &[]).await;
    let url = format!("{}/sha256/{blob}", said["url"].as_str().unwrap());
    run_in(folder.path(), &["cp", &url, "back"]).await.ends(0);
    assert!(std::fs::read(folder.path().join("back")).unwrap() == bytes);
    stop(server, "TERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_served_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |args: &[&str]| run_in(folder.path(), &[&["serve"], args].concat()).await;
    run(&[]).await.ends(2).says("--dir");
    let open = ["--dir", "x", "--listen", "0.0.0.0:0"];
    run(&open).await.ends(2).says("asks for no credentials").says("--no-auth");
    run(&["--dir", "x", "--listen", "here"]).await.ends(2).says("--listen");
    run(&["--dir", "x", "--level", "none"]).await.ends(2).says("process");
    run(&["--dir", "x", "--max-size", "1"]).await.ends(2).says("64.0 MiB");
    std::fs::write(folder.path().join("file"), b"").unwrap();
    run(&["--dir", "file", "--listen", "127.0.0.1:0"]).await.ends(1).says("cannot be used");
    let (server, said) = start(&folder, &[]).await;
    let address = said["address"].as_str().unwrap();
    let used = run(&["--dir", "other", "--listen", address]).await;
    used.ends(1).says("cannot listen on this address").says("in use");
    let used = run(&["--dir", "cache", "--listen", "127.0.0.1:0"]).await;
    used.ends(1).says("the store is in use");
    stop(server, "TERM").await;
}

/// A recorded trace tells which size of the store would have had which hit rate.
#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_trace_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), pseudo_random(3 << 20, 8)).unwrap();
    let (server, said) = start(&folder, &["--record-trace", "trace"]).await;
    for _ in 0..2 {
        run_in(folder.path(), &["cp", "file", said["url"].as_str().unwrap()]).await.ends(0);
    }
    stop(server, "TERM").await;
    let replayed = run_in(folder.path(), &["store", "replay", "trace", "--json"]).await;
    let found: Value = serde_json::from_slice(&replayed.ends(0).stdout).unwrap();
    assert!(found["requests"].as_u64().unwrap() > 0, "{found}");
    assert!(found["distinct_bytes"].as_u64().unwrap() >= 3 << 20, "{found}");
    let again = ["serve", "--dir", "cache", "--listen", "127.0.0.1:0", "--record-trace", "trace"];
    run_in(folder.path(), &again).await.ends(1).says("the trace cannot be created");
}

/// One port speaks gRPC and HTTP, and a blob that came by one is there for the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_there_for_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pseudo_random(2 << 20, 9);
    std::fs::write(folder.path().join("file"), &bytes).unwrap();
    let (server, said) = start(&folder, &[]).await;
    let ran = run_in(folder.path(), &["cp", "file", said["url"].as_str().unwrap()]).await;
    let blob = ran.ends(0).out().trim_end().rsplit_once("/sha256/").unwrap().1.to_owned();
    let hash = blob.split('/').next().unwrap();
    let url = format!("http://{}/cas/{hash}", said["address"].as_str().unwrap());
    run_in(folder.path(), &["cp", "--sha256", hash, &url, "back"]).await.ends(0);
    assert!(std::fs::read(folder.path().join("back")).unwrap() == bytes);
    stop(server, "TERM").await;
}

/// The origin is a folder, and the upstream another server.
#[tokio::test(flavor = "multi_thread")]
async fn blobs_come_from_an_origin_and_an_upstream() {
    let (folder, above) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = pseudo_random(3 << 20, 7);
    let files = above.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("a b"), &bytes).unwrap();
    let (upstream, of_upstream) = start(&above, &[]).await;
    let url = of_upstream["url"].as_str().unwrap();
    let ran = run_in(above.path(), &["cp", "files/a b", url]).await;
    let blob = ran.ends(0).out().trim_end().rsplit_once("/sha256/").unwrap().1.to_owned();
    let origin = format!("files=file://{}", files.display());
    let (server, said) = start(&folder, &["--origin", &origin, "--upstream", url]).await;
    let through = format!("http://{}/origin/files/a%20b", said["address"].as_str().unwrap());
    let filled = format!("{}/sha256/{blob}", said["url"].as_str().unwrap());
    for (url, name) in [(filled, "filled"), (through, "through")] {
        run_in(folder.path(), &["cp", &url, name]).await.ends(0);
        assert!(std::fs::read(folder.path().join(name)).unwrap() == bytes, "{name}");
    }
    stop(server, "TERM").await;
    stop(upstream, "TERM").await;
    let refused = run_in(folder.path(), &["serve", "--dir", "x", "--origin", "nothing"]).await;
    refused.ends(2).says("NAME=URL");
    let refused = run_in(folder.path(), &["serve", "--dir", "x", "--upstream", "http://x"]).await;
    refused.ends(2).says("grpc://");
}
