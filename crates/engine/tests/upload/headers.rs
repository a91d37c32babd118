//! Headers that describe a blob go with the request that makes it, and with no other.

use tidegate::remote::{CustomerKey, ExtraHeaders, Precondition, WriteOptions};
use tidegate::{ErrorKind, Form, UploadSource};
use tidegate_testkit::{Blob, Flavour, Logged};

use crate::bed::{Bed, LEN, noise};

const OF_BLOB: [(&str, &str); 2] =
    [("content-disposition", "attachment"), ("content-language", "de")];

/// A header that the engine does not know goes with every request.
const OF_REQUESTS: &str = "x-own";

async fn bed(flavour: Flavour, more: &[(&str, &str)]) -> Bed {
    let mut headers = ExtraHeaders::new();
    for (name, value) in OF_BLOB.iter().chain(more) {
        headers.add(name, value).unwrap();
    }
    headers.add(OF_REQUESTS, "1").unwrap();
    Bed::new(flavour).await.with_remote(|options| options.headers = headers)
}

/// Asserts that the stored blob has the first of the headers, which every flavour of the server keeps.
#[track_caller]
fn is_described(bed: &Bed) {
    let (name, value) = OF_BLOB[0];
    let fields = bed.stored().unwrap().fields;
    let has = |(n, v): &(String, String)| n.eq_ignore_ascii_case(name) && v == value;
    assert!(fields.iter().any(has), "{fields:?}");
}

fn describes(seen: &Logged) -> bool {
    let is_one = |(name, _): &(String, String)| name.to_ascii_lowercase().contains("disposition");
    seen.headers.iter().any(is_one)
}

fn writes(bed: &Bed) -> Vec<Logged> {
    let log = bed.server.log().into_iter();
    log.filter(|seen| seen.method != "GET" && seen.method != "HEAD").collect()
}

#[tokio::test]
async fn the_request_that_makes_the_blob_has_them() {
    let own = [("x-amz-server-side-encryption", "AES256"), ("x-amz-acl", "private")];
    for (flavour, more) in [(Flavour::S3, &own[..]), (Flavour::Gcs, &[]), (Flavour::Azure, &[])] {
        for len in [1_000, LEN] {
            let bed = bed(flavour, more).await;
            bed.upload(bed.file(&noise(len))).await.unwrap();
            is_described(&bed);
            let writes = writes(&bed);
            for seen in &writes {
                assert_eq!(seen.header(OF_REQUESTS), Some("1"), "{seen:?}");
            }
            let described: Vec<_> = writes.iter().filter(|seen| describes(seen)).collect();
            assert_eq!(described.len(), 1, "{flavour:?} {len}: {described:?}");
            for (name, value) in more {
                let having = writes.iter().filter(|seen| seen.header(name) == Some(value));
                let having: Vec<_> = having.map(|seen| &seen.path_and_query).collect();
                assert_eq!(having, [&described[0].path_and_query], "{name}");
            }
        }
    }
}

#[tokio::test]
async fn a_session_has_them_in_its_description() {
    let bed = bed(Flavour::Gcs, &[("x-goog-meta-owner", "me")]).await;
    let absent = WriteOptions::when(Precondition::Absent);
    bed.upload(bed.file(&noise(LEN))).write(absent).await.unwrap();
    is_described(&bed);
    assert_eq!(bed.stored().unwrap().metadata("owner"), Some("me"));
    assert!(!writes(&bed).iter().any(describes), "JSON has names of its own");
}

#[tokio::test]
async fn what_a_remote_cannot_keep_is_refused() {
    for (flavour, condition) in
        [(Flavour::Gcs, Precondition::Absent), (Flavour::Azure, Precondition::None)]
    {
        let bed = bed(flavour, &[("expires", "0")]).await;
        let upload = bed.upload(bed.file(&noise(LEN))).write(WriteOptions::when(condition));
        let error = upload.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", error.chain());
        assert!(error.to_string().to_ascii_lowercase().contains("expires"), "{error}");
        bed.has_none();
    }
}

#[tokio::test]
async fn the_providers_own_copy_has_them() {
    for flavour in [Flavour::S3, Flavour::Gcs, Flavour::Azure] {
        let bed = bed(flavour, &[]).await;
        let path = bed.path().replace("blob.bin", "source");
        bed.server.put(&path, Blob::new("the source"));
        let scheme = match flavour {
            Flavour::S3 => "s3",
            Flavour::Gcs => "gs",
            _ => "az",
        };
        let source = bed.client.locate(&format!("{scheme}://bucket/a/source")).unwrap();
        let report = bed.upload(UploadSource::blob(&source)).await.unwrap();
        // Azure's copy takes no headers, so the bytes go through this process.
        let form = if flavour == Flavour::Azure { Form::Whole } else { Form::Copied };
        assert_eq!(report.form, form, "{flavour:?}");
        is_described(&bed);
    }
}

#[tokio::test]
async fn a_customers_key_is_at_each_request() {
    let name = "x-amz-server-side-encryption-customer-key";
    let bed = Bed::new(Flavour::S3).await;
    let bed = bed.with_remote(|options| options.customer_key = Some(CustomerKey::new([7; 32])));
    // The server keeps no key with an upload, so a look at the blob is refused at the end.
    let _ = bed.upload(bed.file(&noise(LEN))).await;
    let parts = bed.requests("PUT", "partNumber=");
    assert_eq!(parts.len(), 3);
    for seen in parts.iter().chain(&bed.requests("POST", "uploads=")) {
        assert!(seen.header(name).is_some(), "{seen:?}");
    }
}
