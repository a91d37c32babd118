//! Uploads survive every fault that occurs once. A fault that persists is an error of the right
//! kind, and nothing is registered.

use futures_util::future::join_all;
use tidegate::{ErrorKind, Form};
use tidegate_testkit::reapi::{
    BatchLie, Code, Cut, FindMissingLie, GrpcStatus, HashFunction, ReapiFault, ReapiRule, Rpc,
};

use super::bed::{Bed, Way, blob, chunks};
use crate::call::UploadOptions;

const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;

fn fail(code: Code) -> ReapiFault {
    ReapiFault::Fail(GrpcStatus::new(code, "scripted"))
}

/// The call that takes chunks.
fn put_rpc(way: Way) -> Rpc {
    match way {
        Way::Batches => Rpc::BatchUpdate,
        Way::Streams => Rpc::Write,
    }
}

fn calls(way: Way) -> [Rpc; 4] {
    [Rpc::Capabilities, Rpc::FindMissing, put_rpc(way), Rpc::Splice]
}

/// Uploads a blob with one fault and expects it at the cache. Returns the number of calls of that
/// kind.
async fn survives(way: Way, rpc: Rpc, fault: &ReapiFault, nth: u64) -> usize {
    let bed = Bed::by(way).await;
    bed.server.script().push(ReapiRule::new(fault.clone()).rpc(rpc).nth(nth));
    let options = UploadOptions { retry: Bed::impatient(), ..bed.up() };
    let outcome = bed.upload(&blob(1), &options).await;
    let report = outcome.unwrap_or_else(|error| panic!("{way:?} {rpc:?} {fault:?}: {error:?}"));
    assert_eq!(report.form, Form::Chunks, "{way:?} {rpc:?} {fault:?}");
    assert_eq!(bed.server.script().applied(), 1, "{way:?} {rpc:?} {fault:?}");
    bed.server.counts().calls(rpc)
}

#[tokio::test]
async fn a_call_that_fails_once_is_made_again() {
    let quota = GrpcStatus::new(Code::ResourceExhausted, "quota").retry_after_ms(1);
    let faults = [
        fail(Code::Unavailable),
        fail(Code::Internal),
        ReapiFault::Fail(quota),
        ReapiFault::FailAfter(GrpcStatus::new(Code::Unavailable, "afterwards")),
        ReapiFault::Reset(CANCEL),
        ReapiFault::Reset(REFUSED_STREAM),
        ReapiFault::Close,
        ReapiFault::GoAway,
        ReapiFault::Lost,
        ReapiFault::AnswerLost,
    ];
    for way in Way::ALL {
        for rpc in calls(way) {
            // In parallel, because some of them wait for a timeout.
            join_all(faults.iter().map(|fault| survives(way, rpc, fault, 1))).await;
        }
    }
}

#[tokio::test]
async fn a_lost_response_to_splice_costs_one_more_call() {
    for fault in [
        ReapiFault::AnswerLost,
        ReapiFault::FailAfter(GrpcStatus::new(Code::DeadlineExceeded, "too slow")),
    ] {
        assert_eq!(survives(Way::Batches, Rpc::Splice, &fault, 1).await, 2);
    }
}

#[tokio::test]
async fn a_write_that_is_cut_resumes() {
    for cut in
        [Cut::Status(GrpcStatus::new(Code::Unavailable, "midway")), Cut::Reset(CANCEL), Cut::Close]
    {
        for bytes in [0, 1, 200] {
            let fault = ReapiFault::CutAfter { bytes, cut: cut.clone() };
            survives(Way::Streams, Rpc::Write, &fault, 3).await;
        }
    }
}

/// A server that does not report the bytes it kept, or reports another number than it then accepts.
#[tokio::test]
async fn a_write_that_cannot_resume_restarts() {
    for answer in [
        fail(Code::PermissionDenied),
        fail(Code::InvalidArgument),
        fail(Code::Unimplemented),
        ReapiFault::Committed(100),
        ReapiFault::Committed(201),
    ] {
        let bed = Bed::by(Way::Streams).await;
        let data = blob(1);
        let hash = chunks(&data)[4].hash.clone();
        let cut = Cut::Status(GrpcStatus::new(Code::Unavailable, "midway"));
        let rule = ReapiRule::new(ReapiFault::CutAfter { bytes: 200, cut }).rpc(Rpc::Write);
        bed.server.script().push(rule.hash(&hash));
        bed.server.script().always(Rpc::QueryWriteStatus, answer.clone());
        let outcome = bed.upload(&data, &bed.up()).await;
        outcome.unwrap_or_else(|error| panic!("{answer:?}: {}", error.chain()));
        assert_eq!(bed.server.counts().calls(Rpc::QueryWriteStatus), 1, "{answer:?}");
    }
}

/// The number of restarts is not limited: bytes that the server kept are progress. Bytes that were
/// read and lost are none.
#[tokio::test]
async fn a_write_that_makes_progress_each_time_completes() {
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let cut = Cut::Status(GrpcStatus::new(Code::Unavailable, "midway"));
    bed.server.script().always(Rpc::Write, ReapiFault::CutAfter { bytes: 300, cut });
    let report = bed.upload(&data, &bed.up()).await.unwrap();
    let longest = chunks(&data).iter().map(|chunk| chunk.len_bytes).max().unwrap();
    assert!(longest / 300 > Bed::retry().attempts_max.into(), "{longest}");
    assert_eq!(bed.server.counts().bytes_in, data.len() as u64, "no byte went twice");
    assert!(report.totals.restarts > 0);
}

/// All bytes have arrived, and only the end of the write was lost.
#[tokio::test]
async fn a_write_that_lacks_only_its_end_is_finished() {
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let chunk = chunks(&data)[4].clone();
    let cut = Cut::Status(GrpcStatus::new(Code::Unavailable, "just then"));
    let fault = ReapiFault::CutAfter { bytes: chunk.len_bytes, cut };
    bed.server.script().push(ReapiRule::new(fault).rpc(Rpc::Write).hash(&chunk.hash));
    bed.upload(&data, &bed.up()).await.unwrap();
    let calls = bed.server.calls();
    let writes = calls.iter().filter(|call| call.rpc == Rpc::Write);
    let offsets: Vec<_> =
        writes.filter(|call| call.hashes.contains(&chunk.hash)).map(|call| call.offset).collect();
    assert_eq!(offsets, [0, i64::try_from(chunk.len_bytes).unwrap()]);
}

/// All bytes have arrived, the server reports that, and it does not finish the write: it is
/// restarted under another name. The same holds for a write that is reported as complete with
/// another length.
#[tokio::test]
async fn a_write_that_is_not_finished_restarts() {
    let unavailable = || fail(Code::Unavailable);
    let complete = |committed| {
        vec![
            ReapiRule::new(ReapiFault::Complete).rpc(Rpc::QueryWriteStatus),
            ReapiRule::new(ReapiFault::Committed(committed)).rpc(Rpc::QueryWriteStatus),
        ]
    };
    let data = blob(1);
    let chunk = chunks(&data)[4].clone();
    let len = i64::try_from(chunk.len_bytes).unwrap();
    let unfinished = |fault| vec![ReapiRule::new(fault).rpc(Rpc::Write).nth(2)];
    for (rules, offsets) in [
        (unfinished(unavailable()), vec![0, len, 0]),
        (unfinished(fail(Code::Internal)), vec![0, len, 0]),
        (unfinished(fail(Code::InvalidArgument)), vec![0, len, 0]),
        (complete(len - 1), vec![0, 0]),
        (complete(len + 1), vec![0, 0]),
    ] {
        let bed = Bed::by(Way::Streams).await;
        let cut = Cut::Status(GrpcStatus::new(Code::Unavailable, "just then"));
        let fault = ReapiFault::CutAfter { bytes: chunk.len_bytes, cut };
        let first = ReapiRule::new(fault).rpc(Rpc::Write).hash(&chunk.hash);
        bed.server.script().push(first);
        for rule in &rules {
            bed.server.script().push(rule.clone().hash(&chunk.hash));
        }
        bed.upload(&data, &bed.up()).await.unwrap_or_else(|error| panic!("{rules:?}: {error:?}"));
        let calls = bed.server.calls();
        let writes = calls.iter().filter(|call| call.rpc == Rpc::Write);
        let seen: Vec<_> = writes
            .filter(|call| call.hashes.contains(&chunk.hash))
            .map(|call| call.offset)
            .collect();
        assert_eq!(seen, offsets, "{rules:?}");
    }
}

/// A server that does not know batches, or takes shorter messages than it says.
#[tokio::test]
async fn chunks_are_put_alone_if_batches_fail() {
    let long = GrpcStatus::new(Code::ResourceExhausted, "message larger than max (9 vs. 4)");
    for fault in [fail(Code::Unimplemented), ReapiFault::Fail(long)] {
        let bed = Bed::by(Way::Batches).await;
        bed.server.script().always(Rpc::BatchUpdate, fault);
        let data = blob(1);
        let report = bed.upload(&data, &bed.up()).await.unwrap();
        assert_eq!(report.form, Form::Chunks);
        assert_eq!(bed.server.counts().calls(Rpc::Write), chunks(&data).len());
        let batches = bed.server.counts().calls(Rpc::BatchUpdate);
        assert!(batches <= 16, "{batches}: no more than were in flight");
    }
}

/// A server that says that it takes manifests, and takes none.
#[tokio::test]
async fn a_blob_that_cannot_be_spliced_is_put_whole() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        bed.server.script().always(Rpc::Splice, fail(Code::Unimplemented));
        let report = bed.upload(&blob(1), &bed.up()).await.unwrap();
        assert_eq!(report.form, Form::Whole);
    }
}

#[tokio::test]
async fn odd_responses_do_no_harm() {
    let failed = BatchLie::FailFirst(GrpcStatus::new(Code::Unavailable, "one of them"));
    for lie in [failed, BatchLie::Reversed] {
        survives(Way::Batches, Rpc::BatchUpdate, &ReapiFault::Batch(lie), 2).await;
    }
    for way in Way::ALL {
        let everything = ReapiFault::FindMissing(FindMissingLie::Everything);
        survives(way, Rpc::FindMissing, &everything, 1).await;
        let bed = Bed::by(way).await;
        let twice = ReapiFault::FindMissing(FindMissingLie::Twice);
        bed.server.script().always(Rpc::FindMissing, twice);
        let data = blob(1);
        bed.upload(&data, &bed.up()).await.unwrap();
        let stored = bed.server.counts();
        assert!(chunks(&data).iter().all(|chunk| stored.stored(&chunk.hash) == 1));
    }
}

#[tokio::test]
async fn a_chunk_that_was_not_asked_for_is_not_believed_to_be_missing() {
    let foreign = ReapiFault::FindMissing(FindMissingLie::Foreign);
    fails(Way::Batches, Rpc::FindMissing, foreign, ErrorKind::Integrity).await;
}

/// `FindMissing` reports all chunks as present, and none is: all are sent after Splice has failed.
#[tokio::test]
async fn chunks_wrongly_reported_as_present_are_sent_after_splice_fails() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        for chunk in chunks(&data) {
            bed.server.haunt(&chunk.hash);
        }
        let report = bed.upload(&data, &bed.up()).await.unwrap();
        assert_eq!(report.chunks.unwrap().moved.bytes, data.len() as u64);
    }
}

#[tokio::test]
async fn chunks_that_the_store_forgets_are_sent_again() {
    for way in Way::ALL {
        assert!(survives(way, put_rpc(way), &ReapiFault::Forget, 2).await > 1);
    }
}

/// Uploads with a fault that persists, and expects an error of this kind, and no blob.
async fn fails(way: Way, rpc: Rpc, fault: ReapiFault, kind: ErrorKind) -> usize {
    let bed = Bed::by(way).await;
    let data = blob(1);
    bed.server.script().always(rpc, fault.clone());
    let options = UploadOptions { retry: Bed::impatient(), ..bed.up() };
    let error = bed.upload(&data, &options).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{way:?} {rpc:?} {fault:?}: {error:?}");
    assert!(!bed.server.contains(&HashFunction::Sha256.name(&data)));
    bed.server.counts().calls(rpc)
}

#[tokio::test]
async fn a_call_that_always_fails_is_given_up_after_its_attempts() {
    let attempts = Bed::retry().attempts_max as usize;
    for way in Way::ALL {
        let cases = [Rpc::Capabilities, Rpc::Splice]
            .into_iter()
            .flat_map(|rpc| [fail(Code::Unavailable), ReapiFault::Lost].map(|fault| (rpc, fault)));
        // In parallel, because some of them wait for a timeout.
        let calls =
            join_all(cases.map(|(rpc, fault)| fails(way, rpc, fault, ErrorKind::Exhausted)));
        assert!(calls.await.iter().all(|calls| *calls == attempts));
        for rpc in [Rpc::FindMissing, put_rpc(way)] {
            let calls = fails(way, rpc, fail(Code::Unavailable), ErrorKind::Exhausted).await;
            // A call that pauses before its retry keeps its place in the window.
            let most = if rpc == Rpc::FindMissing { 4 } else { 16 } * attempts;
            assert!((attempts..=most).contains(&calls), "{rpc:?} {calls}");
        }
    }
}

#[tokio::test]
async fn a_refused_call_is_not_retried() {
    for way in Way::ALL {
        for rpc in calls(way) {
            let refused = fail(Code::PermissionDenied);
            let calls = fails(way, rpc, refused, ErrorKind::NoAccess).await;
            assert!(calls <= 16, "{rpc:?} {calls}: no more than were in flight");
        }
    }
}

#[tokio::test]
async fn a_store_that_loses_everything_is_given_up() {
    for way in Way::ALL {
        // The cache acknowledges every chunk, and has none when the blob is to be made of them.
        let splices = {
            let bed = Bed::by(way).await;
            bed.server.script().always(put_rpc(way), ReapiFault::Forget);
            bed.upload(&blob(1), &bed.up()).await.unwrap_err();
            bed.server.counts().calls(Rpc::Splice)
        };
        assert!((2..=8).contains(&splices), "{way:?} {splices}");
    }
}

#[tokio::test]
async fn only_missing_chunks_are_sent() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let cut = chunks(&data);
        let mut start = 0;
        for (index, chunk) in cut.iter().enumerate() {
            let end = start + usize::try_from(chunk.len_bytes).unwrap();
            if index % 2 == 0 {
                bed.server.put(data.slice(start..end));
            }
            start = end;
        }
        let report = bed.upload(&data, &bed.up()).await.unwrap();
        let counts = bed.server.counts();
        for (index, chunk) in cut.iter().enumerate() {
            assert_eq!(counts.stored(&chunk.hash), u64::from(index % 2 == 1), "{index}");
        }
        assert_eq!(report.chunks.unwrap().moved.bytes, counts.bytes_in);
        assert_eq!(
            report.chunks.unwrap().reused.chunks + report.chunks.unwrap().moved.chunks,
            cut.len() as u64
        );
        // A second upload finds the blob and sends nothing.
        bed.server.clear_counts();
        let again = bed.upload(&data, &bed.up()).await.unwrap();
        assert_eq!(again.form, Form::Present);
        assert_eq!(bed.server.counts().bytes_in, 0);
        assert_eq!(bed.server.counts().calls(Rpc::Splice), 0);
    }
}
