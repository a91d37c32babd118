//! Responses of Split that cannot be right: no chunk is fetched by them. The download fetches the
//! whole blob, or fails if the caller allows only chunks.

use tidegate::{ErrorKind, Form};
use tidegate_testkit::reapi::{
    ChunkFunction, Code, GrpcStatus, ReapiFault, ReapiOptions, Rpc, SplitLie,
};

use super::bed::{Bed, CUT, Way, blob};
use crate::call::ChunkedDownloadOptions;

fn lies() -> Vec<SplitLie> {
    vec![
        SplitLie::Empty,
        SplitLie::ZeroLength,
        SplitLie::NegativeLength,
        SplitLie::Oversized,
        SplitLie::SumShort,
        SplitLie::SumLong,
        SplitLie::Overflow,
        SplitLie::Repeated(1_000_000),
        SplitLie::ShortHash,
        SplitLie::UpperCaseHash,
        SplitLie::PathHash,
    ]
}

#[tokio::test]
async fn no_chunk_of_an_invalid_manifest_is_fetched() {
    for way in Way::ALL {
        for lie in lies() {
            let bed = Bed::by(way).await;
            let name = bed.server.put(blob(1));
            bed.server.script().always(Rpc::Split, ReapiFault::Split(lie.clone()));
            let options = ChunkedDownloadOptions { whole_fallback: false, ..bed.down() };
            let error = bed.download(&name, &options).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Integrity, "{lie:?}: {error:?}");
            let counts = bed.server.counts();
            assert_eq!(counts.bytes_out, 0, "{lie:?}");
            assert_eq!((counts.calls(Rpc::Split), bed.arrived()), (1, None), "{lie:?}");
        }
    }
}

#[tokio::test]
async fn with_an_invalid_manifest_the_blob_is_fetched_whole() {
    for way in Way::ALL {
        for lie in lies() {
            let bed = Bed::by(way).await;
            let data = blob(1);
            let name = bed.server.put(data.clone());
            bed.server.script().always(Rpc::Split, ReapiFault::Split(lie.clone()));
            let report = bed.download(&name, &bed.down()).await.unwrap();
            assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "{lie:?}");
            assert!(report.form == Form::Whole && !report.notes.is_empty(), "{lie:?} {report:?}");
            assert_eq!(bed.server.counts().bytes_out, data.len() as u64, "{lie:?}");
            assert_eq!(bed.server.counts().served_all().len(), 1, "{lie:?}");
        }
    }
}

/// A cache may fail only at Split, in any way, and still have the blob.
#[tokio::test]
async fn without_a_manifest_response_the_blob_is_fetched_whole() {
    let fail = |code| ReapiFault::Fail(GrpcStatus::new(code, "scripted"));
    for fault in [
        ReapiFault::Lost,
        ReapiFault::AnswerLost,
        fail(Code::Unavailable),
        fail(Code::Internal),
        fail(Code::InvalidArgument),
        fail(Code::FailedPrecondition),
        fail(Code::DeadlineExceeded),
    ] {
        let bed = Bed::by(Way::Batches).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        bed.server.script().always(Rpc::Split, fault.clone());
        let options = ChunkedDownloadOptions { retry: Bed::impatient(), ..bed.down() };
        let report = bed.download(&name, &options).await.unwrap_or_else(|error| {
            panic!("{fault:?}: {error:?}");
        });
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "{fault:?}");
        assert!(report.form == Form::Whole && !report.notes.is_empty(), "{fault:?} {report:?}");
    }
}

#[tokio::test]
async fn a_manifest_of_another_blob_is_detected() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let name = bed.server.put(blob(1));
        bed.server.script().always(Rpc::Split, ReapiFault::Split(SplitLie::Exchanged));
        let options = ChunkedDownloadOptions { whole_fallback: false, ..bed.down() };
        let error = bed.download(&name, &options).await.unwrap_err();
        assert_eq!((error.kind(), bed.arrived()), (ErrorKind::Integrity, None), "{error:?}");
    }
}

#[tokio::test]
async fn a_manifest_with_another_chunking_function_is_accepted() {
    for way in Way::ALL {
        // The response names another function than the one asked for. Its chunks are longer, and
        // the server advertises it.
        let other = ChunkFunction::RepMaxCdc { min_bytes: 64 << 10, horizon_bytes: 64 << 10 };
        let options = ReapiOptions { chunk_functions: vec![CUT, other], ..way.options() };
        let bed = Bed::new(options).await;
        let data = blob(1);
        let (name, chunks) = bed.server.put_chunked(
            tidegate_testkit::reapi::HashFunction::Sha256,
            other,
            data.clone(),
        );
        let report = bed.download(&name, &bed.down()).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
        assert_eq!(
            (report.form == Form::Whole, report.chunks.unwrap().all.chunks),
            (false, chunks.len() as u64)
        );
    }
}

#[tokio::test]
async fn an_unknown_chunking_function_does_not_stop_a_download() {
    let bed = Bed::by(Way::Batches).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    bed.server.script().always(Rpc::Split, ReapiFault::Split(SplitLie::NamesFunction(99)));
    bed.download(&name, &bed.down()).await.unwrap();
    assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
}
