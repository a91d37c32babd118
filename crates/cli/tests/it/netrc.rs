//! `--netrc`: user names and passwords by host, and authorities that the environment names.

use tidegate_testkit::{Blob, Fault, Flavour, Rule, ServerOptions, Tls};

use crate::bed::{Bed, command, finish};

/// `me:s3cret`.
const BASIC: &str = "Basic bWU6czNjcmV0";
const ENTRY: &str = "machine 127.0.0.1 login me password s3cret\n";

/// The values of `Authorization` that the server received.
fn received(bed: &Bed) -> Vec<Option<String>> {
    let log = bed.server.log();
    log.iter().map(|logged| logged.header("authorization").map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_of_the_host_is_sent() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1000);
    let url = bed.server.url("/f/blob");
    // HOME is the test's folder.
    std::fs::write(bed.path(".netrc"), ENTRY).unwrap();
    bed.run(&["cat", &url]).await.ends(0);
    assert!(received(&bed).iter().all(Option::is_none), "only where it is asked for");
    bed.server.clear_log();
    let ran = bed.run(&["cat", "-v", "--netrc", &url]).await;
    ran.ends(0);
    assert!(!ran.stderr.contains("s3cret") && !ran.stderr.contains("bWU6"), "{}", ran.stderr);
    assert!(received(&bed).iter().all(|sent| sent.as_deref() == Some(BASIC)));
    bed.server.clear_log();
    bed.run(&["cat", "--netrc", "--header", "Authorization: Bearer mine", &url]).await.ends(0);
    assert!(received(&bed).iter().all(|sent| sent.as_deref() == Some("Bearer mine")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_gets_the_entry_of_its_own_host_only() {
    let (bed, other) = (Bed::http().await, Bed::http().await);
    bed.put("/f/blob", 1000);
    other.put("/f/blob", 1000);
    let target = other.server.url("/f/blob").replace("127.0.0.1", "localhost");
    bed.server.script().push(Rule::new(Fault::Redirect(target)).always());
    std::fs::write(bed.path("file"), "default login me password s3cret\n").unwrap();
    let url = bed.server.url("/f/blob");
    bed.run(&["cat", "--netrc-file", "file", &url]).await.ends(0);
    assert!(received(&bed).iter().all(|sent| sent.as_deref() == Some(BASIC)));
    assert!(!received(&other).is_empty() && received(&other).iter().all(Option::is_none));
    other.server.clear_log();
    let both = format!("{ENTRY}machine localhost login you password there\n");
    std::fs::write(bed.path("file"), both).unwrap();
    bed.run(&["cat", "--netrc-file", "file", &url]).await.ends(0);
    assert!(received(&other).iter().all(|sent| sent.as_deref() == Some("Basic eW91OnRoZXJl")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_damaged_file_is_named() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1000);
    let url = bed.server.url("/f/blob");
    bed.run(&["cat", "--netrc", &url]).await.ends(2).says(".netrc").says("cannot be read");
    std::fs::write(bed.path("file"), "machine 127.0.0.1 passwd s3cret\n").unwrap();
    let ran = bed.run(&["cat", "--netrc-file", "file", &url]).await;
    ran.ends(2).says("format of .netrc").says("hint: write lines");
    assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
    assert_eq!(bed.server.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_of_the_environment_are_trusted() {
    let options = |flavour| ServerOptions { tls: Some(Tls::Trusted), ..ServerOptions::of(flavour) };
    let http = Bed::new(options(Flavour::Http)).await;
    http.put("/f/blob", 1000);
    let s3 = Bed::new(options(Flavour::S3)).await;
    s3.server.put("/bucket/blob", Blob::new(vec![1; 1000]));
    let (url, endpoint) = (http.server.url("/f/blob"), s3.server.endpoint());
    let http_args = ["cat", "--retries", "1", &url];
    let s3_args =
        ["cat", "--retries", "1", "--anonymous", "--endpoint", &endpoint, "s3://bucket/blob"];
    for (bed, args, variable, code) in [
        (&http, &http_args[..], "CURL_CA_BUNDLE", 0),
        (&http, &http_args, "SSL_CERT_FILE", 0),
        (&http, &http_args, "AWS_CA_BUNDLE", 1),
        (&s3, &s3_args, "AWS_CA_BUNDLE", 0),
    ] {
        std::fs::write(bed.path("ca.pem"), bed.server.ca_pem().unwrap()).unwrap();
        let mut run = command(bed.folder.path());
        run.env(variable, bed.path("ca.pem")).args(args);
        let ran = finish(run).await;
        assert_eq!(ran.code, Some(code), "{variable}: {}", ran.stderr);
        let mut run = command(bed.folder.path());
        run.env(variable, bed.path("missing.pem")).args(args);
        let ran = finish(run).await;
        assert_ne!(ran.code, Some(0), "{variable}");
        if code == 0 && variable != "SSL_CERT_FILE" {
            ran.ends(2).says(variable).says("missing.pem cannot be read");
        }
    }
}
