//! Cuts of connections with gRPC: each byte of a recorded request.

use futures_util::StreamExt as _;

use super::recorded::{Goodbye, record, send_cut};
use super::{CUTS, calls, memory_is_free, serves_on};
use crate::bed::Bed;

async fn cut_everywhere(goodbye: Goodbye) {
    // A call names something when it is recorded, so its cuts need a server of their own.
    let recorder = Bed::new().await;
    let bed = Bed::new().await;
    calls::all(&bed).await;
    let mut is_first = true;
    for call in calls::all(&recorder).await {
        let recording = record(&recorder, &call).await;
        assert!(recording.bytes.len() >= call.request.len());
        // All connections begin alike.
        let start = if is_first { 0 } else { recording.start };
        is_first = false;
        let cuts = futures_util::stream::iter(start..recording.data_end).map(|cut| {
            let (bed, bytes) = (&bed, &recording.bytes[..cut]);
            async move {
                send_cut(bed, bytes, goodbye).await;
            }
        });
        cuts.buffer_unordered(CUTS).collect::<Vec<()>>().await;
        memory_is_free(&bed).await;
        call.names_nothing(&bed).await;
        send_cut(&bed, &recording.bytes, Goodbye::End).await;
    }
    serves_on(&bed).await;
    recorder.end().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_at_any_byte_is_closed_and_names_nothing() {
    cut_everywhere(Goodbye::End).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reset_at_any_byte_names_nothing() {
    cut_everywhere(Goodbye::Reset).await;
}
