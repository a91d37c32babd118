//! An upload that was interrupted goes on.

use std::future::IntoFuture;
use std::time::Duration;

use tidegate::remote::{self, Precondition};
use tidegate::{CancellationToken, ErrorKind, RetryPolicy};
use tidegate_testkit::{
    CompleteAgain, Fault, Flavour, PartLie, Rule, Server, ServerOptions, WriteOptions,
};

use crate::bed::{Bed, LEN, PART, noise};

/// Uploads until part 3 is asked for, then ends as a killed process does: without a word.
async fn interrupted(bed: &Bed, path: &std::path::Path) {
    let refused = Fault::Coded { status: 403, code: "AccessDenied" };
    bed.server.script().push(Rule::new(refused).method("PUT").query("partNumber=3").always());
    bed.upload(path).window(1).await.unwrap_err();
    bed.server.script().clear();
    bed.server.clear_log();
}

fn parts_sent(bed: &Bed) -> usize {
    bed.requests("PUT", "partNumber=").len()
}

#[tokio::test]
async fn only_missing_parts_are_sent() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    interrupted(&bed, &path).await;
    let again = bed.another_client();
    let upload = again.upload(&path, &bed.target_of(&again)).part_bytes(PART as u64);
    let report = upload.await.unwrap();
    bed.has(&bytes);
    assert_eq!(parts_sent(&bed), 1);
    assert_eq!(report.resumed_bytes, 2 * PART as u64);
    assert!(report.is_verified());
}

/// As s3rver does.
#[tokio::test]
async fn an_upload_whose_parts_are_not_listed_begins_anew() {
    for status in [405, 501] {
        let bed = Bed::new(Flavour::S3).await;
        let bytes = noise(LEN);
        let path = bed.file(&bytes);
        interrupted(&bed, &path).await;
        let refused = Rule::new(Fault::status(status)).method("GET").query("uploadId=").always();
        bed.server.script().push(refused);
        let report = bed.upload(&path).await.unwrap();
        bed.has(&bytes);
        assert_eq!((parts_sent(&bed), report.resumed_bytes), (3, 0), "{status}");
    }
}

/// The server keeps the connection, and never answers.
#[tokio::test]
async fn an_abort_without_an_answer_does_not_hold_the_new_upload() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    interrupted(&bed, &path).await;
    let gate = tidegate_testkit::Gate::new();
    bed.server.script().push(Rule::new(Fault::HoldRequest(gate.clone())).method("DELETE").always());
    // With parts of another length, the earlier upload is of no use.
    let retry = RetryPolicy { stall_ms_max: 2_000, header_ms_max: 2_000, ..RetryPolicy::default() };
    let upload = bed.upload(&path).part_bytes(PART as u64 + (1 << 20)).retry(retry);
    let ended = tokio::time::timeout(Duration::from_mins(1), upload.into_future());
    let (report, ()) = tokio::join!(ended, gate.reached(1));
    assert_eq!(report.expect("it waits for the abort").unwrap().resumed_bytes, 0);
    assert!(bed.stored().unwrap().bytes.as_deref() == Some(&bytes[..]));
    assert_eq!(bed.server.unfinished_uploads().len(), 1, "the earlier upload stays");
    gate.open();
}

#[tokio::test]
async fn a_changed_source_sends_what_changed() {
    let bed = Bed::new(Flavour::S3).await;
    let mut bytes = noise(LEN).to_vec();
    let path = bed.file(&bytes);
    interrupted(&bed, &path).await;
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    bytes[PART + 5] ^= 1;
    bed.file(&bytes);
    // With another time, the blob would get another description: then it begins anew.
    std::fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    bed.upload(&path).await.unwrap();
    bed.has(&bytes);
    assert_eq!(parts_sent(&bed), 2, "part 1 is as it was");
}

#[tokio::test]
async fn a_list_of_parts_that_is_wrong_costs_only_bytes() {
    for lie in [PartLie::Size, PartLie::Checksum, PartLie::Missing] {
        let bed = Bed::new(Flavour::S3).await;
        let bytes = noise(LEN);
        let path = bed.file(&bytes);
        interrupted(&bed, &path).await;
        let wrong = Fault::WrongPartsList { part: 1, lie };
        bed.server.script().push(Rule::new(wrong).method("GET").nth(1));
        bed.upload(&path).await.unwrap_or_else(|error| panic!("{lie:?}: {}", error.chain()));
        bed.has(&bytes);
        assert_eq!(parts_sent(&bed), 2, "{lie:?}");
    }
}

#[tokio::test]
async fn a_blob_that_was_completed_without_a_response_is_not_sent_again() {
    for again in [CompleteAgain::Succeeds, CompleteAgain::NoSuchUpload] {
        let writes = WriteOptions { complete_again: again, ..WriteOptions::default() };
        let bed = Bed::with(Flavour::S3, writes).await;
        let bytes = noise(LEN);
        let path = bed.file(&bytes);
        let lost = Rule::new(Fault::LoseResponse).method("POST").query("uploadId=");
        bed.server.script().push(lost.nth(1));
        // The process ends before it can look.
        let gone = Fault::Coded { status: 403, code: "AccessDenied" };
        bed.server.script().push(Rule::new(gone.clone()).method("GET").always());
        bed.server.script().push(Rule::new(gone).method("POST").query("uploadId=").nth(2));
        let _ = bed.upload(&path).await;
        bed.server.script().clear();
        bed.server.clear_log();
        let client = bed.another_client();
        let upload = client.upload(&path, &bed.target_of(&client)).part_bytes(PART as u64);
        upload.await.unwrap();
        bed.has(&bytes);
        assert_eq!(parts_sent(&bed), 0, "{again:?}");
    }
}

#[tokio::test]
async fn an_upload_that_expired_begins_anew() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    interrupted(&bed, &path).await;
    bed.server.forget_uploads();
    bed.upload(&path).await.unwrap();
    bed.has(&bytes);
    assert_eq!(parts_sent(&bed), 3);
}

#[tokio::test]
async fn a_cancelled_upload_goes_on() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    let cancel = CancellationToken::new();
    bed.server.script().push(
        Rule::new(Fault::StallRequestAfter(1_000)).method("PUT").query("partNumber=3").always(),
    );
    let upload = bed.upload(&path).window(1).cancel(cancel.clone());
    let upload = tokio::spawn(async move { upload.await });
    while bed.requests("PUT", "partNumber=3").is_empty() {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    let error = upload.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    bed.server.script().clear();
    bed.server.clear_log();
    bed.upload(&path).await.unwrap();
    bed.has(&bytes);
    assert_eq!(parts_sent(&bed), 1);
}

#[tokio::test]
async fn two_runs_of_one_upload_do_not_mix() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    bed.server.script().push(
        Rule::new(Fault::StallRequestAfter(1_000)).method("PUT").query("partNumber=1").nth(1),
    );
    let cancel = CancellationToken::new();
    let first = bed.upload(&path).cancel(cancel.clone());
    let first = tokio::spawn(async move { first.await });
    while bed.requests("PUT", "partNumber=1").is_empty() {
        tokio::task::yield_now().await;
    }
    let second = bed.another_client();
    let error = second.upload(&path, &bed.target_of(&second)).part_bytes(PART as u64).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}", error.chain());
    assert!(error.to_string().contains("another process"), "{error}");
    cancel.cancel();
    first.await.unwrap().unwrap_err();
}

/// The journals in the state folder.
fn journals(bed: &Bed) -> Vec<std::path::PathBuf> {
    let folder = bed.folder.path().join("state/uploads");
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Replaces a text in the only journal.
fn edit_journal(bed: &Bed, from: &str, to: &str) {
    let [journal] = &journals(bed)[..] else { panic!("one journal") };
    let text = std::fs::read_to_string(journal).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(journal, text.replacen(from, to, 1)).unwrap();
}

#[tokio::test]
async fn a_journal_cannot_send_a_session_to_another_host() {
    let bed = Bed::new(Flavour::Gcs).await;
    let other = Server::start(ServerOptions::of(Flavour::Gcs)).await.unwrap();
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    let absent = || remote::WriteOptions::when(Precondition::Absent);
    let refused = Fault::Coded { status: 403, code: "AccessDenied" };
    bed.server.script().push(Rule::new(refused).method("PUT").query("upload_id=").always());
    bed.upload(&path).write(absent()).await.unwrap_err();
    bed.server.script().clear();
    edit_journal(&bed, "session:/", &format!("session:{}/", other.endpoint()));
    bed.upload(&path).write(absent()).await.unwrap();
    assert!(bed.stored().unwrap().bytes.as_deref() == Some(&*bytes));
    assert_eq!(other.requests(), 0);
}

#[tokio::test]
async fn a_journal_of_another_blob_is_not_used() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(LEN);
    let path = bed.file(&bytes);
    interrupted(&bed, &path).await;
    edit_journal(&bed, "a/blob.bin", "a/other.bin");
    bed.upload(&path).await.unwrap();
    assert!(bed.stored().unwrap().bytes.as_deref() == Some(&*bytes));
    assert_eq!(parts_sent(&bed), 3);
    assert!(bed.requests("DELETE", "").is_empty(), "what is not ours is not aborted");
}

#[tokio::test]
async fn a_journal_cannot_choose_parts_that_the_remote_does_not_take() {
    for part_bytes in ["0", "1", "5242879", "18446744073709551615"] {
        let bed = Bed::new(Flavour::S3).await;
        let bytes = noise(LEN);
        let path = bed.file(&bytes);
        interrupted(&bed, &path).await;
        let (from, to) = ("\"part_bytes\":5242880", format!("\"part_bytes\":{part_bytes}"));
        edit_journal(&bed, from, &to);
        // Without a wish of the caller the journal decides.
        bed.client.upload(&path, &bed.target()).await.unwrap();
        bed.has(&bytes);
    }
}

#[tokio::test]
async fn the_journal_goes_with_the_end_of_the_upload() {
    let bed = Bed::new(Flavour::S3).await;
    let path = bed.file(&noise(LEN));
    interrupted(&bed, &path).await;
    assert_eq!(journals(&bed).len(), 1);
    bed.upload(&path).await.unwrap();
    assert_eq!(journals(&bed).len(), 0);
}
