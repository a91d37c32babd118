//! `--debug` and `RUST_LOG`: a line for each request and each restart, without secrets.

use std::process::Stdio;

use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};
use tidegate_testkit::{Blob, Fault, Flavour, Gate, Proxy, RangeMatch, Rule, ServerOptions};

use crate::bed::{Bed, Ran, SHARD, command, finish, within};
use crate::screen::{Terminal, seen};

const LEN: usize = 640_000;

/// The lines of requests.
fn requests(ran: &Ran) -> Vec<&str> {
    ran.stderr.lines().filter(|line| line.contains(" DEBUG tidegate::request: ")).collect()
}

/// The value of a field in a line.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let start = format!(" {name}=");
    let rest = line.split_once(&start).unwrap_or_else(|| panic!("no {name} in {line:?}")).1;
    rest.split(' ').next().unwrap_or_default()
}

async fn run(bed: &Bed, log: &str, args: &[&str]) -> Ran {
    let mut command = command(bed.folder.path());
    command.env("RUST_LOG", log).args(args);
    finish(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_a_line() {
    let bed = Bed::http().await;
    bed.put("/f/blob", LEN);
    let url = bed.server.url("/f/blob");
    let ran = bed.run(&["cp", "--debug", "--window", "2", "--shard-size", SHARD, &url, "o"]).await;
    let lines = requests(ran.ends(0));
    within(bed.server.idle()).await;
    assert_eq!(lines.len(), bed.server.requests(), "{}", ran.stderr);
    let mut received = 0;
    for line in &lines {
        let seconds = line.split_whitespace().next().unwrap();
        assert!(seconds.parse::<f64>().unwrap() < 60.0, "{line:?}");
        assert_eq!((field(line, "method"), field(line, "url")), ("GET", &*url));
        assert_eq!((field(line, "status"), field(line, "outcome")), ("206", "complete"));
        let (first, all) = (field(line, "first_byte_ms"), field(line, "ms"));
        assert!(first.parse::<f64>().unwrap() <= all.parse::<f64>().unwrap(), "{line:?}");
        received += field(line, "received_bytes").parse::<usize>().unwrap();
    }
    assert_eq!(received, LEN);
    let with = |kind: &str| lines.iter().filter(|line| field(line, "connection") == kind).count();
    assert_eq!(with("new") as u64, bed.server.connections_accepted(), "{}", ran.stderr);
    assert_eq!(with("new") + with("reused"), lines.len());
    assert!(with("reused") > 0, "{}", ran.stderr);
    // The details of -v.
    ran.says(&format!("{url} -> o: {} requests, 0 restarts", lines.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_restart_is_a_line_with_its_reason() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    bed.server.script().push(Rule::new(Fault::CutAfter(100_000)));
    let ran = bed.gcs_run(&["cp", "--debug", "--window", "1", "gs://bucket/blob", "o"]).await;
    let restarts: Vec<&str> =
        ran.ends(0).stderr.lines().filter(|line| line.contains(" tidegate::restart: ")).collect();
    let [line] = restarts[..] else { panic!("{}", ran.stderr) };
    let facts = ["target", "offset", "attempt"].map(|name| field(line, name));
    assert_eq!(facts, ["gs://bucket/blob", "100000", "2"]);
    assert!(field(line, "delay_ms").parse::<u64>().is_ok(), "{line:?}");
    assert!(line.contains(" error=cannot read gs://bucket/blob: "), "{line:?}");
    let lines = requests(&ran);
    assert_eq!(field(lines[0], "outcome"), "failed", "{lines:#?}");
    assert!(lines[0].contains(" error="), "{lines:#?}");
    let last = lines.last().unwrap();
    assert_eq!(field(last, "range"), "bytes=100000-639999", "{lines:#?}");
    assert_eq!(field(last, "outcome"), "complete", "{lines:#?}");
}

/// A lookup of facts that is retried, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_stat_is_a_line() {
    let bed = Bed::http().await;
    bed.put("/f/blob", LEN);
    bed.server.script().push(Rule::new(Fault::status(503)));
    let ran = bed.run(&["stat", "--debug", &bed.server.url("/f/blob")]).await;
    ran.ends(0).says("tidegate::restart: restart target=").says("503");
    assert_eq!(field(requests(&ran)[0], "status"), "503");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_cache_are_lines() {
    let bed = Bed::http().await;
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    std::fs::write(bed.path("file"), vec![7; 300_000]).unwrap();
    let ran = bed.run(&["cp", "--debug", "file", &cache.url()]).await;
    let lines = requests(ran.ends(0));
    assert_eq!(lines.len(), cache.calls().len(), "{}", ran.stderr);
    let new = lines.iter().filter(|line| field(line, "connection") == "new").count();
    assert_eq!(new as u64, cache.connections(), "{}", ran.stderr);
    let mut sent = 0;
    for line in &lines {
        assert!(field(line, "url").starts_with(&format!("http://{}/", cache.addr())), "{line:?}");
        let facts = ["method", "status", "grpc_status"].map(|name| field(line, name));
        assert_eq!(facts, ["POST", "200", "0"], "{line:?}");
        sent += field(line, "sent_bytes").parse::<usize>().unwrap();
    }
    assert!(sent > 1000, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_log_filters_as_in_other_programs() {
    let bed = Bed::http().await;
    bed.put("/f/blob", LEN);
    bed.server.script().push(Rule::new(Fault::CutAfter(100_000)).nth(1));
    let url = bed.server.url("/f/blob");
    for (log, has_requests, has_restarts) in [
        ("", false, false),
        ("warn", false, false),
        ("debug", true, true),
        ("tidegate=trace", true, true),
        ("tidegate::request=debug,hyper=info", true, false),
        ("off,tidegate::restart=debug", false, true),
    ] {
        bed.server.script().clear();
        bed.server.script().push(Rule::new(Fault::CutAfter(100_000)));
        let ran = run(&bed, log, &["cp", "--window", "1", &url, "out"]).await;
        assert_eq!(!requests(ran.ends(0)).is_empty(), has_requests, "{log:?}: {}", ran.stderr);
        let restarts = ran.stderr.contains(" DEBUG tidegate::restart: ");
        assert_eq!(restarts, has_restarts, "{log:?}: {}", ran.stderr);
    }
    let ran = run(&bed, "tidegate=loud", &["cp", &url, "out"]).await;
    ran.ends(0).says("note: RUST_LOG is ignored: expected LEVEL or TARGET=LEVEL");
    let ran = bed.run(&["cp", "-v", &url, "out"]).await;
    assert!(!ran.ends(0).stderr.contains("received_bytes"), "{}", ran.stderr);
    bed.run(&["cp", "-q", "--debug", &url, "out"]).await.ends(2);
}

const SECRETS: [&str; 7] =
    ["hunter2", "s1gnature", "fr4gment", "t0ken", "aHVudGVyMg", "bWU6czNjcmV0", "s3cret"];

#[track_caller]
fn keeps_quiet(ran: &Ran) {
    assert!(ran.stderr.contains(" tidegate::request: "), "{ran:?}");
    for secret in SECRETS {
        assert!(!ran.out().contains(secret) && !ran.stderr.contains(secret), "{secret}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_a_line() {
    let bed = Bed::http().await;
    bed.put("/f/blob", LEN);
    bed.server.script().push(Rule::new(Fault::CutAfter(100_000)));
    bed.server.script().push(Rule::new(Fault::status(503)));
    let plain = bed.server.url("/f/blob");
    let signed = format!("{}?sig=s1gnature#fr4gment", plain.replace("//", "//user:hunter2@"));
    let missing = signed.replace("blob", "missing");
    let proxy = Proxy::start(Some("Basic bWU6czNjcmV0")).await.unwrap();
    let proxied = proxy.url().replace("//", "//me:s3cret@");
    std::fs::write(bed.path(".netrc"), "machine 127.0.0.1 login me password s3cret\n").unwrap();
    for (args, code) in [
        (&["cp", "--window", "1", &signed, "out"][..], 0),
        (&["cp", &missing, "out"], 3),
        (&["stat", &signed], 0),
        (&["stat", "--netrc", &plain], 0),
        (&["stat", "--header", "Authorization: Bearer t0ken", &plain], 0),
        (&["stat", "--proxy", &proxied, &plain], 0),
    ] {
        let ran = run(&bed, "trace", &[args, &["--debug"]].concat()).await;
        keeps_quiet(ran.ends(code));
    }
    assert!(!proxy.requests().is_empty());
    let log = bed.server.log();
    assert!(log.iter().any(|logged| logged.path_and_query.contains("s1gnature")));
    assert!(log.iter().any(|logged| logged.header("authorization").is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_bucket_or_a_cache_is_in_a_line() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3)).await;
    bed.server.put("/bucket/blob", Blob::new(vec![1; LEN]));
    let mut s3 = command(bed.folder.path());
    s3.env("RUST_LOG", "trace").env("AWS_ACCESS_KEY_ID", "key").env("AWS_REGION", "us-east-1");
    s3.env("AWS_SECRET_ACCESS_KEY", "s3cret").env("AWS_SESSION_TOKEN", "t0ken");
    s3.args(["cp", "--endpoint", &bed.server.endpoint(), "s3://bucket/blob", "out"]);
    keeps_quiet(finish(s3).await.ends(0));
    let log = bed.server.log();
    assert_eq!(log[0].header("x-amz-security-token"), Some("t0ken"));

    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let args = ["cp", "--header", "Authorization: Bearer t0ken", "out", &cache.url()];
    let ran = run(&bed, "trace", &args).await;
    keeps_quiet(ran.ends(0));
    // Events of the HTTP/2 library are shown.
    ran.says(" h2::");
}

/// Lines go above the bar, which stays the last line and is removed at the end.
#[tokio::test(flavor = "multi_thread")]
async fn lines_do_not_break_the_bar() {
    const COLUMNS: u16 = 500;
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", 1 << 20);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).range(RangeMatch::StartsFrom(1 << 19)).always());
    let (terminal, program) = Terminal::new(COLUMNS);
    let mut command = command(bed.folder.path());
    command.args(["cp", "--debug", "--anonymous", "--shard-size", SHARD, "--endpoint"]);
    command.arg(bed.server.endpoint()).args(["gs://bucket/blob", "out"]).env("TERM", "xterm");
    command.stdout(Stdio::null()).stderr(Stdio::from(program));
    let mut child = command.spawn().unwrap();
    drop(command);
    terminal.shows(" 50%").await;
    let is_request = |line: &String| line.contains(" DEBUG tidegate::request: method=GET ");
    let lines = seen(&terminal.given(), COLUMNS.into());
    let (bar, above) = lines.split_last().unwrap();
    assert!(bar.starts_with("out ━"), "{lines:#?}");
    assert!(!above.is_empty() && above.iter().all(is_request), "{lines:#?}");
    gate.open();
    assert!(within(child.wait()).await.unwrap().success());
    let lines = seen(&terminal.end(), COLUMNS.into());
    let (above, results) = lines.split_at(lines.len() - 2);
    assert_eq!(above.iter().filter(|line| is_request(line)).count(), bed.server.requests());
    assert!(above.iter().all(|line| line.contains(" DEBUG tidegate")), "{lines:#?}");
    assert!(!lines.concat().contains('━'), "parts of the bar are left: {lines:#?}");
    assert!(results[0].starts_with("out  1.00 MiB in "), "{lines:#?}");
}
