//! A connection that goes silent during a transfer, without an error. The transfer continues over
//! another connection.
//!
//! The clock is paused: it advances only when every task waits, and then jumps to the next timer.

use std::time::Duration;

use tidegate::Form;
use tidegate::remote::reapi;
use tidegate_testkit::reapi::{ReapiFault, ReapiRule, Rpc};

use super::bed::{Bed, Way, blob};

/// With the 20 s that a server has to respond, less than the timeout of `Bed`.
const SILENCE_MS: u64 = 5_000;
/// 5 s of silence, 20 s for a response, and 1 s for the steps of the clock.
const GIVEN_UP_SECONDS: u64 = 5 + 20 + 1;

/// A cache whose only connection goes silent at the second call of this kind.
async fn silenced(way: Way, rpc: Rpc) -> Bed {
    let client = reapi::ReapiOptions {
        keep_alive_ms: Some(SILENCE_MS),
        connections_max: 1,
        ..reapi::ReapiOptions::default()
    };
    let bed = Bed::with(way.options(), &client).await;
    bed.server.script().push(ReapiRule::new(ReapiFault::Silence).rpc(rpc).nth(2));
    bed
}

/// Pauses the clock from the silence until calls arrive over another connection.
async fn jump(bed: &Bed) {
    while bed.server.script().applied() == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let mut seconds = 0;
    while bed.server.connections() < 2 {
        // Not a yield: then a task would always be ready, and the clock would not advance.
        tokio::time::sleep(Duration::from_secs(1)).await;
        seconds += 1;
        assert!(seconds <= GIVEN_UP_SECONDS, "the connection is not given up");
    }
    tokio::time::resume();
}

#[tokio::test]
async fn a_download_continues_on_another_connection() {
    for (way, rpc) in [(Way::Batches, Rpc::BatchRead), (Way::Streams, Rpc::Read)] {
        let bed = silenced(way, rpc).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let options = bed.down();
        let (outcome, ()) = tokio::join!(bed.download(&name, &options), jump(&bed));
        let report = outcome.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "{way:?}");
        assert!(report.form != Form::Whole, "{way:?}");
        assert_eq!(bed.server.connections(), 2, "{way:?}");
    }
}

#[tokio::test]
async fn an_upload_continues_on_another_connection() {
    for (way, rpc) in [
        (Way::Batches, Rpc::FindMissing),
        (Way::Batches, Rpc::BatchUpdate),
        (Way::Streams, Rpc::Write),
    ] {
        let bed = silenced(way, rpc).await;
        let data = blob(2);
        let options = bed.up();
        let (outcome, ()) = tokio::join!(bed.upload(&data, &options), jump(&bed));
        outcome.unwrap();
        assert_eq!(bed.server.connections(), 2, "{way:?} {rpc:?}");
    }
}
