//! A connection that goes silent in the midst of a transfer: nothing says that it is gone, and the
//! transfer goes on over another all the same.
//!
//! The clock stands while nothing can happen but a timer, and then jumps to that.

use std::time::Duration;

use tidegate::Form;
use tidegate::remote::reapi;
use tidegate_testkit::reapi::{ReapiFault, ReapiRule, Rpc};

use super::bed::{Bed, Way, blob};

/// Less than what the bed takes for a hang, with the 20 s that a server has to answer.
const SILENCE_MS: u64 = 5_000;
/// Both of these, and one for the steps of the clock.
const GIVEN_UP_SECONDS: u64 = 5 + 20 + 1;

/// A cache whose one connection goes silent at the second call of this kind.
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

/// Lets the clock stand from the silence until calls come over another connection.
async fn jump(bed: &Bed) {
    while bed.server.script().applied() == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let mut seconds = 0;
    while bed.server.connections() < 2 {
        // Not a yield: then there would always be something to do, and the clock would not move.
        tokio::time::sleep(Duration::from_secs(1)).await;
        seconds += 1;
        assert!(seconds <= GIVEN_UP_SECONDS, "the connection is not given up");
    }
    tokio::time::resume();
}

#[tokio::test]
async fn a_download_goes_on_over_another_connection() {
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
async fn an_upload_goes_on_over_another_connection() {
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
