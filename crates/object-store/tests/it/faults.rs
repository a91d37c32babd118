//! What a caller gets of servers that misbehave: the right bytes, or an error of the right kind.

use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode};
use tidegate::{Budget, BudgetOptions, Client, ClientOptions, ErrorKind};
use tidegate_object_store::{TidegateStore, cause};
use tidegate_testkit::{
    Blob, CompleteAgain, Fault, Flavour, Rule, ServerOptions, WriteOptions, pseudo_random,
};

use crate::bed::Bed;

const PART: usize = 8 << 20;

async fn s3() -> Bed {
    Bed::new(ServerOptions::of(Flavour::S3)).await
}

fn stored(bed: &Bed, name: &str) -> Bytes {
    let path = format!("/bucket/some/prefix/{name}");
    bed.server.object(&path).expect("the object is there").bytes.unwrap()
}

fn requests(bed: &Bed, method: &str, query: &str) -> usize {
    let log = bed.server.log().into_iter();
    log.filter(|seen| seen.method == method && seen.query().contains(query)).count()
}

#[tokio::test]
async fn a_read_goes_on_where_it_was_interrupted() {
    let bed = s3().await;
    let bytes = pseudo_random(3 << 20, 1);
    bed.store.put(&"a".into(), bytes.clone().into()).await.unwrap();
    bed.server.script().push(Rule::new(Fault::CutAfter(1 << 20)).method("GET").nth(1));
    let read = bed.store.get(&"a".into()).await.unwrap().bytes().await.unwrap();
    assert!(read == bytes);
    assert_eq!(bed.server.script().applied(), 1);
    assert_eq!(requests(&bed, "GET", ""), 2);
}

#[tokio::test]
async fn damaged_bytes_are_an_error_with_its_cause() {
    let bed = s3().await;
    bed.store.put(&"a".into(), pseudo_random(1 << 20, 1).into()).await.unwrap();
    bed.server.script().push(Rule::new(Fault::FlipBit(7)).method("GET").always());
    let error = match bed.store.get(&"a".into()).await {
        Ok(found) => found.bytes().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(cause(&error).unwrap().kind(), ErrorKind::Integrity, "{error}");
}

/// A writer between the first request and the lookup of the checksums.
#[tokio::test]
async fn a_blob_that_is_replaced_at_the_beginning_is_read_in_its_new_version() {
    let bed = s3().await;
    bed.store.put(&"a".into(), "old".into()).await.unwrap();
    let new = Fault::ChangedVersion(Blob::new("new!"));
    bed.server.script().push(Rule::new(new).method("HEAD").nth(1));
    let found = bed.store.get(&"a".into()).await.unwrap();
    let size = found.meta.size;
    let tag = found.meta.e_tag.clone();
    let bytes = found.bytes().await.unwrap();
    assert_eq!(bytes.len() as u64, size);
    let options = GetOptions::new().with_if_match(tag);
    let again = bed.store.get_opts(&"a".into(), options).await.unwrap();
    assert_eq!(again.bytes().await.unwrap(), bytes);
}

#[tokio::test]
async fn refusals_have_the_kinds_of_object_store() {
    let bed = s3().await;
    let path = Path::from("a");
    bed.store.put(&path, "x".into()).await.unwrap();
    bed.server.script().push(Rule::new(Fault::status(403)).always());
    let error = bed.store.get(&path).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    let error = bed.store.put(&path, "y".into()).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    let error = bed.store.list(None).try_next().await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    bed.server.script().clear();
    let error = bed.store.get(&Path::default()).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. } | Error::NotSupported { .. }), "{error:?}");
}

/// A response that is lost makes neither a conflict with oneself nor a second blob.
#[tokio::test]
async fn a_create_whose_response_is_lost_succeeds() {
    let bed = s3().await;
    bed.server.script().push(Rule::new(Fault::LoseResponse).method("PUT").nth(1));
    let options = PutMode::Create.into();
    let made = bed.store.put_opts(&"a".into(), "x".into(), options).await.unwrap();
    assert_eq!(bed.store.head(&"a".into()).await.unwrap().e_tag, made.e_tag);
}

#[tokio::test]
async fn each_request_of_an_upload_is_sent_again() {
    let bytes = pseudo_random(2 * PART + 5, 3);
    for (method, query) in [("POST", "uploads="), ("PUT", "partNumber=2"), ("POST", "uploadId=")] {
        for fault in [
            Fault::LoseResponse,
            Fault::Coded { status: 503, code: "SlowDown" },
            Fault::AfterEffect(Box::new(Fault::status(500))),
        ] {
            for complete_again in [CompleteAgain::Succeeds, CompleteAgain::NoSuchUpload] {
                let writes = WriteOptions { complete_again, ..WriteOptions::default() };
                let options = ServerOptions { writes, ..ServerOptions::of(Flavour::S3) };
                let bed = Bed::new(options).await;
                let rule = Rule::new(fault.clone()).method(method).query(query).nth(1);
                bed.server.script().push(rule);
                let mut upload = bed.store.put_multipart(&"a".into()).await.unwrap();
                for piece in bytes.chunks(3 << 20) {
                    upload.put_part(Bytes::copy_from_slice(piece).into()).await.unwrap();
                }
                let made = upload.complete().await.unwrap();
                assert!(stored(&bed, "a") == bytes, "{method} {query} {fault:?}");
                assert_eq!(bed.server.script().applied(), 1, "{method} {query} {fault:?}");
                assert_eq!(bed.store.head(&"a".into()).await.unwrap().e_tag, made.e_tag);
            }
        }
    }
}

/// Readers of Parquet ask for many ranges, so each must cost one request.
#[tokio::test]
async fn a_range_is_one_request() {
    let bed = s3().await;
    let bytes = pseudo_random(3 << 20, 5);
    bed.store.put(&"a".into(), bytes.clone().into()).await.unwrap();
    let before = bed.server.requests();
    let range = bed.store.get_range(&"a".into(), 1000..2000).await.unwrap();
    assert_eq!(range, bytes.slice(1000..2000));
    assert_eq!(bed.server.requests() - before, 1);
    let ranges = [0..10, 2 << 20..(2 << 20) + 10];
    let found = bed.store.get_ranges(&"a".into(), &ranges).await.unwrap();
    assert_eq!(found, [bytes.slice(..10), bytes.slice(2 << 20..(2 << 20) + 10)]);
    assert_eq!(bed.server.requests() - before, 3);
}

#[tokio::test]
async fn a_short_upload_is_one_request() {
    let bed = s3().await;
    let mut upload = bed.store.put_multipart(&"a".into()).await.unwrap();
    for _ in 0..100 {
        upload.put_part("0123456789".into()).await.unwrap();
    }
    upload.complete().await.unwrap();
    assert_eq!(stored(&bed, "a").len(), 1000);
    assert_eq!(bed.server.requests(), 1);
}

#[tokio::test]
async fn an_abort_leaves_nothing() {
    let bed = s3().await;
    let mut upload = bed.store.put_multipart(&"a".into()).await.unwrap();
    upload.put_part(vec![7; PART + 1].into()).await.unwrap();
    assert_eq!(bed.server.unfinished_uploads().len(), 1);
    upload.abort().await.unwrap();
    assert_eq!(bed.server.unfinished_uploads(), []);
    let missing = bed.store.head(&"a".into()).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
}

/// Twenty uploads that each wait for more bytes, with a budget of two parts: none waits for another.
#[tokio::test]
async fn more_uploads_than_the_budget_has_room_for_go_on() {
    let bed = s3().await;
    let budget = Budget::new(BudgetOptions { requests: 4, bytes: 2 * PART as u64 });
    let client = Client::new(ClientOptions::default().remote(bed.remote()).budget(budget.clone()));
    let store = TidegateStore::new(&client, "s3://bucket/some/prefix").unwrap();
    let mut uploads = Vec::new();
    for index in 0..20 {
        uploads.push(store.put_multipart(&format!("{index}").into()).await.unwrap());
    }
    let piece = Bytes::from(vec![1; PART / 2 + 1]);
    for _ in 0..3 {
        for upload in &mut uploads {
            upload.put_part(piece.clone().into()).await.unwrap();
        }
    }
    assert_eq!(budget.held_bytes(), 0, "an upload that waits for bytes holds none");
    try_join_all(uploads.iter_mut().map(MultipartUpload::complete)).await.unwrap();
    assert_eq!(stored(&bed, "19").len(), 3 * piece.len());
    assert!(budget.held_bytes_peak() <= 2 * PART as u64);
}

/// A failure of one part is the error of its future, and of `complete`.
#[tokio::test]
async fn an_upload_with_a_failed_part_does_not_complete() {
    let bed = s3().await;
    let rule = Rule::new(Fault::status(403)).method("PUT").query("partNumber=1");
    bed.server.script().push(rule.always());
    let mut upload = bed.store.put_multipart(&"a".into()).await.unwrap();
    let error = upload.put_part(vec![0; PART].into()).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    let error = upload.complete().await.unwrap_err();
    assert_eq!(cause(&error).unwrap().kind(), ErrorKind::Invalid, "{error:?}");
}

#[tokio::test]
async fn a_page_that_fails_is_asked_for_again() {
    let writes = WriteOptions { page_len: 2, ..WriteOptions::default() };
    let options = ServerOptions { writes, ..ServerOptions::of(Flavour::S3) };
    let bed = Bed::new(options).await;
    for index in 0..7 {
        bed.store.put(&format!("d/{index}").into(), "x".into()).await.unwrap();
    }
    let fault = Fault::status(503);
    bed.server.script().push(Rule::new(fault).query("continuation-token").nth(2));
    let listed: Vec<_> = bed.store.list(None).try_collect().await.unwrap();
    assert_eq!(listed.len(), 7);
    assert_eq!(bed.server.script().applied(), 1);
}

/// A bucket with a million objects in ten folders is listed at its top with one request.
#[tokio::test]
async fn a_list_of_folders_does_not_list_what_is_in_them() {
    for (flavour, container) in
        [(Flavour::S3, "/bucket"), (Flavour::Gcs, "/bucket"), (Flavour::Azure, "/account/bucket")]
    {
        let writes = WriteOptions { page_len: 4, ..WriteOptions::default() };
        let bed = Bed::new(ServerOptions { writes, ..ServerOptions::of(flavour) }).await;
        for index in 0..30 {
            let path = format!("{container}/some/prefix/d/{}/{index}", index / 15);
            bed.server.put(&path, Blob::new("x"));
        }
        bed.server.put(&format!("{container}/some/prefix/d/0b"), Blob::new("x"));
        let listed = bed.store.list_with_delimiter(Some(&"d".into())).await.unwrap();
        assert_eq!(listed.common_prefixes, [Path::from("d/0"), Path::from("d/1")], "{flavour:?}");
        assert_eq!(listed.objects.len(), 1, "{flavour:?}");
        assert_eq!(bed.server.requests(), 1, "{flavour:?}");
    }
}

/// A key that no path names is an error in its place. A folder's marker is nothing.
#[tokio::test]
async fn odd_keys_do_not_hide_the_others() {
    let bed = s3().await;
    for key in ["a", "b//c", "d/", "e/f"] {
        let bytes = if key == "d/" { Bytes::new() } else { Bytes::from("x") };
        bed.server.put(&format!("/bucket/some/prefix/{key}"), Blob::new(bytes));
    }
    let listed: Vec<_> = bed.store.list(None).collect().await;
    let names: Vec<_> = listed
        .iter()
        .map(|entry| entry.as_ref().map(|meta| meta.location.to_string()).ok())
        .collect();
    assert_eq!(names, [Some("a".to_owned()), None, Some("e/f".to_owned())]);
}

#[tokio::test]
async fn a_deletion_whose_response_is_lost_is_sent_again() {
    let bed = s3().await;
    let paths: Vec<Path> = (0..50).map(|index| Path::from(format!("d/{index}"))).collect();
    for path in &paths {
        bed.store.put(path, "x".into()).await.unwrap();
    }
    bed.server.script().push(Rule::new(Fault::LoseResponse).method("DELETE").nth(20));
    let asked = stream::iter(paths.clone()).map(Ok).boxed();
    let deleted: Vec<_> = bed.store.delete_stream(asked).try_collect().await.unwrap();
    assert_eq!(deleted, paths);
    assert_eq!(bed.server.script().applied(), 1);
    assert!(bed.store.list(None).try_next().await.unwrap().is_none());
}

/// A deletion that fails is the error of its path, and the others go on.
#[tokio::test]
async fn a_failed_deletion_does_not_end_the_others() {
    let bed = s3().await;
    let paths = ["a", "b", "c"].map(Path::from);
    for path in &paths {
        bed.store.put(path, "x".into()).await.unwrap();
    }
    let rule = Rule::new(Fault::status(403)).method("DELETE").path("/bucket/some/prefix/b");
    bed.server.script().push(rule.always());
    let asked = stream::iter(paths).map(Ok).boxed();
    let deleted: Vec<_> = bed.store.delete_stream(asked).map(Result::ok).collect().await;
    assert_eq!(deleted, [Some("a".into()), None, Some("c".into())]);
}

#[tokio::test]
async fn a_web_server_has_no_lists_and_no_parts() {
    let bed = s3().await;
    let web = tidegate_testkit::Server::start(ServerOptions::default()).await.unwrap();
    web.put("/files/a b", Blob::new("hello"));
    let store = TidegateStore::new(&bed.client, &web.url("/files")).unwrap();
    let path = Path::from("a b");
    let found = store.get(&path).await.unwrap();
    assert_eq!((found.meta.size, found.meta.e_tag.is_some()), (5, true));
    assert_eq!(found.bytes().await.unwrap(), "hello");
    store.put(&path, "again".into()).await.unwrap();
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "again");
    store.delete(&path).await.unwrap();
    let missing = store.head(&path).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    for error in [
        store.put_opts(&path, "x".into(), PutMode::Create.into()).await.unwrap_err(),
        store.put_multipart(&path).await.unwrap_err(),
        store.list(None).try_next().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::NotSupported { .. }), "{error:?}");
    }
    let refused = TidegateStore::new(&bed.client, "grpc://localhost/main").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
