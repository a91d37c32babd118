//! Servers that are slow, stall, or ask the client to wait.

use std::collections::HashSet;

use tidegate::{ErrorKind, Form};
use tidegate_core::retry::RetryPolicy;
use tidegate_core::window::WindowOptions;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{
    Code, Congestion, Cut, GrpcStatus, ReapiFault, ReapiOptions, ReapiRule, Rpc, RpcLatency,
};

use super::bed::{Bed, Way, blob, chunks};
use crate::call::{ChunkedDownloadOptions, UploadOptions};

#[tokio::test]
async fn a_read_that_is_cut_goes_on_at_its_next_byte() {
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    let hash = chunks(&data)[4].hash.clone();
    let cut = Cut::Status(GrpcStatus::new(Code::Unavailable, "midway"));
    let rule = ReapiRule::new(ReapiFault::CutAfter { bytes: 200, cut }).rpc(Rpc::Read);
    bed.server.script().push(rule.hash(&hash));
    bed.download(&name, &bed.down()).await.unwrap();
    assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    let calls = bed.server.calls();
    let reads = calls.iter().filter(|call| call.hashes.contains(&hash));
    let offsets: Vec<_> = reads.map(|call| call.offset).collect();
    assert_eq!(offsets, [0, 200]);
    assert_eq!(bed.server.counts().bytes_out, data.len() as u64, "no byte came twice");
}

#[tokio::test]
async fn a_stalled_read_resumes_in_another_call() {
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    let hash = chunks(&data)[4].hash.clone();
    let fault = ReapiFault::HoldAfter { bytes: 200, gate: Gate::new() };
    bed.server.script().push(ReapiRule::new(fault).rpc(Rpc::Read).hash(&hash));
    let options = ChunkedDownloadOptions { retry: Bed::impatient(), ..bed.down() };
    bed.download(&name, &options).await.unwrap();
    assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    let calls = bed.server.calls();
    let reads = calls.iter().filter(|call| call.hashes.contains(&hash));
    let offsets: Vec<_> = reads.map(|call| call.offset).collect();
    assert_eq!(offsets, [0, 200]);
}

#[tokio::test]
async fn a_write_that_is_cut_goes_on_at_its_next_byte() {
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let hash = chunks(&data)[4].hash.clone();
    let cut = Cut::Status(GrpcStatus::new(Code::Unavailable, "midway"));
    let rule = ReapiRule::new(ReapiFault::CutAfter { bytes: 200, cut }).rpc(Rpc::Write);
    bed.server.script().push(rule.hash(&hash));
    bed.upload(&data, &bed.up()).await.unwrap();
    let calls = bed.server.calls();
    let calls: Vec<_> = calls
        .iter()
        .filter(|call| call.hashes == [hash.clone()] && call.rpc != Rpc::FindMissing)
        .map(|call| (call.rpc, call.offset))
        .collect();
    assert_eq!(calls, [(Rpc::Write, 0), (Rpc::QueryWriteStatus, 0), (Rpc::Write, 200)]);
    assert_eq!(bed.server.counts().bytes_in, data.len() as u64, "no byte went twice");
}

/// The response to `QueryWriteStatus` is checked: the server may forget, and it may respond
/// wrongly.
#[tokio::test]
async fn a_write_restarts_if_the_server_does_not_know_it() {
    let not_found = ReapiFault::Fail(GrpcStatus::new(Code::NotFound, "no such write"));
    let refused = ReapiFault::Fail(GrpcStatus::new(Code::Unimplemented, "not here"));
    let too_much = ReapiFault::Committed(1 << 40);
    let negative = ReapiFault::Committed(-7);
    for fault in [not_found, refused, too_much, negative] {
        let bed = Bed::by(Way::Streams).await;
        // Refused before the server took any byte.
        let busy = GrpcStatus::new(Code::Unavailable, "busy");
        bed.server.script().next(Rpc::Write, ReapiFault::Fail(busy));
        bed.server.script().always(Rpc::QueryWriteStatus, fault.clone());
        match bed.upload(&blob(1), &bed.up()).await {
            Ok(report) => assert_eq!(report.form, Form::Chunks),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Integrity, "{fault:?}: {error:?}"),
        }
    }
}

/// If a server acknowledges fewer bytes than were sent, the write is not done.
#[tokio::test]
async fn an_acknowledgement_of_too_few_bytes_is_not_believed() {
    let bed = Bed::by(Way::Streams).await;
    bed.server
        .script()
        .push(ReapiRule::new(ReapiFault::Committed(3)).rpc(Rpc::Write).nth(2).times(1));
    bed.upload(&blob(1), &bed.up()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_asks_for_a_long_wait_is_given_up() {
    let quota = GrpcStatus::new(Code::ResourceExhausted, "come back tomorrow");
    let fault = ReapiFault::Fail(quota.retry_after_ms(86_400_000));
    for (rpc, up) in [(Rpc::Split, false), (Rpc::BatchRead, false), (Rpc::Splice, true)] {
        let bed = Bed::by(Way::Batches).await;
        let data = blob(1);
        bed.server.script().always(rpc, fault.clone());
        let error = if up {
            bed.upload(&data, &bed.up()).await.unwrap_err()
        } else {
            let name = bed.server.put(data);
            bed.download(&name, &bed.down()).await.unwrap_err()
        };
        let expected = [ErrorKind::Throttled, ErrorKind::Exhausted];
        assert!(expected.contains(&error.kind()), "{rpc:?}: {error:?}");
        // No call is repeated before the time that the server asked for.
        let calls = bed.server.calls();
        let asked: Vec<_> = calls.iter().filter(|call| call.rpc == rpc).collect();
        let distinct: HashSet<_> = asked.iter().map(|call| &call.hashes).collect();
        assert_eq!(asked.len(), distinct.len(), "{rpc:?}");
    }
}

/// The deadline bounds everything, also calls that would be retried for ever.
#[tokio::test]
async fn a_deadline_ends_endless_retries() {
    for rpc in [Rpc::Capabilities, Rpc::Split, Rpc::BatchRead] {
        let bed = Bed::by(Way::Batches).await;
        let name = bed.server.put(blob(1));
        bed.server.script().always(rpc, ReapiFault::Lost);
        let retry = RetryPolicy { deadline_ms: Some(100), ..Bed::retry() };
        let options = ChunkedDownloadOptions { retry, ..bed.down() };
        let error = bed.download(&name, &options).await.unwrap_err();
        assert_eq!((error.kind(), bed.arrived()), (ErrorKind::Exhausted, None), "{error:?}");
    }
    for rpc in [Rpc::Capabilities, Rpc::FindMissing, Rpc::BatchUpdate, Rpc::Splice] {
        let bed = Bed::by(Way::Batches).await;
        bed.server.script().always(rpc, ReapiFault::Lost);
        let retry = RetryPolicy { deadline_ms: Some(100), ..Bed::retry() };
        let options = UploadOptions { retry, ..bed.up() };
        let error = bed.upload(&blob(1), &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{rpc:?}: {error:?}");
    }
}

/// The adaptive window, over a jittery network and a server that slows down under load.
#[tokio::test]
async fn an_adaptive_window_transfers_the_same_bytes() {
    for way in Way::ALL {
        let options = ReapiOptions {
            latency: RpcLatency { mean_ms: 3, jitter_ms: 3 },
            congestion: Some(Congestion { calls: 8, us_per_call: 500 }),
            ..way.options()
        };
        let bed = Bed::new(options).await;
        let data = blob(1);
        let options = UploadOptions { window: WindowOptions::default(), ..bed.up() };
        bed.upload(&data, &options).await.unwrap();
        let name = tidegate_testkit::reapi::HashFunction::Sha256.name(&data);
        let options = ChunkedDownloadOptions { window: WindowOptions::default(), ..bed.down() };
        bed.download(&name, &options).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    }
}

/// The client stays within a server's limit of calls on one connection.
#[tokio::test]
async fn transfers_work_with_few_calls_per_connection() {
    for way in Way::ALL {
        let bed = Bed::new(ReapiOptions { streams_max: 2, ..way.options() }).await;
        let data = blob(1);
        bed.upload(&data, &bed.up()).await.unwrap();
        let name = tidegate_testkit::reapi::HashFunction::Sha256.name(&data);
        bed.download(&name, &bed.down()).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    }
}

/// Bytes without acknowledgement are shown as in flight, and do not count twice at the end.
#[tokio::test]
async fn sent_bytes_are_shown_before_they_are_acknowledged() {
    for (way, rpc) in [(Way::Batches, Rpc::BatchUpdate), (Way::Streams, Rpc::Write)] {
        let bed = Bed::by(way).await;
        let gate = Gate::new();
        bed.server.script().always(rpc, ReapiFault::Hold(gate.clone()));
        let (data, options) = (blob(3), bed.up());
        let shown = async {
            loop {
                let shown = options.progress.snapshot();
                assert_eq!(shown.done_bytes, shown.reused_bytes, "{way:?}");
                if shown.going_bytes > 0 {
                    break gate.open();
                }
                tokio::task::yield_now().await;
            }
        };
        let (report, ()) = tokio::join!(bed.upload(&data, &options), shown);
        let sent = report.unwrap().chunks.unwrap().moved.bytes;
        let shown = options.progress.snapshot();
        assert_eq!(
            (shown.done_bytes - shown.reused_bytes, shown.going_bytes),
            (sent, 0),
            "{way:?}"
        );
    }
}
