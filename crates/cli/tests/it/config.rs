//! The configuration file: settings by the prefixes of URLs.

use std::os::unix::fs::PermissionsExt;

use tidegate_testkit::{Fault, Flavour, Rule, Server, ServerOptions};
use tokio::process::Command;

use crate::bed::{Bed, Ran, SHARD, command, finish};

/// Writes the configuration where the command looks for it.
fn configure(bed: &Bed, text: &str) {
    let folder = bed.path(".config/tidegate");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn tidegate(bed: &Bed, args: &[&str]) -> Command {
    let mut command = command(bed.folder.path());
    command.args(args);
    command
}

/// The row of a setting in `config show --json`.
fn row(ran: &Ran, name: &str) -> Option<serde_json::Value> {
    let rows = ran.ends(0).json()["settings"].as_array().unwrap().clone();
    rows.into_iter().find(|row| row["name"] == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_is_sent_under_its_prefix_only() {
    let bed = Bed::http().await;
    let bytes = bed.put("/private/blob", 100);
    bed.put("/public/blob", 100);
    std::fs::write(bed.path("token"), "file-s3cret\n").unwrap();
    configure(
        &bed,
        &format!(
            "[url.\"{}\".headers]\nX-Token = {{ env = \"TOKEN\", prefix = \"Key \" }}\n\
             X-File = {{ file = \"{}\" }}\n",
            bed.server.url("/private"),
            bed.arg("token"),
        ),
    );
    let url = bed.server.url("/private/blob");
    let mut command = tidegate(&bed, &["cp", "-v", &url, "out"]);
    let ran = finish({
        command.env("TOKEN", "s3cret");
        command
    })
    .await;
    assert!(!ran.ends(0).stderr.contains("s3cret"), "{}", ran.stderr);
    assert!(bed.read("out") == bytes);
    for logged in bed.server.log() {
        assert_eq!(logged.header("x-token"), Some("Key s3cret"));
        assert_eq!(logged.header("x-file"), Some("file-s3cret"));
    }
    let before = bed.server.log().len();
    bed.run(&["cp", &bed.server.url("/public/blob"), "public"]).await.ends(0);
    assert!(bed.server.log()[before..].iter().all(|logged| logged.header("x-token").is_none()));
    // The variable is needed only where the header is.
    bed.run(&["cp", &url, "again"]).await.ends(2).says("TOKEN is not set");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_does_not_follow_a_redirect_to_another_host() {
    let bed = Bed::http().await;
    let other = Server::start(ServerOptions::default()).await.unwrap();
    let bytes = bed.put("/blob", 100);
    other.put("/blob", tidegate_testkit::Blob::new(bytes.clone()));
    let to = Fault::TemporaryRedirect(other.url("/blob"));
    bed.server.script().push(Rule::new(to).always());
    let url = bed.server.url("/blob");
    configure(&bed, &format!("[url.\"{url}\".headers]\nAuthorization = \"s3cret\"\n"));
    bed.run(&["cp", &url, "out"]).await.ends(0);
    assert!(bed.read("out") == bytes);
    assert!(bed.server.log().iter().all(|l| l.header("authorization") == Some("s3cret")));
    assert!(!other.log().is_empty());
    assert!(other.log().iter().all(|logged| logged.header("authorization").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_of_one_command_have_their_own_settings() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3)).await;
    let gcs = Bed::gcs().await;
    let (one, two) = (bed.put("/one/a", 300_000), gcs.put("/two/b", 300_000));
    let third = bed.put("/three/c", 100);
    let process = "printf '{\"Version\":1,\"AccessKeyId\":\"ID-x\",\"SecretAccessKey\":\"s\"}'";
    std::fs::write(bed.path("keys.sh"), process).unwrap();
    configure(
        &bed,
        &format!(
            "[defaults]\nshard-size = \"{SHARD}\"\n\
             [url.\"s3://\"]\nendpoint = \"{s3}\"\nregion = \"eu-test-7\"\n\
             credential-process = \"sh {keys}\"\n\
             [url.\"s3://three\"]\nanonymous = true\n\
             [url.\"gs://two\"]\nendpoint = \"{gcs}\"\nanonymous = true\nwindow = 1\n",
            s3 = bed.server.endpoint(),
            keys = bed.arg("keys.sh"),
            gcs = gcs.server.endpoint(),
        ),
    );
    std::fs::create_dir(bed.path("to")).unwrap();
    bed.run(&["cp", "s3://one/a", "gs://two/b", "s3://three/c", "to"]).await.ends(0);
    assert!(bed.read("to/a") == one && bed.read("to/b") == two && bed.read("to/c") == third);
    for logged in bed.server.log() {
        let signature = logged.header("authorization");
        if logged.path_and_query.starts_with("/three") {
            assert_eq!(signature, None);
        } else {
            let signature = signature.unwrap();
            assert!(signature.contains("Credential=ID-x/"), "{signature}");
            assert!(signature.contains("/eu-test-7/s3/"), "{signature}");
        }
    }
    let gets = gcs.server.log().iter().filter(|logged| logged.method == "GET").count();
    assert_eq!(gets, 1, "one shard in flight is one request for the whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_change_a_remote_have_its_settings() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3)).await;
    let endpoint = bed.server.endpoint();
    configure(&bed, &format!("[url.\"s3://\"]\nendpoint = \"{endpoint}\"\nanonymous = true\n"));
    std::fs::write(bed.path("file"), "content").unwrap();
    for args in [
        &["mb", "s3://bucket"][..],
        &["mv", "file", "s3://bucket/file"],
        &["uploads", "list", "s3://bucket"],
        &["uploads", "abort", "s3://bucket"],
        &["rm", "s3://bucket/file"],
        &["rb", "s3://bucket"],
    ] {
        bed.run(args).await.ends(0);
    }
    let ran = bed.run(&["presign", "s3://bucket/file"]).await;
    ran.ends(6).says("requests here are anonymous");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_and_a_variable_have_priority() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3)).await;
    let bytes = bed.put("/bucket/blob", 100);
    let dead = "http://127.0.0.1:1";
    configure(
        &bed,
        &format!(
            "[defaults]\nretries = 1\n[url.\"s3://bucket\"]\nendpoint = \"{dead}\"\n\
             anonymous = true\n"
        ),
    );
    let endpoint = bed.server.endpoint();
    let args = ["cp", "s3://bucket/blob", "out"];
    bed.run(&args).await.ends(7);
    bed.run(&[&args[..], &["--endpoint", &endpoint]].concat()).await.ends(0);
    assert!(bed.read("out") == bytes);
    let mut by_variable = tidegate(&bed, &["cp", "s3://bucket/blob", "two"]);
    by_variable.env("AWS_ENDPOINT_URL", &endpoint);
    finish(by_variable).await.ends(0);
    // Without the file there is no endpoint, and then no reason to look at the bucket's name.
    let ran = bed.run(&["config", "show", "--no-config", "--json", "s3://bucket/blob"]).await;
    assert_eq!(row(&ran, "endpoint"), None);
    assert_eq!(row(&ran, "retries").unwrap()["origin"], "built_in");
}

#[tokio::test(flavor = "multi_thread")]
async fn show_names_each_origin() {
    let bed = Bed::http().await;
    configure(
        &bed,
        "[defaults]\nstall = \"1m\"\nmemory = \"64M\"\n[url.\"https://h\"]\nretries = 3\n\
         proxy = \"http://me:s3cret@proxy:3128\"\n[url.\"https://h/p\".headers]\nX-Token = \"s3cret\"\n\
         [url.\"s3://b\"]\nprofile = \"work\"\n",
    );
    let file = bed.arg(".config/tidegate/config.toml");
    let show = ["config", "show", "https://u:s3cret@h/p/x?sig=s3cret", "--deadline", "5m"];
    let ran = bed.run(&[&show[..], &["--json", "--header", "Cookie: s3cret"]].concat()).await;
    assert!(!ran.ends(0).out().contains("s3cret"), "{}", ran.out());
    assert_eq!(ran.json()["file"], file.as_str());
    assert_eq!(ran.json()["url"], "https://h/p/x");
    let origin = |name: &str| {
        let row = row(&ran, name).unwrap();
        let text = |key: &str| row[key].as_str().unwrap_or("-").replace(&file, "FILE");
        [text("value"), text("origin"), text("source"), text("prefix")].join(" ")
    };
    assert_eq!(origin("deadline"), "5m flag --deadline -");
    assert_eq!(origin("stall"), "1m file FILE:2 -");
    assert_eq!(origin("memory"), "64M file FILE:3 -");
    assert_eq!(origin("retries"), "3 file FILE:5 https://h");
    assert_eq!(origin("connect-timeout"), "10 built_in - -");
    assert_eq!(origin("proxy"), "http://proxy:3128 file FILE:6 https://h");
    assert_eq!(origin("header cookie"), "(set) flag --header -");
    assert_eq!(origin("header x-token"), "(set) file FILE:8 https://h/p");
    let mut by_variable = tidegate(&bed, &["config", "show", "s3://b/k"]);
    by_variable.env("AWS_ACCESS_KEY_ID", "s3cret").env("AWS_REGION", "eu-1");
    let text = finish(by_variable).await.ends(0).out();
    assert!(text.contains("variable AWS_ACCESS_KEY_ID") && !text.contains("s3cret"), "{text}");
    assert!(text.contains("eu-1") && text.contains("variable AWS_REGION"), "{text}");
    let text = bed.run(&["config", "show", "s3://b/k"]).await.ends(0).out();
    assert!(text.contains(&format!("{file}:10 [url.\"s3://b\"]")), "{text}");
    bed.run(&["config", "show", "a/file"]).await.ends(2).says("not the URL of a server");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_is_an_error_with_its_line() {
    let bed = Bed::http().await;
    bed.put("/blob", 10);
    let url = bed.server.url("/blob");
    for (text, line, part) in [
        ("[defaults]\nretries = = 1\n", 2, "config.toml:2"),
        ("[defaults]\n\nretires = 3\n", 3, "unknown setting retires"),
        ("[url.\"http://h\"]\nlimit-rate = \"1M\"\n", 2, "for the whole command"),
    ] {
        configure(&bed, text);
        let ran = bed.run(&["cp", &url, "out"]).await;
        ran.ends(2).says(part).says(&format!("config.toml:{line}: "));
        let ran = bed.run(&["cat", "--json", &url]).await;
        assert!(ran.ends(2).stdout.is_empty(), "{}", ran.out());
        bed.run(&["cp", "--no-config", &url, "out"]).await.ends(0);
    }
    bed.run(&["cp", "--config", "gone", &url, "out"]).await.ends(2).says("cannot be read");
    let mut by_variable = tidegate(&bed, &["cp", &url, "out"]);
    by_variable.env("TIDEGATE_CONFIG", "gone");
    finish(by_variable).await.ends(2).says("gone");
    std::fs::write(bed.path("mine.toml"), "[defaults]\nretries = 1\n").unwrap();
    let ran = bed.run(&["config", "show", "--json", "--config", "mine.toml", &url]).await;
    assert_eq!(row(&ran, "retries").unwrap()["value"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_others_can_read_is_a_warning() {
    let bed = Bed::http().await;
    bed.put("/blob", 10);
    let url = bed.server.url("/blob");
    configure(&bed, &format!("[url.\"{url}\".headers]\nX-Api-Key = \"s3cret\"\n"));
    let file = bed.path(".config/tidegate/config.toml");
    let ran = bed.run(&["cp", &url, "out"]).await;
    assert!(!ran.ends(0).stderr.contains("warning"), "{}", ran.stderr);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = bed.run(&["cp", &url, "out"]).await;
    ran.ends(0).says("warning: ").says("other users can read the header x-api-key");
    assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
}
