//! `stat` and `rm` of one version of a blob.

use tidegate_testkit::{Blob, Flavour, ServerOptions};

use crate::bed::{Bed, Ran};

/// A blob with an older and a newer version, and the ids of both.
async fn bed(flavour: Flavour, path: &str) -> (Bed, [Blob; 2]) {
    let options = ServerOptions { versioning: true, ..ServerOptions::of(flavour) };
    let bed = Bed::new(options).await;
    bed.server.put(path, Blob::new("older"));
    let older = bed.server.blob(path).unwrap();
    bed.server.put(path, Blob::new("the newer"));
    let newer = bed.server.blob(path).unwrap();
    (bed, [older, newer])
}

async fn run(bed: &Bed, args: &[&str]) -> Ran {
    let azure = args.iter().any(|arg| arg.starts_with("az://"));
    let endpoint = format!("{}{}", bed.server.endpoint(), if azure { "/account" } else { "" });
    bed.run(&[args, &["--anonymous", "--endpoint", &endpoint]].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_id_selects_one_version() {
    for (flavour, url, path) in [
        (Flavour::S3, "s3://bucket/k", "/bucket/k"),
        (Flavour::Azure, "az://container/k", "/account/container/k"),
    ] {
        let (bed, [older, newer]) = bed(flavour, path).await;
        let id = older.version_id();
        let json = run(&bed, &["stat", "--json", "--version-id", &id, url]).await.ends(0).json();
        assert_eq!(json["bytes"], 5, "{url}");
        assert!(json["version"].as_str().unwrap().contains(&id), "{json}");
        run(&bed, &["rm", "--version-id", &id, url]).await.ends(0).says("deleted 1 blob");
        run(&bed, &["stat", "--version-id", &id, url]).await.ends(3);
        let left = bed.server.object(path).expect("the newer one is left");
        assert_eq!(left.bytes.unwrap().as_ref(), b"the newer");
        run(&bed, &["stat", "--version-id", &newer.version_id(), url]).await.ends(0);
        run(&bed, &["stat", "--version-id", "v.none", url]).await.ends(3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_selects_a_read_and_is_a_condition_of_a_delete() {
    let (bed, [older, newer]) = bed(Flavour::Gcs, "/bucket/k").await;
    let (old, new) = (older.version().to_string(), newer.version().to_string());
    let url = "gs://bucket/k";
    let json = run(&bed, &["stat", "--json", "--generation", &old, url]).await.ends(0).json();
    assert_eq!(
        (&json["bytes"], json["version"].as_str()),
        (&5.into(), Some(&*format!("generation {old}")))
    );
    run(&bed, &["rm", "--generation", &old, url]).await.ends(4).says("it has another version");
    assert!(bed.server.object("/bucket/k").is_some());
    run(&bed, &["rm", "--generation", &new, url]).await.ends(0);
    assert!(bed.server.object("/bucket/k").is_none());
    run(&bed, &["stat", "--generation", "99", url]).await.ends(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_another_kind_of_remote_is_wrong_usage() {
    let bed = Bed::http().await;
    bed.put("/k", 5);
    let web = bed.server.url("/k");
    for (flag, value, url) in [
        ("--version-id", "v", "gs://bucket/k"),
        ("--generation", "1", "s3://bucket/k"),
        ("--generation", "1", "az://container/k"),
        ("--version-id", "v", &*web),
        ("--generation", "1", &web),
    ] {
        for command in ["stat", "rm"] {
            let ran = run(&bed, &[command, flag, value, url]).await;
            ran.ends(2).says("knows no");
        }
    }
    let file = bed.arg("k");
    std::fs::write(&file, "content").unwrap();
    run(&bed, &["stat", "--version-id", "v", &file]).await.ends(2);
    assert!(bed.server.log().is_empty(), "nothing is asked");
}
