//! Cuts of streams, which their connection survives.

use futures_util::StreamExt as _;
use tonic::Code;

use super::{CUTS, calls, memory_is_free, serves_on};
use crate::bed::Bed;
use crate::raw::RawConnection;

/// The server closes a connection with 20 streams that were reset before it saw them.
const UNSEEN_RESETS_MAX: usize = 10;

/// The end of the stream is no end of the message.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_at_any_byte_has_a_precise_status() {
    let bed = Bed::new().await;
    let connection = RawConnection::open(&bed).await;
    for call in calls::all(&bed).await {
        let cuts = futures_util::stream::iter(0..call.request.len()).map(|cut| {
            let (call, connection) = (&call, &connection);
            async move {
                let mut raw = connection.call(&call.path, None).await;
                raw.send(&call.request[..cut]).await;
                raw.end();
                // A write that ends between messages may continue later.
                let is_pause = call.ends.contains(&cut);
                let expected = if is_pause { Code::Ok } else { Code::InvalidArgument };
                let len = call.request.len();
                assert_eq!(raw.outcome().await.0, expected, "{} cut at {cut} of {len}", call.path);
            }
        });
        cuts.buffer_unordered(CUTS).collect::<Vec<()>>().await;
        call.names_nothing(&bed).await;
        memory_is_free(&bed).await;
        let mut raw = connection.call(&call.path, None).await;
        raw.send(&call.request).await;
        raw.end();
        assert_eq!(raw.outcome().await.0, Code::Ok, "{} whole", call.path);
        call.is_done(&bed).await;
    }
    serves_on(&bed).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_reset_at_any_byte_names_nothing() {
    let bed = Bed::new().await;
    let connection = RawConnection::open(&bed).await;
    let known = calls::all(&bed).await.pop().unwrap();
    for call in calls::all(&bed).await {
        for cut in 0..call.request.len() {
            let mut raw = connection.call(&call.path, None).await;
            raw.send(&call.request[..cut]).await;
            raw.reset();
            if cut % UNSEEN_RESETS_MAX == 0 {
                // The connection serves on; it ends only if a client resets too much at once.
                let mut whole = connection.call(&known.path, None).await;
                whole.send(&known.request).await;
                whole.end();
                assert_eq!(whole.outcome().await.0, Code::Ok);
            }
        }
        memory_is_free(&bed).await;
        call.names_nothing(&bed).await;
    }
    serves_on(&bed).await;
    bed.end().await;
}
