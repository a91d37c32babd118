//! What the command sends with a request: headers, keys, the payer, and the version.

use tidegate_testkit::{Blob, Fault, Flavour, Payer, Rule, ServerOptions, pseudo_random};

use crate::bed::{Bed, Ran, SHARD, command, finish};

const KEY: [u8; 32] = *b"a key of thirty-two bytes, mine!";
const KEY_BASE64: &str = "YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgbWluZSE=";
const SECRETS: [&str; 4] = ["T0ken", "hunter2", KEY_BASE64, "thirty-two bytes"];

#[track_caller]
fn keeps_quiet(ran: &Ran) {
    for secret in SECRETS {
        assert!(!ran.out().contains(secret) && !ran.stderr.contains(secret), "{ran:?}");
    }
}

/// A server of one blob that is encrypted with [`KEY`], and files that hold the key.
async fn encrypted(flavour: Flavour) -> (Bed, Vec<u8>) {
    let bed = Bed::new(ServerOptions::of(flavour)).await;
    let bytes = pseudo_random(300_000, 7);
    let blob = Blob::new(bytes.clone()).with_customer_key(KEY);
    for path in ["/bucket/blob", "/account/bucket/blob"] {
        bed.server.put(path, blob.clone());
    }
    std::fs::write(bed.path("raw.key"), KEY).unwrap();
    std::fs::write(bed.path("base64.key"), format!("{KEY_BASE64}\n")).unwrap();
    std::fs::write(bed.path("other.key"), [7; 32]).unwrap();
    (bed, bytes.to_vec())
}

fn scheme(flavour: Flavour, bed: &Bed) -> (&'static str, String) {
    match flavour {
        Flavour::S3 => ("s3://bucket/blob", bed.server.endpoint()),
        Flavour::Azure => ("az://bucket/blob", format!("{}/account", bed.server.endpoint())),
        _ => ("gs://bucket/blob", bed.server.endpoint()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_arrive_as_they_are_given() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 300_000);
    std::fs::write(bed.path("lines"), "\r\nX-Third: From File\r\n\nAuthorization: Bearer T0ken\n")
        .unwrap();
    let url = bed.server.url("/f/blob");
    let ran = bed
        .run(
            &[
                "cp",
                "--header",
                "X-First: MiXeD: Case",
                "--header=x-second:2",
                "--header",
                "@lines",
            ]
            .iter()
            .chain(&["--shard-size", SHARD, &url, "out"])
            .copied()
            .collect::<Vec<_>>(),
        )
        .await;
    keeps_quiet(ran.ends(0));
    assert!(bed.read("out") == bytes);
    assert!(bed.server.requests() > 3);
    for logged in bed.server.log() {
        for (name, value) in [
            ("x-first", "MiXeD: Case"),
            ("x-second", "2"),
            ("x-third", "From File"),
            ("authorization", "Bearer T0ken"),
        ] {
            assert_eq!(logged.header(name), Some(value), "{name}");
        }
    }
}

/// S3 rejects its own headers unless they are signed.
#[tokio::test(flavor = "multi_thread")]
async fn the_signature_of_s3_covers_them() {
    let (bed, bytes) = encrypted(Flavour::S3).await;
    let mut run = command(bed.folder.path());
    let endpoint = bed.server.endpoint();
    run.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "hunter2");
    run.args(["cp", "-v", "s3://bucket/blob", "out", "--shard-size", SHARD]);
    run.args(["--endpoint", &endpoint, "--request-payer", "--header", "X-Amz-Meta-A: T0ken  b"]);
    run.args(["--customer-key-file", "raw.key"]);
    keeps_quiet(finish(run).await.ends(0));
    assert!(bed.read("out") == bytes);
    assert!(bed.server.log().iter().any(|logged| logged.method == "HEAD"));
    for logged in bed.server.log() {
        assert_eq!(logged.header("x-amz-meta-a"), Some("T0ken  b"));
        assert_eq!(logged.header("accept-encoding"), Some("identity"));
        let signature = logged.header("authorization").unwrap();
        let signed = signature.split("SignedHeaders=").nth(1).unwrap();
        let signed: Vec<_> = signed.split(',').next().unwrap().split(';').collect();
        for name in logged.headers.iter().map(|(name, _)| name.to_ascii_lowercase()) {
            assert!(!name.starts_with("x-amz-") || signed.contains(&name.as_str()), "{name}");
        }
        assert!(signed.contains(&"x-amz-server-side-encryption-customer-key"), "{signature}");
        assert!(signed.contains(&"x-amz-request-payer"), "{signature}");
        // A proxy may change this header, so it must not be signed.
        assert!(!signed.contains(&"accept-encoding"), "{signature}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customers_key_opens_its_blob() {
    for flavour in [Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        let (bed, bytes) = encrypted(flavour).await;
        let (source, endpoint) = scheme(flavour, &bed);
        let remote = ["--anonymous", "--endpoint", &endpoint];
        for file in ["raw.key", "base64.key"] {
            let key = ["--customer-key-file", file];
            let args = [&["cp", "-v", source, "out"][..], &remote, &key].concat();
            keeps_quiet(bed.run(&args).await.ends(0).says("verified"));
            assert!(bed.read("out") == bytes, "{flavour:?}");
            let ran = bed.run(&[&["cat", source][..], &remote, &key].concat()).await;
            assert!(ran.ends(0).stdout == bytes);
            let ran = bed.run(&[&["stat", "--json", source][..], &remote, &key].concat()).await;
            keeps_quiet(ran.ends(0));
            assert_eq!(ran.json()["bytes"], 300_000);
        }
        let ran = bed.run(&[&["cp", source, "new"][..], &remote].concat()).await;
        ran.ends(6).says("encrypted with a customer's key").says("hint: pass --customer-key-file");
        let other = ["-v", "--customer-key-file", "other.key"];
        let ran = bed.run(&[&["cp", source, "new"][..], &remote, &other].concat()).await;
        ran.ends(6).says("key");
        assert!(!bed.path("new").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requester_pays() {
    for (flavour, flags, code) in [
        (Flavour::Gcs, &["--user-project", "My-Project"][..], 6),
        (Flavour::S3, &["--request-payer"][..], 6),
    ] {
        let options = ServerOptions { payer: Payer::Requester, ..ServerOptions::of(flavour) };
        let bed = Bed::new(options).await;
        let bytes = bed.put("/bucket/blob", 1000);
        let (source, endpoint) = scheme(flavour, &bed);
        let args = ["cp", source, "out", "--anonymous", "--endpoint", &endpoint];
        bed.run(&args).await.ends(code).says(flags[0]);
        bed.run(&[&args, flags].concat()).await.ends(0);
        assert!(bed.read("out") == bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requested_version_is_downloaded_or_missing() {
    let ids = |blob: &Blob| (blob.version().to_string(), blob.version_id(), blob.etag());
    for flavour in [Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        let options = ServerOptions { versioning: true, ..ServerOptions::of(flavour) };
        let bed = Bed::new(options).await;
        let path = if flavour == Flavour::Azure { "/account/bucket/blob" } else { "/bucket/blob" };
        bed.put(path, 1000);
        let old = bed.server.blob(path).unwrap();
        let newer = pseudo_random(1000, 8).to_vec();
        bed.server.put(path, Blob::new(newer.clone()));
        let new = bed.server.blob(path).unwrap();
        let (source, endpoint) = scheme(flavour, &bed);
        let remote = ["--anonymous", "--endpoint", &endpoint];
        let ((old_generation, old_id, old_tag), (_, _, new_tag)) = (ids(&old), ids(&new));
        let kept = match flavour {
            Flavour::Gcs => ["--generation", &old_generation],
            _ => ["--version-id", &old_id],
        };
        let ran = bed.run(&[&["cat", source][..], &remote, &kept].concat()).await;
        assert!(ran.ends(0).stdout == pseudo_random(1000, 7));
        bed.run(&[&["stat", source][..], &remote, &kept].concat()).await.ends(0);
        let there = ["--if-match", &new_tag];
        bed.run(&[&["cp", source, "out"][..], &remote, &there].concat()).await.ends(0);
        assert!(bed.read("out") == newer);
        for gone in [["--if-match", &old_tag], ["--last-modified", "Tue, 14 Nov 2023 22:13:21 GMT"]]
        {
            for args in [&["cp", source, "out"][..], &["stat", source]] {
                let ran = bed.run(&[args, &remote, &gone].concat()).await;
                ran.ends(4).says("hint: ").says("tidegate stat");
            }
            assert!(bed.read("out") == newer);
        }
        let foreign = match flavour {
            Flavour::Gcs => ["--version-id", "v.1"],
            _ => ["--generation", "17"],
        };
        bed.run(&[&["stat", source][..], &remote, &foreign].concat())
            .await
            .ends(2)
            .says("knows no");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_header_options_are_usage_errors() {
    let bed = Bed::http().await;
    std::fs::write(bed.path("short.key"), "hunter2").unwrap();
    std::fs::write(bed.path("binary"), b"X-A: \xff").unwrap();
    let get = ["cat", "gs://bucket/blob", "--anonymous"];
    for (args, text) in [
        (&["--header", "T0ken hunter2"][..], "no colon"),
        (&["--header", "T0ken hunter2: x"], "its name"),
        (&["--header", "X-A: hunter2\u{e9}"], "visible ASCII"),
        (&["--header", "Range: hunter2"], "asks for ranges itself"),
        (&["--header", "if-match: hunter2"], "preconditions"),
        (&["--header", "HOST: hunter2"], "connection"),
        (&["--header", "@missing"], "missing: the headers cannot be read"),
        (&["--header", "@binary"], "headers are text"),
        (&["--customer-key-file", "missing"], "missing: the customer key cannot be read"),
        (&["--customer-key-file", "short.key"], "got 7 bytes"),
        (&["--customer-key-file", "/dev/zero"], "no customer key"),
        (&["--request-payer"], "it is for s3://"),
        (&["--generation", "abc"], "--generation"),
        (&["--generation", "1", "--version-id", "x"], "cannot be used with"),
        (&["--version-id", "x"], "knows no version id"),
        (&["--if-match", "W/\"abc\""], "strong entity tag"),
        (&["--last-modified", "yesterday"], "expected a date"),
        (&["X-Token: hunter2"], "unexpected argument"),
        (&["--endpoint", "http://storage.example", "--customer-key-file", "raw.key"], "TLS"),
    ] {
        std::fs::write(bed.path("raw.key"), KEY).unwrap();
        for json in [false, true] {
            let json = if json { &["--json"][..] } else { &[] };
            let ran = bed.run(&[&get, args, json].concat()).await;
            keeps_quiet(ran.ends(2));
            let said = format!("{} {}", ran.out(), ran.stderr).replace("\\\"", "\"");
            assert!(said.contains(text), "expected {text:?} in {said}");
        }
    }
    let url = bed.server.url("/f/blob");
    bed.run(&["cat", &url, "--user-project", "p"]).await.ends(2).says("it is for gs://");
    bed.run(&["stat", "raw.key", "--header", "X-A: b"]).await.ends(2).says("no URL here is one");
    let several = ["cp", &url, &url, ".", "--if-match", "abc"];
    bed.run(&several).await.ends(2).says("several sources");
    assert_eq!(bed.server.requests(), 0);
}

/// A key from the environment variables of the cloud's own tools is as secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_environment_is_not_sent_in_the_clear_either() {
    let bed = Bed::http().await;
    let endpoint = ["--anonymous", "--endpoint", "http://storage.example/account"];
    for (source, variables) in [
        (
            "s3://bucket/blob",
            &[("AWS_SSE_CUSTOMER_KEY_BASE64", KEY_BASE64), ("AWS_SERVER_SIDE_ENCRYPTION", "sse-c")]
                [..],
        ),
        ("az://bucket/blob", &[("AZURE_STORAGE_ENCRYPTION_KEY", KEY_BASE64)]),
    ] {
        let mut run = command(bed.folder.path());
        run.envs(variables.iter().copied()).args(["stat", source]).args(endpoint);
        let ran = finish(run).await;
        keeps_quiet(ran.ends(2).says("TLS"));
    }
}

/// No failure and no level of verbosity shows a secret.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_stay_secret() {
    let (bed, _) = encrypted(Flavour::Gcs).await;
    let echo = format!("<Error><Code>SignatureDoesNotMatch</Code>T0ken {KEY_BASE64}</Error>");
    let remote = ["--header", "X-Api-Key: T0ken", "--customer-key-file", "raw.key", "-v"];
    for fault in [
        Fault::Status { code: 403, retry_after: None, body: echo.clone() },
        Fault::Status { code: 503, retry_after: None, body: echo },
        Fault::CutAfter(1000),
        Fault::GarbageHead,
        Fault::Redirect("http://127.0.0.1:1/T0".to_owned()),
    ] {
        bed.server.script().clear();
        bed.server.script().push(Rule::new(fault).always());
        let get = ["gs://bucket/blob", "--retries", "2", "--window", "1"];
        for args in [&["stat"][..], &["cp", "out"], &["cat"], &["cp", "--json", "out"]] {
            let (command, target) = args.split_first().unwrap();
            let args = [&[*command][..], &get, target, &remote].concat();
            keeps_quiet(&bed.gcs_run(&args).await);
        }
        for name in bed.names().iter().filter(|name| !name.contains(".key")) {
            let left = std::fs::read(bed.path(name)).unwrap();
            let text = String::from_utf8_lossy(&left);
            assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "in {name}");
        }
    }
}
