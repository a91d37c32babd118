//! Blobs in an archive: the error says how to restore them, and `stat` shows their class.

use tidegate_testkit::{Blob, Flavour, ServerOptions};

use crate::bed::{Bed, Ran};

async fn bed(flavour: Flavour, path: &str, blob: Blob) -> Bed {
    let bed = Bed::new(ServerOptions::of(flavour)).await;
    bed.server.put(path, blob);
    bed
}

async fn run(bed: &Bed, args: &[&str]) -> Ran {
    let azure = args.iter().any(|arg| arg.starts_with("az://"));
    let endpoint = format!("{}{}", bed.server.endpoint(), if azure { "/account" } else { "" });
    bed.run(&[args, &["--anonymous", "--endpoint", &endpoint]].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_object_of_s3_is_not_fetched_and_the_restore_is_named() {
    let blob = Blob::new("content").with_archive("DEEP_ARCHIVE");
    let bed = bed(Flavour::S3, "/bucket/a b", blob).await;
    let ran = run(&bed, &["cp", "s3://bucket/a b", "out"]).await;
    ran.ends(1).says("it is in the storage class DEEP_ARCHIVE, and must be restored first");
    ran.says("restore-object --bucket bucket --key 'a b' --restore-request Days=7");
    let reads = bed.server.log().iter().filter(|sent| sent.method == "GET").count();
    assert_eq!(reads, 1, "it is not retried");
    assert_eq!(bed.names(), Vec::<String>::new());
    let json = run(&bed, &["cat", "--json", "s3://bucket/a b"]).await.ends(1).stderr.clone();
    assert!(json.contains("\"kind\":\"archived\""), "{json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_an_archived_blob_names_the_source() {
    let blob = Blob::new("content").with_archive("GLACIER");
    let s3 = bed(Flavour::S3, "/bucket/old", blob).await;
    let ran = run(&s3, &["cp", "s3://bucket/old", "s3://bucket/new"]).await;
    ran.ends(1).says("s3://bucket/old").says("GLACIER").says("--key old");
    let puts = s3.server.log().iter().filter(|sent| sent.method == "PUT").count();
    assert_eq!(puts, 1, "it is not retried");
    let blob = Blob::new("content").with_archive("Archive");
    let azure = bed(Flavour::Azure, "/account/container/old", blob).await;
    let ran = run(&azure, &["cp", "az://container/old", "az://container/new"]).await;
    ran.ends(1).says("az://container/old").says("--name old");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_blob_of_azure_is_not_fetched_and_the_tier_is_named() {
    let blob = Blob::new("content").with_archive("Archive");
    let bed = bed(Flavour::Azure, "/account/container/k", blob).await;
    let ran = run(&bed, &["cp", "az://container/k", "out"]).await;
    ran.ends(1).says("it is in the access tier Archive, and must be rehydrated first");
    ran.says("az storage blob set-tier --container-name container --name k --tier Hot");
    let reads = bed.server.log().iter().filter(|sent| sent.method == "GET").count();
    assert_eq!(reads, 1, "it is not retried");
}

#[tokio::test(flavor = "multi_thread")]
async fn stat_shows_the_class_and_the_restore() {
    let blob = Blob::new("content").with_archive("GLACIER");
    let s3 = bed(Flavour::S3, "/bucket/cold", blob.clone()).await;
    let out = run(&s3, &["stat", "s3://bucket/cold"]).await.ends(0).out();
    assert!(out.contains("class     GLACIER\n") && !out.contains("restore"), "{out}");
    let restored = "ongoing-request=\"false\", expiry-date=\"Fri, 27 Nov 2026 00:00:00 GMT\"";
    for (state, shown) in [
        ("ongoing-request=\"true\"", "restore   in progress\n"),
        (restored, "restore   restored until Fri, 27 Nov 2026 00:00:00 GMT\n"),
    ] {
        s3.server.put("/bucket/cold", blob.clone().with_field("x-amz-restore", state));
        let out = run(&s3, &["stat", "s3://bucket/cold"]).await.ends(0).out();
        assert!(out.contains(shown), "{out}");
        let json = run(&s3, &["stat", "--json", "s3://bucket/cold"]).await.ends(0).json();
        assert_eq!((&json["storage_class"], &json["restore"]), (&"GLACIER".into(), &state.into()));
    }
    let blob = Blob::new("content").with_archive("Archive");
    let blob = blob.with_field("x-ms-archive-status", "rehydrate-pending-to-hot");
    let azure = bed(Flavour::Azure, "/account/container/k", blob).await;
    let out = run(&azure, &["stat", "az://container/k"]).await.ends(0).out();
    assert!(out.contains("class     Archive\nrestore   rehydrate-pending-to-hot\n"), "{out}");
}
