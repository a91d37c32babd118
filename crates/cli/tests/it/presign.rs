//! `presign`: URLs that allow one request, and credentials that cannot sign them.

use serde_json::json;
use tidegate_testkit::{Blob, Fault, Flavour, Rule, ServerOptions};

use crate::bed::{Bed, Ran, command, finish};

const AWS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "key-id"), ("AWS_SECRET_ACCESS_KEY", "hunter2")];
const AZURE_KEY: (&str, &str) = ("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==");

/// `tidegate presign ARGS` with these variables.
async fn presign(bed: &Bed, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = command(bed.folder.path());
    command.arg("presign").args(args).envs(variables.iter().copied());
    let ran = finish(command).await;
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    ran
}

async fn presign_s3(bed: &Bed, args: &[&str]) -> Ran {
    let endpoint = bed.server.endpoint();
    presign(bed, &AWS, &[args, &["--endpoint", &endpoint]].concat()).await
}

async fn s3() -> Bed {
    Bed::new(ServerOptions::of(Flavour::S3)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_url_is_the_only_output_and_fetches_the_blob() {
    let bed = s3().await;
    bed.server.put("/bucket/a b", Blob::new("content"));
    let ran = presign_s3(&bed, &["--debug", "s3://bucket/a b"]).await;
    let out = ran.ends(0).out();
    let url = out.trim_end();
    assert!(url.starts_with(&format!("{}/bucket/a%20b?", bed.server.endpoint())), "{url}");
    for part in ["X-Amz-Credential=key-id%2F", "X-Amz-Expires=3600", "X-Amz-Signature="] {
        assert!(url.contains(part), "{part} in {url}");
    }
    assert_eq!(out.lines().count(), 1);
    assert!(!ran.stderr.contains("X-Amz") && bed.server.log().is_empty(), "{}", ran.stderr);
    let fetched = bed.run(&["cp", "--debug", url, "file"]).await;
    assert!(!fetched.ends(0).stderr.contains("X-Amz"), "{}", fetched.stderr);
    assert_eq!(bed.read("file"), b"content");
    let asked = bed.server.log().iter().all(|sent| sent.path_and_query.contains("X-Amz-Signature"));
    assert!(asked, "every request has the signature");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_for_a_put_stores_a_blob_with_that_request_alone() {
    let bed = s3().await;
    std::fs::write(bed.path("file"), "content").unwrap();
    let args = ["--json", "--method", "put", "--expires", "7d", "s3://bucket/new"];
    let json = presign_s3(&bed, &args).await.ends(0).json();
    assert_eq!(json["method"], "PUT");
    let url = json["url"].as_str().unwrap();
    assert!(url.contains("X-Amz-Expires=604800"), "{url}");
    let expires = humantime::parse_rfc3339(json["expires_at"].as_str().unwrap()).unwrap();
    let days = expires.duration_since(std::time::SystemTime::now()).unwrap().as_secs() / 86_400;
    assert!((6..=7).contains(&days), "{json}");
    // The URL allows no other request.
    let denied = Fault::Coded { status: 403, code: "SignatureDoesNotMatch" };
    bed.server.script().push(Rule::new(denied).method("HEAD").always());
    bed.run(&["cp", "file", url]).await.ends(0).says("not verified");
    assert_eq!(bed.server.object("/bucket/new").unwrap().bytes.unwrap().as_ref(), b"content");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_the_service_does_not_allow_is_refused() {
    let bed = s3().await;
    let ran = presign_s3(&bed, &["--expires", "8d", "s3://bucket/k"]).await;
    ran.ends(2).says("at most 604800 seconds here, not 691200");
    assert_eq!(ran.out(), "");
    presign_s3(&bed, &["--expires", "500ms", "s3://bucket/k"]).await.ends(2).says("a second");
    presign_s3(&bed, &["--method", "patch", "s3://bucket/k"]).await.ends(2).says("possible values");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_signs_no_urls_is_wrong_usage() {
    let bed = Bed::http().await;
    for name in ["https://h/k", "file:///k", "k", "s3://bucket", "s3://bucket/"] {
        presign(&bed, &AWS, &[name]).await.ends(2);
    }
    presign(&bed, &[], &["https://h/k?s=hunter2"]).await.says("signs no URLs");
    std::fs::write(bed.path("key"), [7; 32]).unwrap();
    let args = ["--customer-key-file", "key", "s3://bucket/k"];
    presign(&bed, &AWS, &args).await.ends(2).says("cannot carry a customer's key");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_cannot_sign_are_named() {
    let bed = s3().await;
    let anonymous = ["--anonymous", "s3://bucket/k"];
    presign(&bed, &AWS, &anonymous).await.ends(6).says("a signature needs credentials");
    let azure = ("AZURE_STORAGE_ACCOUNT_NAME", "account");
    let token = [azure, ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=hunter2")];
    let ran = presign(&bed, &token, &["az://container/k"]).await;
    ran.ends(6).says("a SAS token signs no URLs").says("AZURE_STORAGE_ACCOUNT_KEY");
    let user = json!({ "type": "authorized_user", "client_id": "me", "client_secret": "hunter2",
                       "refresh_token": "hunter2" });
    std::fs::write(bed.path("user.json"), user.to_string()).unwrap();
    let google = [("GOOGLE_APPLICATION_CREDENTIALS", "user.json")];
    let ran = presign(&bed, &google, &["gs://bucket/k"]).await;
    ran.ends(6).says("cannot sign a URL").says("the key file of a service account");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_key_of_azure_signs_names_that_a_url_does_not_encode() {
    let bed = Bed::new(ServerOptions::of(Flavour::Azure)).await;
    bed.server.put("/account/container/k", Blob::new("content"));
    let endpoint = format!("{}/account", bed.server.endpoint());
    let sign = async |args: &[&str]| {
        presign(&bed, &[AZURE_KEY], &[args, &["--endpoint", &endpoint]].concat()).await
    };
    // No limit on the time, and reading allows HEAD.
    for (method, permission) in [("get", "r"), ("head", "r"), ("put", "w"), ("delete", "d")] {
        let ran = sign(&["--method", method, "--expires", "30d", "az://container/k"]).await;
        let url = ran.ends(0).out();
        let (_, query) = url.trim_end().split_once('?').unwrap();
        assert!(query.split('&').any(|pair| pair == format!("sp={permission}")), "{method}: {url}");
    }
    std::fs::write(bed.path("file"), "new").unwrap();
    let url = sign(&["--method", "put", "az://container/k"]).await.out();
    bed.run(&["cp", "file", url.trim()]).await.ends(0);
    assert_eq!(bed.server.object("/account/container/k").unwrap().bytes.unwrap().as_ref(), b"new");
    let ran = sign(&["az://container/a b"]).await;
    ran.ends(1).says("only for names without characters that a URL encodes");
    assert_eq!(ran.out(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_service_account_signs_for_google() {
    let bed = Bed::gcs().await;
    let account = json!({ "type": "service_account", "private_key_id": "1",
        "client_email": "me@project.iam.gserviceaccount.com", "client_id": "2",
        "private_key": include_str!("service_account_key.pem") });
    std::fs::write(bed.path("account.json"), account.to_string()).unwrap();
    let google = [("GOOGLE_APPLICATION_CREDENTIALS", "account.json")];
    let ran = presign(&bed, &google, &["--method", "head", "gs://bucket/a b"]).await;
    let url = ran.ends(0).out();
    assert!(url.starts_with("https://storage.googleapis.com/bucket/a%20b?X-Goog-"), "{url}");
    for part in ["X-Goog-Expires=3600", "X-Goog-Signature=", "me%40project.iam"] {
        assert!(url.contains(part), "{part} in {url}");
    }
    let ran = presign(&bed, &google, &["--user-project", "p", "gs://bucket/k"]).await;
    assert!(ran.ends(0).out().contains("userProject=p"), "{}", ran.out());
    presign(&bed, &google, &["--expires", "8d", "gs://bucket/k"]).await.ends(2).says("604800");
    let endpoint = bed.server.endpoint();
    let ran = presign(&bed, &google, &["--endpoint", &endpoint, "gs://bucket/k"]).await;
    ran.ends(2).says("signed for storage.googleapis.com");
}
