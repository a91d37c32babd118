//! `cp`, `mv`, `rm` and `uploads` with a bucket as the target.

use tidegate_testkit::{Blob, Fault, Flavour, Rule, ServerOptions, pseudo_random};

use crate::bed::{Bed, Ran, finish, shell};

/// The shortest part of S3.
pub(crate) const PART: usize = 5 << 20;

/// A bucket of S3.
pub(crate) async fn bucket() -> Bed {
    Bed::new(ServerOptions::of(Flavour::S3)).await
}

/// `tidegate ARGS` against this server as S3.
pub(crate) async fn run(bed: &Bed, args: &[&str]) -> Ran {
    let endpoint = bed.server.endpoint();
    bed.run(&[args, &["--anonymous", "--endpoint", &endpoint]].concat()).await
}

fn write(bed: &Bed, name: &str, len: usize) -> Vec<u8> {
    let bytes = pseudo_random(len, 5).to_vec();
    std::fs::write(bed.path(name), &bytes).unwrap();
    bytes
}

fn stored(bed: &Bed, path: &str) -> Vec<u8> {
    bed.server.object(path).expect("it is stored").bytes.unwrap().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_stored_verified_and_described() {
    let bed = bucket().await;
    let bytes = write(&bed, "a.json", 1000);
    let ran = run(&bed, &["cp", "a.json", "s3://bucket/x/a.json"]).await;
    ran.ends(0).says("  verified crc64nvme");
    assert_eq!(stored(&bed, "/bucket/x/a.json"), bytes);
    let object = bed.server.object("/bucket/x/a.json").unwrap();
    assert_eq!(object.content_type, "application/json");
    let flags =
        ["--content-type", "text/x-own", "--metadata", "owner=me", "--cache-control", "no-store"];
    run(&bed, &[&["cp", "a.json", "s3://bucket/b"][..], &flags].concat()).await.ends(0);
    let object = bed.server.object("/bucket/b").unwrap();
    assert_eq!(object.content_type, "text/x-own");
    assert_eq!(object.metadata("owner"), Some("me"));
    let is_kept = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("cache-control") && value == "no-store"
    };
    assert!(object.fields.iter().any(is_kept), "{:?}", object.fields);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_goes_in_parts_and_the_json_says_so() {
    let bed = bucket().await;
    let bytes = write(&bed, "long", 2 * PART + 9);
    let ran = run(&bed, &["cp", "--json", "--part-size", "5MiB", "long", "s3://bucket/"]).await;
    let json = ran.ends(0).json();
    assert_eq!(json["target"], "s3://bucket/long");
    assert_eq!(json["bytes"], 2 * PART + 9);
    assert_eq!(json["verified"], serde_json::json!(["crc64nvme"]));
    assert_eq!(stored(&bed, "/bucket/long"), bytes);
    assert_eq!(bed.server.parts_received().len(), 3);
    assert!(bed.server.unfinished_uploads().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_of_any_length_is_stored() {
    for len in [0, 9, 2 * PART + 9] {
        let bed = bucket().await;
        let bytes = write(&bed, "in", len);
        let script =
            "cat in | \"$0\" cp --part-size 5MiB - s3://bucket/out --anonymous --endpoint \"$1\"";
        let ran = finish(shell(bed.folder.path(), script, &[&bed.server.endpoint()])).await;
        ran.ends(0);
        assert_eq!(stored(&bed, "/bucket/out"), bytes, "{len}");
    }
    let bed = bucket().await;
    let ran = run(&bed, &["cp", "-", "s3://bucket/folder/"]).await;
    ran.ends(2).says("it has no name to keep");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_files_keep_their_names_in_a_folder() {
    let bed = bucket().await;
    let (one, two) = (write(&bed, "one", 10), write(&bed, "two", 20));
    let ran = run(&bed, &["cp", "one", "two", "s3://bucket/f/"]).await;
    ran.ends(0).says("2 of 2 blobs");
    assert_eq!((stored(&bed, "/bucket/f/one"), stored(&bed, "/bucket/f/two")), (one, two));
    let ran = run(&bed, &["cp", "one", "two", "s3://bucket/f"]).await;
    ran.ends(2).says("end the target with a slash");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_not_replaced_against_the_callers_wish() {
    let bed = bucket().await;
    write(&bed, "new", 10);
    bed.server.put("/bucket/k", Blob::new("old"));
    let ran = run(&bed, &["cp", "--no-clobber", "new", "s3://bucket/k"]).await;
    ran.ends(1).says("a blob of that name is already there");
    let ran = run(&bed, &["cp", "--if-version", "0123", "new", "s3://bucket/k"]).await;
    ran.ends(4).says("the blob that was to be replaced");
    assert_eq!(stored(&bed, "/bucket/k"), b"old");
    let etag = bed.server.object("/bucket/k").unwrap().etag;
    run(&bed, &["cp", "--if-version", &etag, "new", "s3://bucket/k"]).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_copies_within_a_bucket() {
    let bed = bucket().await;
    bed.server.put("/bucket/a", Blob::new("content"));
    run(&bed, &["cp", "s3://bucket/a", "s3://bucket/b"]).await.ends(0);
    assert_eq!(stored(&bed, "/bucket/b"), b"content");
    assert!(bed.server.log().iter().all(|seen| seen.method != "GET"), "no byte came here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_deletes_what_was_copied() {
    let bed = bucket().await;
    write(&bed, "file", 10);
    run(&bed, &["mv", "file", "s3://bucket/file"]).await.ends(0);
    assert!(!bed.path("file").exists());
    run(&bed, &["mv", "s3://bucket/file", "s3://bucket/other"]).await.ends(0);
    assert!(bed.server.object("/bucket/file").is_none());
    run(&bed, &["mv", "s3://bucket/other", "back"]).await.ends(0);
    assert!(bed.server.object("/bucket/other").is_none());
    assert_eq!(bed.read("back"), pseudo_random(10, 5));
    // A copy that failed deletes nothing.
    let refused = Fault::Coded { status: 403, code: "AccessDenied" };
    bed.server.script().push(Rule::new(refused).method("PUT").always());
    run(&bed, &["mv", "back", "s3://bucket/back"]).await.ends(6);
    assert!(bed.path("back").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_deleted() {
    let bed = bucket().await;
    bed.server.put("/bucket/a", Blob::new("a"));
    run(&bed, &["rm", "s3://bucket/a", "s3://bucket/none"]).await.ends(0).says("deleted 2 blobs");
    assert!(bed.server.object("/bucket/a").is_none());
    run(&bed, &["rm", "file"]).await.ends(2).says("it is a local file");
    run(&bed, &["rm", "s3://bucket/folder/"]).await.ends(2).says("it is no blob");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_uploads_are_listed_and_ended() {
    let bed = bucket().await;
    write(&bed, "long", 2 * PART);
    let refused = Fault::Coded { status: 403, code: "AccessDenied" };
    bed.server.script().push(Rule::new(refused).query("partNumber=2").always());
    let args = ["cp", "--part-size", "5MiB", "long", "s3://bucket/a/long"];
    run(&bed, &args).await.ends(6).says("uploads abort --older-than 0 s3://bucket/a/long");
    let ran = run(&bed, &["uploads", "list", "s3://bucket"]).await;
    assert!(ran.ends(0).out().contains("s3://bucket/a/long"), "{}", ran.out());
    let ran = run(&bed, &["uploads", "list", "s3://bucket/b"]).await;
    assert_eq!(ran.ends(0).out(), "");
    let ran = run(&bed, &["uploads", "abort", "s3://bucket"]).await;
    ran.ends(0).says("left 1 that may be in use");
    let ran = run(&bed, &["uploads", "abort", "--older-than", "0", "s3://bucket/a/"]).await;
    ran.ends(0).says("aborted 1 unfinished upload");
    assert!(bed.server.unfinished_uploads().is_empty());
    run(&bed, &[&args[..], &["--on-failure", "abort"]].concat()).await.ends(6);
    assert!(bed.server.unfinished_uploads().is_empty());
}
