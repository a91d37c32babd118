//! One blob to one target.

use tidegate_testkit::{Blob, Checksums, Fault, Flavour, Rule, ServerOptions, pseudo_random};

use crate::bed::{Bed, SHARD};

const LEN: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_of_each_remote_becomes_a_file() {
    for (flavour, path, url, verified) in [
        (Flavour::Http, "/f/blob", None, None),
        (Flavour::Gcs, "/bucket/blob", Some("gs://bucket/blob"), Some("crc32c")),
        (Flavour::S3, "/bucket/blob", Some("s3://bucket/blob"), Some("crc64nvme")),
        (Flavour::Azure, "/devstoreaccount1/bucket/blob", Some("az://bucket/blob"), Some("md5")),
    ] {
        let bed = Bed::new(ServerOptions::of(flavour)).await;
        let bytes = bed.put(path, LEN);
        let source = url.map_or_else(|| bed.server.url(path), str::to_owned);
        let mut args = vec!["cp", "--shard-size", SHARD, "--anonymous", &source, "out"];
        let endpoint = match flavour {
            Flavour::Azure => format!("{}/devstoreaccount1", bed.server.endpoint()),
            _ => bed.server.endpoint(),
        };
        if url.is_some() {
            args.extend(["--endpoint", &endpoint]);
        }
        let ran = bed.run(&args).await;
        ran.ends(0).says("out  977 KiB in ");
        ran.says(verified.map_or("not verified: ", |_| "verified "));
        ran.says(verified.unwrap_or_default());
        assert!(ran.stdout.is_empty());
        assert!(bed.read("out") == bytes, "{flavour:?}: other content");
        assert_eq!(bed.names(), ["out"], "nothing else is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_folder_the_file_has_the_blobs_name() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/a b.bin", 10);
    std::fs::create_dir(bed.path("sub")).unwrap();
    let url = bed.server.url("/f/a b.bin");
    for target in ["sub", "sub/", "."] {
        bed.run(&["cp", &url, target]).await.ends(0);
    }
    assert_eq!((bed.read("sub/a b.bin"), bed.read("a b.bin")), (bytes.clone(), bytes));
    let root = bed.server.url("/");
    bed.run(&["cp", &root, "sub"]).await.ends(2).says("ends in no name").says("name the target");
    bed.run(&["cp", &url, "none/"]).await.ends(1).says("no such folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_has_its_fields() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let ran =
        bed.gcs_run(&["cp", "--json", "--shard-size", SHARD, "gs://bucket/blob", "out"]).await;
    let json = ran.ends(0).json();
    assert_eq!(ran.stderr, "");
    assert_eq!(json["source"], "gs://bucket/blob");
    assert_eq!(json["target"], "out");
    assert_eq!(json["bytes"], LEN);
    assert!(json["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(json["requests"].as_u64(), u64::try_from(bed.server.requests()).ok());
    assert_eq!((&json["restarts"], &json["resumed_bytes"]), (&0.into(), &0.into()));
    assert_eq!(json["version"], "generation 1");
    assert_eq!(json["checksums"]["crc32c"].as_str().unwrap().len(), 8);
    assert_eq!(json["verified"], serde_json::json!(["crc32c"]));
    assert!(json["unverified"].is_null());
    assert_eq!(json["notes"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_says_nothing() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 10);
    let ran = bed.run(&["cp", "-q", &bed.server.url("/f/blob"), "out"]).await;
    assert_eq!((ran.ends(0).out(), ran.stderr.as_str()), (String::new(), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_targets() {
    let bed = Bed::gcs().await;
    let bytes = bed.put("/bucket/blob", LEN);
    let shards = ["cp", "--shard-size", SHARD, "gs://bucket/blob"];
    let ran = bed.gcs_run(&[&shards[..], &["-"]].concat()).await;
    assert!(ran.ends(0).says("  verified crc32c").stdout == bytes);
    let ran = bed.gcs_run(&[&shards[..], &["-", "--json"]].concat()).await;
    assert!(ran.ends(0).stdout == bytes);
    assert_eq!(crate::bed::object(&ran.stderr)["target"], "-");
    bed.gcs_run(&[&shards[..], &["/dev/null"]].concat()).await.ends(0).says("  verified crc32c");
    let url = format!("file://{}", bed.arg("by-url"));
    bed.gcs_run(&[&shards[..], &[&url]].concat()).await.ends(0);
    assert_eq!(bed.names(), ["by-url"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_one_is_one_request() {
    let bed = Bed::http().await;
    bed.put("/f/blob", LEN);
    let url = bed.server.url("/f/blob");
    bed.run(&["cp", "--window", "1", "--shard-size", SHARD, &url, "out"]).await.ends(0);
    assert_eq!(bed.server.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_on_the_command_line_are_compared() {
    let bed = Bed::http().await;
    bed.server.put("/f/abc", Blob::new("abc"));
    let url = bed.server.url("/f/abc");
    let right = [
        ("--sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("--md5", "900150983CD24FB0D6963F7D28E17F72"),
        ("--blake3", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
    ];
    for (flag, value) in right {
        bed.run(&["cp", flag, value, &url, "out"]).await.ends(0).says("verified ").says(&flag[2..]);
    }
    std::fs::write(bed.path("out"), "old").unwrap();
    for (flag, value) in right {
        let wrong = format!("{}{}", if value.starts_with('0') { '1' } else { '0' }, &value[1..]);
        let ran = bed.run(&["cp", "--json", flag, &wrong, &url, "out"]).await;
        assert_eq!(ran.ends(5).json()["error"]["kind"], "integrity");
    }
    assert_eq!(bed.read("out"), b"old", "the target stays");
    assert_eq!(bed.names(), ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_checksum_at_the_remote_leaves_the_target_alone() {
    let bed = Bed::gcs().await;
    let blob = Blob::new(pseudo_random(LEN, 7)).with_checksums(Checksums::Wrong);
    bed.server.put("/bucket/blob", blob);
    std::fs::write(bed.path("out"), "old").unwrap();
    let ran = bed.gcs_run(&["cp", "gs://bucket/blob", "out"]).await;
    ran.ends(5).says("error: cannot verify gs://bucket/blob: expected crc32c:").says("hint: ");
    assert_eq!((bed.read("out"), bed.names()), (b"old".to_vec(), vec!["out".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_changes_is_not_mixed() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let other = Blob::new(pseudo_random(LEN, 8));
    bed.server.script().push(Rule::new(Fault::ChangedVersion(other)).nth(2));
    let ran =
        bed.gcs_run(&["cp", "--json", "--shard-size", SHARD, "gs://bucket/blob", "out"]).await;
    assert_eq!(ran.ends(4).json()["error"]["kind"], "changed");
    assert_eq!(bed.names(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_are_counted_and_shown() {
    let bed = Bed::gcs().await;
    let bytes = bed.put("/bucket/blob", LEN);
    bed.server.script().push(Rule::new(Fault::CutAfter(100_000)));
    let ran = bed.gcs_run(&["cp", "-v", "--window", "1", "gs://bucket/blob", "out"]).await;
    ran.ends(0).says("debug: restart").says("offset=100000").says("2 requests, 1 restart, ");
    assert!(bed.read("out") == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_stand_anywhere() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 10);
    let url = bed.server.url("/f/blob");
    for args in [
        ["cp", "-q", "--window", "1", &url, "out"],
        ["cp", &url, "--window", "1", "-q", "out"],
        ["-q", "cp", &url, "out", "--window", "1"],
    ] {
        bed.run(&args).await.ends(0);
        assert_eq!(bed.read("out"), bytes);
        std::fs::remove_file(bed.path("out")).unwrap();
    }
}
