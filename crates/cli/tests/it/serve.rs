//! `tidegate serve`.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::pseudo_random;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
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
async fn stop(child: Child, name: &str) -> String {
    signal(&child, name).await;
    ended(child).await
}

/// Waits for the end of a server that was asked to stop; returns its messages.
async fn ended(mut child: Child) -> String {
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

const TOKENS: &str = "
[[token]]
name = 'reader'
token = 'reader-0123456789'
role = 'read'

[[token]]
name = 'writer'
token = 'writer-0123456789'
role = 'write'
";

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_and_a_reader_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), pseudo_random(3 << 20, 7)).unwrap();
    std::fs::write(folder.path().join("tokens.toml"), TOKENS).unwrap();
    let (server, said) = start(&folder, &["--credentials", "tokens.toml"]).await;
    let url = said["url"].as_str().unwrap();
    let cp = async |token: &str, names: [&str; 2]| {
        let header = format!("Authorization: Bearer {token}");
        run_in(folder.path(), &["cp", "--header", &header, names[0], names[1]]).await
    };
    run_in(folder.path(), &["cp", "file", url]).await.ends(6).says("credentials");
    cp("reader-0123456789", ["file", url]).await.ends(6).says("needs the role write");
    let ran = cp("writer-0123456789", ["file", url]).await;
    let blob = ran.ends(0).out().trim_end().to_owned();
    cp("reader-0123456789", [&blob, "back"]).await.ends(0);
    assert_eq!(
        std::fs::read(folder.path().join("back")).unwrap(),
        std::fs::read(folder.path().join("file")).unwrap()
    );
    stop(server, "TERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_come_from_a_file_and_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("etc")).unwrap();
    let file = folder.path().join("etc/serve.toml");
    let text = "dir = 'kept'\nmax-size = '1GiB'\nlisten = '127.0.0.1:0'\nmax-memory = '1GiB'\n";
    std::fs::write(&file, text).unwrap();
    let started = async |set: &[(&str, &str)], args: &[&str]| {
        let mut command = command(folder.path());
        command.args(["serve", "--json", "--config", "etc/serve.toml"]).args(args);
        command.envs(set.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        within(lines.read_line(&mut line)).await.unwrap();
        stop(child, "TERM").await;
        let said: Value = serde_json::from_str(&line).unwrap();
        said["max_size"].as_u64().unwrap() >> 20
    };
    assert_eq!(started(&[], &[]).await, 1024);
    // A path of the file starts from the file's folder.
    assert!(folder.path().join("etc/kept").is_dir());
    let set = [("TIDEGATE_SERVE_MAX_SIZE", "2GiB")];
    assert_eq!(started(&set, &[]).await, 2048);
    assert_eq!(started(&set, &["--max-size", "3GiB"]).await, 3072);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flaw_in_a_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let run = async |args: &[&str]| {
        run_in(folder.path(), &[&["serve", "--listen", "127.0.0.1:0"], args].concat()).await
    };
    write("serve.toml", "dir = 'kept'\n\nmax-sise = '1GiB'\n");
    let ran = run(&["--config", "serve.toml"]).await;
    ran.ends(2).says("serve.toml:3").says("unknown setting max-sise").says("max-size");
    write("serve.toml", "max-size = '1GiB'\n");
    run(&["--config", "serve.toml"]).await.ends(2).says("dir is missing");
    run(&["--config", "none.toml"]).await.ends(2).says("none.toml").says("cannot be read");
    write("tokens.toml", "[[token]]\nname = 'a'\nrole = 'owner'\ntoken = '0123456789abcdef'\n");
    let ran = run(&["--dir", "kept", "--credentials", "tokens.toml"]).await;
    ran.ends(2).says("tokens.toml: line 3").says("owner");
    let ran = run(&["--dir", "kept", "--tls-cert", "none.pem", "--tls-key", "none.key"]).await;
    ran.ends(2).says("none.pem");
    run(&["--dir", "kept", "--tls-cert", "none.pem"]).await.ends(2).says("--tls-key");
    run(&["--dir", "kept", "--isolate-tenants"]).await.ends(2).says("--credentials");
    let both = ["--dir", "kept", "--credentials", "tokens.toml", "--isolate-tenants"];
    let origin = ["--origin", "a=https://example.invalid"];
    run(&[&both[..], &origin].concat()).await.ends(2).says("--origin");
    run(&["--dir", "kept", "--quota", "main"]).await.ends(2).says("INSTANCE=SIZE");
}

/// SIGTERM in the middle of an upload: no new connection, the upload ends, exit code 0.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_in_flight_ends_after_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (server, said) = start(&folder, &[]).await;
    let address = said["address"].as_str().unwrap();
    let mut upload = TcpStream::connect(address).await.unwrap();
    let head =
        "PUT /v1/cache/1 HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n";
    upload.write_all(head.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(upload);
    let mut line = String::new();
    within(lines.read_line(&mut line)).await.unwrap();
    assert!(line.contains("100"), "{line}");
    lines.get_mut().write_all(b"01234").await.unwrap();
    signal(&server, "TERM").await;
    within(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    lines.get_mut().write_all(b"56789").await.unwrap();
    let mut response = String::new();
    within(lines.read_to_string(&mut response)).await.unwrap();
    assert!(response.contains("HTTP/1.1 200 OK"), "{response}");
    ended(server).await;

    let (server, said) = start(&folder, &[]).await;
    let value = get(said["address"].as_str().unwrap(), "/v1/cache/1").await;
    assert!(value.ends_with("\r\n\r\n0123456789"), "{value}");
    stop(server, "TERM").await;
}

/// The log names the request of each line, and what its client said of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (server, said) = start(&folder, &["--debug"]).await;
    let address = said["address"].as_str().unwrap();
    let asked = "/v1/cache/2 HTTP/1.1\r\nx-request-id: build-7";
    get_line(address, asked).await;
    let messages = stop(server, "TERM").await;
    let line = messages.lines().find(|line| line.contains("a request ended")).unwrap();
    for part in ["id=build-7", "call=nx.read", "outcome=404", "tidegate_server::request"] {
        assert!(line.contains(part), "{messages}");
    }
}

/// A response over a connection of its own.
async fn get(address: &str, path: &str) -> String {
    get_line(address, &format!("{path} HTTP/1.1")).await
}

async fn get_line(address: &str, line: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {line}\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    within(socket.read_to_string(&mut response)).await.unwrap();
    response
}

/// A purge shows first what it would remove.
#[tokio::test(flavor = "multi_thread")]
async fn values_are_purged_by_instance_and_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let (server, said) = start(&folder, &[]).await;
    let address = said["address"].as_str().unwrap().to_owned();
    let url = format!("http://{address}");
    let keys = ["main/ac/a1", "main/ac/a2", "ac/a1", "v1/cache/77"];
    for key in keys {
        put(&address, key, "0123456789").await;
    }
    let purge = async |args: &[&str]| {
        let place = ["store", "purge", &url];
        run_in(folder.path(), &[&place, args].concat()).await
    };
    let left = async || {
        let mut left = Vec::new();
        for key in keys {
            if get(&address, &format!("/{key}")).await.ends_with("0123456789") {
                left.push(key);
            }
        }
        left
    };
    let ran = purge(&["--instance", "main"]).await;
    ran.ends(0).says("would remove 2 values (20 B)").says("--remove");
    assert!(ran.out().contains("ac a1  10 B  instance main"), "{}", ran.out());
    assert_eq!(left().await, keys);
    purge(&["--instance", "main", "--remove"]).await.ends(0).says("Removed 2 values");
    assert_eq!(left().await, &keys[2..]);
    let ran = purge(&["--key", "77", "--remove", "--json"]).await;
    let json: Value = serde_json::from_str(&ran.ends(0).out()).unwrap();
    assert_eq!((&json["matched"], &json["is_removed"]), (&1.into(), &true.into()));
    assert_eq!(left().await, ["ac/a1"]);
    purge(&["--invocation", "none"]).await.ends(0).says("would remove 0 values");
    purge(&[]).await.ends(2).says("--key");
    stop(server, "TERM").await;
    // A server that does not run: by its folder.
    let ran = run_in(folder.path(), &["store", "purge", "cache", "--key", "A1", "--remove"]).await;
    ran.ends(0).says("Removed 1 value");
    let (server, said) = start(&folder, &[]).await;
    let value = get(said["address"].as_str().unwrap(), "/ac/a1").await;
    assert!(value.starts_with("HTTP/1.1 404"), "{value}");
    stop(server, "TERM").await;
    run_in(folder.path(), &["store", "purge", &url, "--key", "x"])
        .await
        .ends(1)
        .says("Connection refused");
    run_in(folder.path(), &["store", "purge", "none", "--key", "x"]).await.says("no such folder");
}

async fn put(address: &str, key: &str, value: &str) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let len = value.len();
    let request = format!(
        "PUT /{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{value}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    within(socket.read_to_string(&mut response)).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

/// The collector gets the span of a request, at the latest when the server ends.
#[cfg(feature = "otlp")]
#[tokio::test(flavor = "multi_thread")]
async fn spans_of_requests_are_sent_to_a_collector() {
    let folder = tempfile::tempdir().unwrap();
    let collector = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let collecting = tokio::spawn(async move {
        let (mut socket, _) = collector.accept().await.unwrap();
        let mut request = Vec::new();
        // The name of the target is near the end of a span.
        while !request.windows(9).any(|part| part == b"otlp-id-7") {
            let mut part = [0; 4096];
            let len = socket.read(&mut part).await.unwrap();
            assert!(len > 0, "no span of the request");
            request.extend_from_slice(&part[..len]);
        }
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        socket.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request).into_owned()
    });
    let mut command = command(folder.path());
    command.args(["serve", "--dir", "cache", "--max-size", "1GiB", "--listen", "127.0.0.1:0"]);
    command.arg("--json").env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(server.stdout.take().unwrap());
    within(lines.read_line(&mut line)).await.unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let asked = "/v1/cache/3 HTTP/1.1\r\nx-request-id: otlp-id-7";
    get_line(said["address"].as_str().unwrap(), asked).await;
    stop(server, "TERM").await;
    let request = within(collecting).await.unwrap();
    assert!(request.starts_with("POST /v1/traces HTTP/1.1"), "{request}");
    assert!(request.contains("nx.read"), "{request}");
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
