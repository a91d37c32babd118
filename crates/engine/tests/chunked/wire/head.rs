//! A slow chunk delays only itself. A target that takes bytes in order holds no more than the
//! budget grants.

use tidegate_core::window::WindowOptions;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{ReapiFault, ReapiRule, Rpc};

use super::bed::{BUDGET_BYTES, Bed, Collect, LEN, Way, blob, chunks};
use crate::call::ChunkedDownloadOptions;

/// Holds the call for the first chunk until the gate opens.
fn hold_head(bed: &Bed, data: &[u8], gate: &Gate) {
    let head = chunks(data).swap_remove(0);
    bed.server.script().push(ReapiRule::new(ReapiFault::Hold(gate.clone())).hash(head.hash));
}

#[tokio::test]
async fn a_slow_first_chunk_delays_no_other_chunk_of_a_file() {
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    let gate = Gate::new();
    hold_head(&bed, &data, &gate);
    let options = bed.down();
    let rest = chunks(&data).len() - 1;
    let mut download = Box::pin(bed.download(&name, &options));
    tokio::select! {
        ended = &mut download => panic!("{ended:?}"),
        // All other chunks arrive, far beyond the window and the budget.
        () = bed.server.counted(|counts| counts.served_all().len() >= rest) => {}
    }
    assert_eq!(bed.server.counts().served(&chunks(&data)[0].hash), 0);
    gate.open();
    let report = download.await.unwrap();
    assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    assert!(report.held_bytes_peak <= BUDGET_BYTES);
    assert!(bed.server.counts().rpc(Rpc::Read).in_flight_peak <= 16);
}

#[tokio::test]
async fn a_slow_first_chunk_delays_no_other_batch() {
    let bed = Bed::by(Way::Batches).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    let gate = Gate::new();
    hold_head(&bed, &data, &gate);
    let options = bed.down();
    let mut download = Box::pin(bed.download(&name, &options));
    tokio::select! {
        ended = &mut download => panic!("{ended:?}"),
        // All chunks except those in the same batch.
        () = bed.server.counted(|counts| counts.bytes_out >= LEN as u64 - (16 << 10)) => {}
    }
    gate.open();
    download.await.unwrap();
    assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
}

#[tokio::test]
async fn bytes_behind_a_slow_first_chunk_stay_within_the_budget() {
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    let gate = Gate::new();
    hold_head(&bed, &data, &gate);
    let options = ChunkedDownloadOptions { window: WindowOptions::fixed(64), ..bed.down() };
    let output = Collect::default();
    let mut download = Box::pin(bed.download_to(&name, output.target(), &options));
    tokio::select! {
        ended = &mut download => panic!("{ended:?}"),
        () = gate.reached(1) => {}
    }
    // Bytes arrive until the budget is used up, and no further.
    let come = bed.server.counted(|counts| counts.bytes_out >= BUDGET_BYTES);
    let bounded = tokio::time::timeout(std::time::Duration::from_millis(300), async {
        tokio::select! {
            ended = &mut download => panic!("{ended:?}"),
            () = come => {}
        }
    });
    assert!(bounded.await.is_err(), "{} bytes came", bed.server.counts().bytes_out);
    assert!(output.bytes().is_empty());
    gate.open();
    download.await.unwrap();
    assert_eq!(output.bytes(), data);
}

#[tokio::test]
async fn memory_and_ordered_targets_get_the_same_bytes() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let output = Collect::default();
        bed.download_to(&name, output.target(), &bed.down()).await.unwrap();
        assert_eq!(output.bytes(), data);
    }
}
