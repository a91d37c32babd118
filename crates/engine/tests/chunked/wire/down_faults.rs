//! Downloads survive every fault that occurs once. A fault that persists is an error of the right
//! kind, and leaves nothing under the target's name.

use futures_util::future::join_all;
use tidegate::{ErrorKind, Form};
use tidegate_testkit::reapi::{
    BatchLie, BlobName, Code, Cut, GrpcStatus, ReapiFault, ReapiRule, Rpc,
};

use super::bed::{Bed, Way, blob, chunks};
use crate::call::ChunkedDownloadOptions;

const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const INTERNAL_ERROR: u32 = 2;

fn fail(code: Code) -> ReapiFault {
    ReapiFault::Fail(GrpcStatus::new(code, "scripted"))
}

/// The call that fetches chunks.
fn fetch_rpc(way: Way) -> Rpc {
    match way {
        Way::Batches => Rpc::BatchRead,
        Way::Streams => Rpc::Read,
    }
}

/// Downloads a blob with one fault and expects it whole. Returns the number of calls of that kind.
async fn survives(way: Way, rpc: Rpc, fault: &ReapiFault, nth: u64) -> usize {
    let bed = Bed::by(way).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    bed.server.script().push(ReapiRule::new(fault.clone()).rpc(rpc).nth(nth));
    let options = ChunkedDownloadOptions { retry: Bed::impatient(), ..bed.down() };
    let outcome = bed.download(&name, &options).await;
    let report = outcome.unwrap_or_else(|error| panic!("{way:?} {rpc:?} {fault:?}: {error:?}"));
    assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "{way:?} {rpc:?} {fault:?}");
    assert_eq!(bed.server.script().applied(), 1, "{way:?} {rpc:?} {fault:?}");
    assert!(report.form != Form::Whole, "{way:?} {rpc:?} {fault:?}");
    assert_eq!(report.chunks.unwrap().moved.bytes, data.len() as u64, "each byte counts once");
    bed.server.counts().calls(rpc)
}

/// The number of calls of a kind that a download makes without faults.
async fn undisturbed(way: Way, rpc: Rpc) -> usize {
    let bed = Bed::by(way).await;
    let name = bed.server.put(blob(1));
    bed.download(&name, &bed.down()).await.unwrap();
    assert_eq!(bed.server.counts().calls(Rpc::FindMissing), 0);
    bed.server.counts().calls(rpc)
}

/// A server that does not know batches, or makes shorter messages than it says.
#[tokio::test]
async fn chunks_are_fetched_alone_if_batches_fail() {
    let long = GrpcStatus::new(Code::ResourceExhausted, "message larger than max (9 vs. 4)");
    for fault in [fail(Code::Unimplemented), ReapiFault::Fail(long)] {
        let bed = Bed::by(Way::Batches).await;
        bed.server.script().always(Rpc::BatchRead, fault);
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let report = bed.download(&name, &bed.down()).await.unwrap();
        assert!(report.form != Form::Whole);
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
        assert_eq!(bed.server.counts().calls(Rpc::Read), chunks(&data).len());
        let batches = bed.server.counts().calls(Rpc::BatchRead);
        assert!(batches <= 16, "{batches}: no more than were in flight");
    }
}

#[tokio::test]
async fn a_call_that_fails_once_is_made_once_more() {
    let quota = GrpcStatus::new(Code::ResourceExhausted, "quota").retry_after_ms(1);
    let faults = [
        fail(Code::Unavailable),
        fail(Code::Internal),
        fail(Code::Aborted),
        fail(Code::DeadlineExceeded),
        ReapiFault::Fail(quota),
        ReapiFault::FailAfter(GrpcStatus::new(Code::Unavailable, "afterwards")),
        ReapiFault::Reset(CANCEL),
        ReapiFault::Reset(INTERNAL_ERROR),
    ];
    for way in Way::ALL {
        for rpc in [Rpc::Capabilities, Rpc::Split, fetch_rpc(way)] {
            let expected = undisturbed(way, rpc).await;
            for fault in &faults {
                // A chunk that has arrived whole is accepted, even if its call then fails.
                let has_come = rpc == Rpc::Read && matches!(fault, ReapiFault::FailAfter(_));
                let calls = survives(way, rpc, fault, 1).await;
                assert_eq!(calls, expected + usize::from(!has_come), "{rpc:?} {fault:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_lost_call_times_out_and_is_retried() {
    for way in Way::ALL {
        for rpc in [Rpc::Capabilities, Rpc::Split, fetch_rpc(way)] {
            for fault in [ReapiFault::Lost, ReapiFault::AnswerLost] {
                let expected = undisturbed(way, rpc).await + 1;
                assert_eq!(survives(way, rpc, &fault, 1).await, expected, "{rpc:?} {fault:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_closed_connection_does_not_end_a_transfer() {
    for way in Way::ALL {
        for rpc in [Rpc::Capabilities, Rpc::Split, fetch_rpc(way)] {
            for fault in [ReapiFault::Close, ReapiFault::GoAway, ReapiFault::Reset(REFUSED_STREAM)]
            {
                survives(way, rpc, &fault, 1).await;
            }
        }
        survives(way, fetch_rpc(way), &ReapiFault::Close, 5).await;
        survives(way, fetch_rpc(way), &ReapiFault::GoAway, 5).await;
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_goes_on_where_it_was_cut() {
    for cut in [
        Cut::Status(GrpcStatus::new(Code::Unavailable, "midway")),
        Cut::Reset(CANCEL),
        Cut::Close,
        Cut::End,
    ] {
        for bytes in [0, 1, 200] {
            let fault = ReapiFault::CutAfter { bytes, cut: cut.clone() };
            survives(Way::Streams, Rpc::Read, &fault, 3).await;
        }
    }
}

#[tokio::test]
async fn wrong_bytes_once_are_fetched_again() {
    for way in Way::ALL {
        survives(way, fetch_rpc(way), &ReapiFault::FlipBit(100), 2).await;
    }
    survives(Way::Streams, Rpc::Read, &ReapiFault::Longer(1), 2).await;
    survives(Way::Batches, Rpc::BatchRead, &ReapiFault::Batch(BatchLie::ShortByOne), 2).await;
}

#[tokio::test]
async fn one_odd_batch_response_does_no_harm() {
    let failed = BatchLie::FailFirst(GrpcStatus::new(Code::Unavailable, "one of them"));
    survives(Way::Batches, Rpc::BatchRead, &ReapiFault::Batch(failed), 2).await;
    survives(Way::Batches, Rpc::BatchRead, &ReapiFault::Batch(BatchLie::Reversed), 2).await;
}

/// Downloads with a fault that persists, and expects an error of this kind and nothing else.
async fn fails(way: Way, rpc: Rpc, fault: ReapiFault, kind: ErrorKind) -> usize {
    let bed = Bed::by(way).await;
    let name = bed.server.put(blob(1));
    bed.file("target", b"what was there before");
    bed.server.script().always(rpc, fault.clone());
    let retry = Bed::impatient();
    let options = ChunkedDownloadOptions { retry, whole_fallback: false, ..bed.down() };
    let error = bed.download(&name, &options).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{way:?} {rpc:?} {fault:?}: {error:?}");
    assert_eq!(bed.arrived().as_deref(), Some(&b"what was there before"[..]));
    bed.server.counts().calls(rpc)
}

#[tokio::test]
async fn a_call_that_always_fails_is_given_up_after_its_attempts() {
    let attempts = Bed::retry().attempts_max as usize;
    for way in Way::ALL {
        let cases = [Rpc::Capabilities, Rpc::Split].into_iter().flat_map(|rpc| {
            [fail(Code::Unavailable), ReapiFault::Lost, ReapiFault::Close].map(|fault| (rpc, fault))
        });
        // In parallel, because some of them wait for a timeout.
        let calls =
            join_all(cases.map(|(rpc, fault)| fails(way, rpc, fault, ErrorKind::Exhausted)));
        // If a server closes each connection before its first response, it counts as unreachable.
        let first_contact = 4;
        let all = [attempts, attempts, first_contact, attempts, attempts, attempts];
        assert_eq!(calls.await, all, "{way:?}");
        // Several of these calls are in flight, and each may use up its attempts.
        let calls = fails(way, fetch_rpc(way), fail(Code::Unavailable), ErrorKind::Exhausted).await;
        assert!((attempts..=16 * attempts).contains(&calls), "{way:?} {calls}");
    }
}

#[tokio::test]
async fn a_refused_call_is_not_retried() {
    for way in Way::ALL {
        for rpc in [Rpc::Capabilities, Rpc::Split] {
            for (code, kind) in [
                (Code::PermissionDenied, ErrorKind::NoAccess),
                (Code::Unauthenticated, ErrorKind::NoAccess),
                (Code::InvalidArgument, ErrorKind::Remote),
            ] {
                assert_eq!(fails(way, rpc, fail(code), kind).await, 1, "{rpc:?} {code:?}");
            }
        }
        let refused = fail(Code::PermissionDenied);
        let calls = fails(way, fetch_rpc(way), refused, ErrorKind::NoAccess).await;
        assert!(calls <= 16, "{calls}: no more than were in flight");
    }
}

#[tokio::test]
async fn bytes_that_are_always_wrong_are_never_delivered() {
    for way in Way::ALL {
        fails(way, fetch_rpc(way), ReapiFault::FlipBit(3), ErrorKind::Integrity).await;
    }
    let short = ReapiFault::Batch(BatchLie::ShortByOne);
    fails(Way::Batches, Rpc::BatchRead, short, ErrorKind::Integrity).await;
}

#[tokio::test]
async fn a_missing_result_in_a_batch_is_given_up() {
    // If one chunk of a batch never gets a response, the batches shrink, down to that chunk.
    let omitted = ReapiFault::Batch(BatchLie::Omitted);
    fails(Way::Batches, Rpc::BatchRead, omitted, ErrorKind::Exhausted).await;
    let foreign = ReapiFault::Batch(BatchLie::Foreign);
    fails(Way::Batches, Rpc::BatchRead, foreign, ErrorKind::Exhausted).await;
}

#[tokio::test]
async fn a_blob_that_is_not_there_is_not_found() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = tidegate_testkit::reapi::HashFunction::Sha256.name(&data);
        let error = bed.download(&name, &bed.down()).await.unwrap_err();
        assert_eq!((error.kind(), bed.arrived()), (ErrorKind::NotFound, None));
    }
}

#[tokio::test]
async fn every_chunk_is_fetched_once() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let report = bed.download(&name, &bed.down()).await.unwrap();
        let cut: Vec<BlobName> = chunks(&data);
        let counts = bed.server.counts();
        assert_eq!(counts.served_all().len(), cut.len(), "chunks and nothing else");
        assert!(cut.iter().all(|chunk| counts.served(&chunk.hash) == 1));
        assert_eq!(
            (report.chunks.unwrap().all.chunks, report.chunks.unwrap().moved.chunks),
            (cut.len() as u64, cut.len() as u64)
        );
        assert_eq!(counts.bytes_out, data.len() as u64);
        if way == Way::Batches {
            let batches: Vec<_> =
                counts.batches.iter().filter(|batch| batch.rpc == Rpc::BatchRead).collect();
            assert!(batches.iter().all(|batch| batch.bytes <= 16 << 10), "{batches:?}");
            // Each batch is so full that the next chunk does not fit.
            assert!(batches.len() <= LEN_BATCHES_MAX, "{}", batches.len());
        }
    }
}

/// 256 KiB in batches of 16 KiB less a chunk of at most 4 KiB, and as many again while few are in
/// flight.
const LEN_BATCHES_MAX: usize = 44;
