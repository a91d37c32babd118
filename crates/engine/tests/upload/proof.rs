//! Services that do not keep conditions are refused before anything of the user's is sent.

use tidegate::remote::{Precondition, Version, WriteOptions};
use tidegate::{Error, ErrorKind, Form, Operation, UploadSource};
use tidegate_testkit::{Blob, Fault, Flavour, Preconditions, Rule, WriteOptions as ServedWrites};

use crate::bed::{Bed, LEN, noise};

/// What the names of the race's blobs contain.
const PROBE: &str = ".tidegate-probe-";

async fn bed(preconditions: Preconditions) -> Bed {
    Bed::with(Flavour::S3, ServedWrites { preconditions, ..ServedWrites::default() }).await
}

fn absent() -> WriteOptions {
    WriteOptions::when(Precondition::Absent)
}

async fn upload(bed: &Bed, len: usize, options: WriteOptions) -> Option<Error> {
    bed.upload(bed.file(&noise(len))).write(options).await.err()
}

/// Asserts that no request wrote to the user's blob, and that nothing of the race is left.
#[track_caller]
fn sent_nothing(bed: &Bed) {
    for seen in bed.server.log() {
        let is_read = ["GET", "HEAD"].contains(&&*seen.method);
        assert!(is_read || seen.path_and_query.contains(PROBE), "{seen:?}");
    }
    nothing_is_left(bed);
}

/// Asserts that each blob of the race is deleted, and each upload ended.
#[track_caller]
fn nothing_is_left(bed: &Bed) {
    for seen in bed.server.log() {
        let path = seen.path_and_query.split('?').next().unwrap().to_owned();
        assert!(!path.contains(PROBE) || bed.server.object(&path).is_none(), "{path}");
    }
    assert_eq!(bed.server.unfinished_uploads(), []);
}

fn races(bed: &Bed) -> usize {
    let log = bed.server.log();
    let writes = log.iter().filter(|seen| seen.method != "DELETE");
    writes.filter(|seen| seen.path_and_query.contains(PROBE)).count()
}

#[tokio::test]
async fn a_service_that_lies_is_refused() {
    for preconditions in [Preconditions::Ignored, Preconditions::Racing] {
        for len in [1_000, LEN] {
            let bed = bed(preconditions).await;
            let error = upload(&bed, len, absent()).await.unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", error.chain());
            assert_eq!(error.operation(), Operation::Locate, "the command ends with 2");
            assert!(error.to_string().contains("of 8 concurrent"), "{error}");
            bed.has_none();
            sent_nothing(&bed);
        }
    }
}

#[tokio::test]
async fn a_version_that_is_not_compared_is_refused() {
    for preconditions in [Preconditions::Ignored, Preconditions::Racing] {
        for len in [1_000, LEN] {
            let bed = bed(preconditions).await;
            bed.server.put(bed.path(), Blob::new("old"));
            let info = bed.client.stat(&bed.target()).await.unwrap();
            let condition = Precondition::Version(info.version.unwrap());
            let error = upload(&bed, len, WriteOptions::when(condition)).await;
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", error.chain());
            assert!(error.to_string().contains("If-Match"), "{error}");
            assert_eq!(bed.stored().unwrap().bytes.unwrap(), "old");
            sent_nothing(&bed);
        }
    }
}

#[tokio::test]
async fn a_service_is_refused_only_for_what_it_does_wrong() {
    let bed = bed(Preconditions::IgnoredAtComplete).await;
    let error = upload(&bed, LEN, absent()).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", error.chain());
    sent_nothing(&bed);
    assert!(upload(&bed, 1_000, absent()).await.is_none());
    bed.has(&noise(1_000));
    let other = Version::ETag("\"0123456789\"".to_owned());
    let options = WriteOptions::when(Precondition::Version(other));
    let error = upload(&bed, 1_000, options).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Changed, "{}", error.chain());
}

#[tokio::test]
async fn a_client_races_once_for_each_kind_of_write() {
    let bed = bed(Preconditions::Kept).await;
    for len in [1_000, LEN] {
        assert!(upload(&bed, len, absent()).await.is_none());
        nothing_is_left(&bed);
        let raced = races(&bed);
        assert!(raced > 0, "a service that is not known was not put to the proof");
        bed.server.remove(bed.path());
        assert!(upload(&bed, len, absent()).await.is_none());
        assert_eq!(races(&bed), raced, "{len}");
        bed.server.remove(bed.path());
    }
}

#[tokio::test]
async fn nothing_is_raced_for_a_blob_that_is_there() {
    let bed = bed(Preconditions::Kept).await;
    bed.server.put(bed.path(), Blob::new("old"));
    let error = upload(&bed, 1_000, absent()).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}", error.chain());
    assert_eq!(races(&bed), 0);
}

#[tokio::test]
async fn a_service_that_the_caller_trusts_is_not_put_to_the_proof() {
    for len in [1_000, LEN] {
        let bed = bed(Preconditions::Kept).await.trusting();
        assert!(upload(&bed, len, absent()).await.is_none());
        assert_eq!(races(&bed), 0);
    }
}

#[tokio::test]
async fn a_proof_that_cannot_be_deleted_is_a_note() {
    let bed = bed(Preconditions::Kept).await;
    let denied = Fault::Coded { status: 403, code: "AccessDenied" };
    bed.server.script().push(Rule::new(denied).method("DELETE").always());
    let report = bed.upload(bed.file(&noise(1_000))).write(absent()).await.unwrap();
    assert!(report.notes.iter().any(|note| note.contains(PROBE)), "{:?}", report.notes);
}

#[tokio::test]
async fn a_race_with_a_lost_response_is_run_again() {
    let bed = bed(Preconditions::Kept).await;
    let rule = Rule::new(Fault::LoseResponse).method("PUT").field("if-none-match", "*");
    bed.server.script().push(rule.nth(3));
    assert!(upload(&bed, 1_000, absent()).await.is_none());
    bed.has(&noise(1_000));
    nothing_is_left(&bed);
}

#[tokio::test]
async fn a_copy_is_not_the_services_own_where_that_ignores_conditions() {
    for (preconditions, form) in
        [(Preconditions::Kept, Form::Copied), (Preconditions::IgnoredAtComplete, Form::Whole)]
    {
        let bed = bed(preconditions).await;
        bed.server.put("/bucket/a/source", Blob::new("the source"));
        let source = bed.client.locate("s3://bucket/a/source").unwrap();
        let copy = || bed.upload(UploadSource::blob(&source)).write(absent());
        assert_eq!(copy().await.unwrap().form, form, "{preconditions:?}");
        let error = copy().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}", error.chain());
        assert_eq!(bed.stored().unwrap().bytes.unwrap(), "the source");
        nothing_is_left(&bed);
    }
}
