//! `mb` and `rb`.

use tidegate_testkit::{Blob, Fault, Flavour, Rule, Server, ServerOptions};

use crate::bed::{Bed, Ran, command, finish};

/// A service, the URL of a bucket in it, and the bucket's path.
const SERVICES: [(Flavour, &str, &str); 3] = [
    (Flavour::S3, "s3://models", "/models"),
    (Flavour::Gcs, "gs://models", "/models"),
    (Flavour::Azure, "az://models", "/account/models"),
];

async fn run(bed: &Bed, flavour: Flavour, args: &[&str]) -> Ran {
    let mut endpoint = bed.server.endpoint();
    if flavour == Flavour::Azure {
        endpoint.push_str("/account");
    }
    let mut command = command(bed.folder.path());
    command.args(args).args(["--anonymous", "--endpoint", &endpoint]);
    command.env("GOOGLE_CLOUD_PROJECT", "project");
    finish(command).await
}

async fn bed(flavour: Flavour) -> Bed {
    Bed::new(ServerOptions::of(flavour)).await
}

fn has_bucket(server: &Server, path: &str) -> bool {
    server.has_bucket(path)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_made_once_and_removed_once() {
    for (flavour, url, path) in SERVICES {
        let bed = bed(flavour).await;
        run(&bed, flavour, &["mb", url]).await.ends(0).says(&format!("made {url}\n"));
        assert!(has_bucket(&bed.server, path), "{url}");
        let again = run(&bed, flavour, &["mb", &format!("{url}/")]).await;
        again.ends(0).says(&format!("{url} is there already, and is yours"));
        let json = run(&bed, flavour, &["mb", "--json", url]).await.ends(0).json();
        assert_eq!(json, serde_json::json!({ "bucket": url, "is_new": false }));
        run(&bed, flavour, &["rb", url]).await.ends(0).says(&format!("removed {url}\n"));
        assert!(!has_bucket(&bed.server, path), "{url}");
        run(&bed, flavour, &["rb", url]).await.ends(3).says("there is no such");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_not_empty_is_not_removed() {
    for (flavour, url, path) in SERVICES {
        let bed = bed(flavour).await;
        bed.server.put(&format!("{path}/key"), Blob::new("content"));
        let ran = run(&bed, flavour, &["rb", url]).await;
        ran.ends(1).says("is not empty").says("there is no recursive delete here");
        assert!(bed.server.object(&format!("{path}/key")).is_some(), "{url}");
        let json = run(&bed, flavour, &["rb", "--json", url]).await.ends(1).json();
        assert_eq!(json["error"]["kind"], "not_empty");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_region_is_named_where_the_service_takes_one() {
    let s3 = bed(Flavour::S3).await;
    run(&s3, Flavour::S3, &["mb", "--region", "eu-west-1", "s3://west"]).await.ends(0);
    assert_eq!(s3.server.region_of_bucket("/west").as_deref(), Some("eu-west-1"));
    run(&s3, Flavour::S3, &["mb", "s3://first"]).await.ends(0);
    assert_eq!(s3.server.region_of_bucket("/first"), None, "us-east-1 is not named");
    let again = run(&s3, Flavour::S3, &["mb", "--region", "eu-west-1", "s3://west"]).await;
    again.ends(0).says("is yours");
    let gcs = bed(Flavour::Gcs).await;
    run(&gcs, Flavour::Gcs, &["mb", "--region", "EU", "gs://west"]).await.ends(0);
    assert_eq!(gcs.server.region_of_bucket("/west").as_deref(), Some("EU"));
    let azure = bed(Flavour::Azure).await;
    let ran = run(&azure, Flavour::Azure, &["mb", "--region", "EU", "az://west"]).await;
    ran.ends(2).says("takes no region");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_of_another_account_is_an_error() {
    let s3 = bed(Flavour::S3).await;
    let refused = Fault::Coded { status: 409, code: "BucketAlreadyExists" };
    s3.server.script().push(Rule::new(refused).method("PUT"));
    let ran = run(&s3, Flavour::S3, &["mb", "--json", "s3://models"]).await;
    assert_eq!(ran.ends(1).json()["error"]["kind"], "already_exists");
    let gcs = bed(Flavour::Gcs).await;
    // It has a blob, and no list of the project has it.
    gcs.server.put("/models/key", Blob::new("content"));
    let ran = run(&gcs, Flavour::Gcs, &["mb", "gs://models"]).await;
    ran.ends(1).says("another project has a bucket of this name");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_is_needed_for_google_alone() {
    let gcs = bed(Flavour::Gcs).await;
    let ran = gcs.gcs_run(&["mb", "gs://models"]).await;
    ran.ends(2).says("--project PROJECT, or set GOOGLE_CLOUD_PROJECT");
    gcs.gcs_run(&["mb", "--project", "mine", "gs://models"]).await.ends(0);
    let sent = gcs.server.log();
    assert!(sent.iter().any(|sent| sent.path_and_query.contains("project=mine")));
    let ran = gcs.gcs_run(&["mb", "--project", "mine", "s3://models"]).await;
    ran.ends(2).says("it is for gs://");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_responses_are_no_failures() {
    for (flavour, url, path) in SERVICES {
        let bed = bed(flavour).await;
        let method = if flavour == Flavour::Gcs { "POST" } else { "PUT" };
        bed.server.script().push(Rule::new(Fault::LoseResponse).method(method));
        run(&bed, flavour, &["mb", url]).await.ends(0);
        assert!(has_bucket(&bed.server, path), "{url}");
        bed.server.script().push(Rule::new(Fault::LoseResponse).method("DELETE"));
        run(&bed, flavour, &["rb", url]).await.ends(0);
        assert!(!has_bucket(&bed.server, path), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_bucket_is_wrong_usage() {
    let bed = Bed::http().await;
    for command in ["mb", "rb"] {
        for name in ["models", "file:///models", "https://h/models", "s3://", "s3://models/key"] {
            bed.run(&[command, "--anonymous", name]).await.ends(2);
        }
        let ran = bed.run(&[command, "--anonymous", "s3://models/key"]).await;
        ran.says("name the bucket alone");
        bed.run(&[command, "models"]).await.says("mkdir and rmdir");
    }
}
