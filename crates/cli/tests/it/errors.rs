//! Failures at the remote, and their messages.

use tidegate_testkit::{Fault, Flavour, RefusedPort, Rule, ServerOptions, Tls};

use crate::bed::{Bed, SHARD};

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_not_there() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/other", 1);
    let ran = bed.gcs_run(&["cp", "gs://bucket/blob", "out"]).await;
    ran.ends(3).says("error: cannot read gs://bucket/blob: ").says("hint: check the spelling");
    bed.gcs_run(&["stat", "gs://nobucket/blob"]).await.ends(3);
    let error = bed.gcs_run(&["cp", "--json", "gs://bucket/blob", "out"]).await.ends(3).json();
    assert_eq!(error["error"]["kind"], "not_found");
    bed.run(&["cat", &bed.server.url("/nothing")]).await.ends(3);
    bed.run(&["cat", "no/such/file"]).await.ends(3).says("hint: check the path");
    assert_eq!(bed.names(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_may_not_be_read() {
    for (flavour, code) in [(Flavour::Http, 401), (Flavour::Http, 403), (Flavour::Gcs, 403)] {
        let bed = Bed::new(ServerOptions::of(flavour)).await;
        bed.put("/bucket/blob", 1);
        bed.server.script().always(Fault::status(code));
        let url = bed.server.url("/bucket/blob");
        bed.run(&["cp", &url, "out"]).await.ends(6).says("hint: check the credentials: --header");
        assert_eq!((bed.server.requests(), bed.names().len()), (1, 0), "asked once");
        assert_eq!(
            bed.run(&["stat", "--json", &url]).await.ends(6).json()["error"]["kind"],
            "no_access"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked() {
    for tls in [Tls::Untrusted, Tls::OtherName, Tls::Expired] {
        let bed = Bed::new(ServerOptions { tls: Some(tls), ..ServerOptions::default() }).await;
        bed.put("/f/blob", 10);
        std::fs::write(bed.path("ca.pem"), bed.server.ca_pem().unwrap()).unwrap();
        let url = bed.server.url("/f/blob");
        let ran = bed.run(&["cp", "--ca-cert", "ca.pem", &url, "out"]).await;
        ran.ends(1).says("certificate is not trusted").says("hint: pass --ca-cert FILE");
    }
    let options = ServerOptions { tls: Some(Tls::Trusted), ..ServerOptions::default() };
    let bed = Bed::new(options).await;
    bed.put("/f/blob", 10);
    let url = bed.server.url("/f/blob");
    bed.run(&["cp", &url, "out"]).await.ends(1).says("certificate is not trusted");
    std::fs::write(bed.path("ca.pem"), bed.server.ca_pem().unwrap()).unwrap();
    bed.run(&["cp", "--ca-cert", "ca.pem", &url, "out"]).await.ends(0);
    std::fs::write(bed.path("bad.pem"), "none").unwrap();
    for file in ["bad.pem", "missing.pem"] {
        bed.run(&["cp", "--ca-cert", file, &url, "out"]).await.ends(2).says(file).says("PEM");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_do_not_speak_tls() {
    let bed = Bed::http().await;
    let url = bed.server.url("/f/blob").replace("http://", "https://");
    let ran = bed.run(&["stat", "--retries", "2", &url]).await;
    ran.ends(1).says("does not speak TLS").says("hint: use http://");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_a_listener() {
    let bed = Bed::http().await;
    let port = RefusedPort::bind().unwrap();
    let url = format!("http://{}/blob", port.address().unwrap());
    for command in [&["cp", &url, "out"][..], &["stat", &url]] {
        let ran = bed.run(&[command, &["--retries", "2"]].concat()).await;
        let gave_up = "gave up after 2 attempts: the connection was refused\n";
        ran.ends(7).says(gave_up).says("hint: check the host and the port");
        assert_eq!(ran.stderr.matches(&url).count(), 1, "{}", ran.stderr);
        assert!(!ran.stderr.contains("goes on where"), "{}", ran.stderr);
    }
    assert_eq!(bed.names(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_does_not_resolve() {
    let bed = Bed::http().await;
    let ran = bed.run(&["cp", "--retries", "1", "http://does-not-exist.invalid/x", "out"]).await;
    // Without any resolver the system reports a transient failure, which the command retries.
    assert!(matches!(ran.code, Some(1 | 7)), "{ran:?}");
    ran.says("resolve").says("does-not-exist.invalid").says("hint: ");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_blob_is_an_empty_file() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3] {
        let bed = Bed::new(ServerOptions::of(flavour)).await;
        bed.put("/bucket/empty", 0);
        let endpoint = bed.server.endpoint();
        let source = match flavour {
            Flavour::Gcs => "gs://bucket/empty".to_owned(),
            Flavour::S3 => "s3://bucket/empty".to_owned(),
            _ => bed.server.url("/bucket/empty"),
        };
        let remote = ["--anonymous", "--endpoint", &endpoint];
        bed.run(&[&["cp", &source, "out"][..], &remote].concat())
            .await
            .ends(0)
            .says("out  0 B in ");
        assert_eq!((bed.read("out"), bed.names().len()), (Vec::new(), 1));
        let ran = bed.run(&[&["cat", &source][..], &remote].concat()).await;
        assert!(ran.ends(0).stdout.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_ranges_gives_one_stream() {
    let options = ServerOptions { ranges: false, ..ServerOptions::default() };
    let bed = Bed::new(options).await;
    let bytes = bed.put("/f/blob", 1_000_000);
    let ran = bed.run(&["cp", "--shard-size", SHARD, &bed.server.url("/f/blob"), "out"]).await;
    ran.ends(0).says("note: the server ignores ranges: fetched as one stream");
    assert!(bed.read("out") == bytes);
    assert_eq!(bed.server.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lies_about_the_length() {
    for delta in [1000, -1000] {
        for args in [&["cp", "out"][..], &["cp", "--window", "1", "out"], &["cat"]] {
            let bed = Bed::gcs().await;
            bed.put("/bucket/blob", 500_000);
            bed.server.script().always(Fault::LieAboutLength(delta));
            let shards = ["--shard-size", SHARD, "--retries", "2"];
            let (command, target) = args.split_first().unwrap();
            let args = [&[*command, "gs://bucket/blob"][..], target, &shards].concat();
            let ran = bed.gcs_run(&args).await;
            assert!(matches!(ran.code, Some(5 | 7)), "{delta} {args:?}: {ran:?}");
            ran.says("error: ").says("hint: ");
            assert!(!bed.path("out").exists(), "nothing wrong gets the name");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_for_retries_stalls_and_time_end_a_command() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", 1000);
    bed.server.script().always(Fault::status(503));
    let args = ["cp", "--json", "--retries", "3", "gs://bucket/blob", "out"];
    let error = bed.gcs_run(&args).await.ends(7).json()["error"].clone();
    assert_eq!((&error["kind"], &error["attempts"]), (&"retries_exhausted".into(), &3.into()));
    assert_eq!(bed.server.requests(), 3);
    bed.server.script().clear();
    bed.server.script().always(Fault::Stall(0));
    let args = ["cat", "--stall", "0.05", "--retries", "2", "gs://bucket/blob"];
    bed.gcs_run(&args)
        .await
        .ends(7)
        .says("timed out after 0.05 s")
        .says("starts from the beginning");
    let args = ["cat", "--deadline", "0.2", "gs://bucket/blob"];
    bed.gcs_run(&args).await.ends(7).says("hint: ");
    bed.server.script().clear();
    bed.server.script().push(Rule::new(Fault::status_retry_after(429, "0")).times(2));
    bed.gcs_run(&["cat", "-v", "gs://bucket/blob"]).await.ends(0).says("2 restarts");
}
