//! Transfers that end early. Nothing is in flight afterwards, the part file stays, and the next
//! attempt fetches the rest. `Bed` checks after every transfer that nothing is in flight or held.

use tidegate::ErrorKind;
use tidegate_core::window::WindowOptions;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{Code, GrpcStatus, HashFunction, ReapiFault, ReapiRule, Rpc};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, Way, blob, chunks};
use crate::call::{ChunkedDownloadOptions, UploadOptions};

const EVERY: [Rpc; 7] = [
    Rpc::Capabilities,
    Rpc::Split,
    Rpc::BatchRead,
    Rpc::Read,
    Rpc::FindMissing,
    Rpc::Splice,
    Rpc::Write,
];

#[tokio::test]
async fn a_cancelled_download_leaves_nothing_in_flight_wherever_it_was() {
    for way in Way::ALL {
        for rpc in EVERY {
            let bed = Bed::by(way).await;
            let name = bed.server.put(blob(1));
            let gate = Gate::new();
            bed.server.script().always(rpc, ReapiFault::Hold(gate.clone()));
            let cancel = CancellationToken::new();
            let options = ChunkedDownloadOptions { cancel: cancel.clone(), ..bed.down() };
            let mut download = Box::pin(bed.download(&name, &options));
            let reached = tokio::select! {
                ended = &mut download => { ended.unwrap(); false }
                () = gate.reached(1) => true,
            };
            if reached {
                cancel.cancel();
                let error = download.await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{error:?}");
                assert_eq!(bed.arrived(), None, "{way:?} {rpc:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_upload_leaves_nothing_in_flight_wherever_it_was() {
    for way in Way::ALL {
        for rpc in [Rpc::Capabilities, Rpc::FindMissing, Rpc::BatchUpdate, Rpc::Write, Rpc::Splice]
        {
            let bed = Bed::by(way).await;
            let data = blob(1);
            let gate = Gate::new();
            bed.server.script().always(rpc, ReapiFault::Hold(gate.clone()));
            let cancel = CancellationToken::new();
            let options = UploadOptions { cancel: cancel.clone(), ..bed.up() };
            let mut upload = Box::pin(bed.upload(&data, &options));
            let reached = tokio::select! {
                ended = &mut upload => { ended.unwrap(); false }
                () = gate.reached(1) => true,
            };
            if reached {
                cancel.cancel();
                let error = upload.await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{error:?}");
                assert!(!bed.server.contains(&HashFunction::Sha256.name(&data)));
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_transfer_leaves_nothing_in_flight() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let gate = Gate::new();
        for rpc in [Rpc::BatchRead, Rpc::Read, Rpc::BatchUpdate, Rpc::Write] {
            bed.server.script().always(rpc, ReapiFault::Hold(gate.clone()));
        }
        let options = bed.down();
        let mut download = Box::pin(bed.download(&name, &options));
        tokio::select! {
            ended = &mut download => panic!("{ended:?}"),
            () = gate.reached(1) => {}
        }
        drop(download);
        bed.settled().await;
        let reads = [Rpc::BatchRead, Rpc::Read].map(|rpc| bed.server.counts().calls(rpc));
        let arrived = reads.iter().sum::<usize>() as u64 + 1;
        let options = bed.up();
        let other = blob(2);
        let mut upload = Box::pin(bed.upload(&other, &options));
        tokio::select! {
            ended = &mut upload => panic!("{ended:?}"),
            () = gate.reached(arrived) => {}
        }
        drop(upload);
        bed.settled().await;
    }
}

#[tokio::test]
async fn the_first_error_ends_the_rest_and_is_the_one_reported() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let gate = Gate::new();
        let rpc = if way == Way::Batches { Rpc::BatchRead } else { Rpc::Read };
        // The first request waits for ever; the second is refused.
        let refusal = GrpcStatus::new(Code::PermissionDenied, "the second");
        bed.server.script().push(ReapiRule::new(ReapiFault::Fail(refusal)).rpc(rpc).nth(2));
        bed.server.script().push(ReapiRule::new(ReapiFault::Hold(gate)).rpc(rpc));
        let error = bed.download(&name, &bed.down()).await.unwrap_err();
        assert_eq!((error.kind(), bed.arrived()), (ErrorKind::NoAccess, None), "{error:?}");
    }
}

#[tokio::test]
async fn chunks_that_arrived_before_the_end_are_not_fetched_again() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let rpc = if way == Way::Batches { Rpc::BatchRead } else { Rpc::Read };
        let gate = Gate::new();
        let half = chunks(&data).len() as u64 / 2;
        let nth = if way == Way::Batches { 8 } else { half };
        bed.server
            .script()
            .push(ReapiRule::new(ReapiFault::Hold(gate.clone())).rpc(rpc).nth(nth).always());
        let cancel = CancellationToken::new();
        // One request at a time: at the gate, all earlier responses except the last have been
        // written.
        let window = WindowOptions::fixed(1);
        let options = ChunkedDownloadOptions { cancel: cancel.clone(), window, ..bed.down() };
        let mut download = Box::pin(bed.download(&name, &options));
        tokio::select! {
            ended = &mut download => panic!("{ended:?}"),
            () = gate.reached(1) => {}
        }
        cancel.cancel();
        download.await.unwrap_err();
        let before = bed.server.counts().bytes_out;
        assert!(before > 0);
        gate.open();
        bed.server.clear_counts();
        let report = bed.download(&name, &bed.down()).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
        let after = bed.server.counts().bytes_out;
        assert!(report.resumed_bytes > 0, "{way:?} {report:?}");
        assert_eq!(
            after + report.resumed_bytes + report.chunks.unwrap().reused.bytes,
            data.len() as u64
        );
        // The bytes in flight at the end may come twice: those of one request.
        assert!(before + after <= data.len() as u64 + (32 << 10), "{way:?} {before} {after}");
    }
}
