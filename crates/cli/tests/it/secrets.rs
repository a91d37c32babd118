//! Passwords and signatures in URLs are used and never shown.

use std::path::Path;

use tidegate_testkit::Fault;

use crate::bed::{Bed, Ran};

const SECRETS: [&str; 3] = ["hunter2", "s1gnature", "fr4gment"];

#[track_caller]
fn keeps_quiet(ran: &Ran) {
    for secret in SECRETS {
        assert!(!ran.out().contains(secret) && !ran.stderr.contains(secret), "{ran:?}");
    }
}

fn with_secrets(url: &str) -> String {
    let url = url.replace("http://", "http://user:hunter2@");
    format!("{url}?sig=s1gnature#fr4gment")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_the_output_of_any_outcome() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 100_000);
    let url = with_secrets(&bed.server.url("/f/blob"));
    let missing = with_secrets(&bed.server.url("/f/missing"));
    for (args, code) in [
        (&["cp", &url, "out"][..], 0),
        (&["cp", "--json", &url, "out"], 0),
        (&["stat", &url], 0),
        (&["stat", "--json", &url], 0),
        (&["cp", &url, "."], 0),
        (&["cp", &missing, "out"], 3),
        (&["cp", "--json", &missing, "out"], 3),
        (&["cp", &url, &missing, "."], 3),
        (&["cp", "out", &url], 0),
        (&["cp", "--md5", "00000000000000000000000000000000", &url, "out"], 5),
    ] {
        let ran = bed.run(args).await;
        keeps_quiet(ran.ends(code));
    }
    let sent = bed.server.log();
    let first = sent.first().unwrap();
    assert!(first.path_and_query.contains("s1gnature") && first.header("authorization").is_some());
    for name in bed.names() {
        assert!(SECRETS.iter().all(|secret| !name.contains(secret)), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_a_connection_error() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 100_000);
    bed.server.script().always(Fault::CutAfter(10));
    let url = with_secrets(&bed.server.url("/f/blob"));
    keeps_quiet(bed.run(&["cp", "-v", "--retries", "2", &url, "out"]).await.ends(7));
    let elsewhere = with_secrets("http://does-not-exist.invalid/x");
    keeps_quiet(&bed.run(&["stat", "-v", "--retries", "1", &elsewhere]).await);
    bed.server.script().clear();
    bed.server.script().always(Fault::Redirect(elsewhere));
    keeps_quiet(&bed.run(&["cp", "-v", "--retries", "1", &url, "out"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_a_usage_error() {
    let bed = Bed::http().await;
    let url = with_secrets("http://host/x");
    let endpoint = format!("--endpoint={url}");
    for args in [
        &[url.as_str()][..],
        &["stat", &url, &url],
        &["cp", &url],
        &["cp", &url, "--window", &url, "out"],
        &["cat", &url, &endpoint],
        &["cat", "http://user:hunter2@/?s1gnature", &url, "--json"],
        &["cat", "http://user:hunter2@h:99999/?s1gnature"],
        &["cat", "gs://user:hunter2@bucket"],
        &["cat", "nosuch://user:hunter2@host/x?sig=s1gnature"],
        &["cat", "x", "--endpoint", "user:hunter2@host"],
    ] {
        keeps_quiet(bed.run(args).await.ends(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_files_left_on_disk() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 3 << 20);
    bed.server.script().always(Fault::CutAfter(1_500_000));
    let url = with_secrets(&bed.server.url("/f/blob"));
    let args = ["cp", "--window", "1", "--retries", "1", "--deadline", "0.3", &url, "out"];
    let _ = bed.run(&args).await;
    for name in bed.names() {
        let left = std::fs::read(bed.folder.path().join(Path::new(&name))).unwrap();
        let text = String::from_utf8_lossy(&left);
        assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "in {name}");
    }
}
