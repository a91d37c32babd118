//! Transfers that are cancelled at each of their calls in turn, and then continued.

use tidegate::ErrorKind;
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, Way, blob};
use crate::call::{ChunkedDownloadOptions, UploadOptions};

/// Calls between two cancellations: 1 if a transfer has few calls, more if it has hundreds.
fn step(way: Way) -> usize {
    match way {
        Way::Batches => 1,
        Way::Streams => 23,
    }
}

#[tokio::test]
async fn a_download_that_ends_at_any_call_can_be_resumed() {
    for way in Way::ALL {
        let mut ends = 0;
        for calls in (1..).step_by(step(way)) {
            let bed = Bed::by(way).await;
            let data = blob(1);
            let name = bed.server.put(data.clone());
            let cancel = CancellationToken::new();
            let options = ChunkedDownloadOptions { cancel: cancel.clone(), ..bed.down() };
            let mut download = Box::pin(bed.download(&name, &options));
            tokio::select! {
                ended = &mut download => {
                    ended.unwrap();
                    break;
                }
                () = bed.server.counted(|counts| counts.total.arrived >= calls) => cancel.cancel(),
            }
            match download.await {
                Ok(_) => assert_eq!(bed.arrived().as_deref(), Some(&data[..])),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Cancelled, "{way:?} {calls}: {error:?}");
                    assert_eq!(bed.arrived(), None, "{way:?} {calls}");
                }
            }
            bed.download(&name, &bed.down()).await.unwrap();
            assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "{way:?} {calls}");
            ends += 1;
        }
        assert!(ends >= 3, "{way:?}: {ends}");
    }
}

#[tokio::test]
async fn an_upload_that_ends_at_any_call_can_be_resumed() {
    for way in Way::ALL {
        let mut ends = 0;
        for calls in (1..).step_by(step(way)) {
            let bed = Bed::by(way).await;
            let data = blob(1);
            let cancel = CancellationToken::new();
            let options = UploadOptions { cancel: cancel.clone(), ..bed.up() };
            let mut upload = Box::pin(bed.upload(&data, &options));
            tokio::select! {
                ended = &mut upload => {
                    ended.unwrap();
                    break;
                }
                () = bed.server.counted(|counts| counts.total.arrived >= calls) => cancel.cancel(),
            }
            if let Err(error) = upload.await {
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{way:?} {calls}: {error:?}");
            }
            let before = bed.server.counts().bytes_in;
            bed.upload(&data, &bed.up()).await.unwrap();
            // Chunks that the cache took are not sent again; chunks in flight may be.
            let sent = bed.server.counts().bytes_in;
            assert!(sent <= data.len() as u64 + before, "{way:?} {calls}: {before} {sent}");
            ends += 1;
        }
        assert!(ends >= 3, "{way:?}: {ends}");
    }
}

/// Dropped again and again, into the same part file. The thread that writes the file releases it a
/// moment later; until then the file is reported as in use.
#[tokio::test]
async fn a_download_that_is_dropped_repeatedly_completes() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        for _ in 0..8 {
            bed.server.clear_counts();
            let options = bed.down();
            let mut download = Box::pin(bed.download(&name, &options));
            tokio::select! {
                ended = &mut download => {
                    let other = ended.err().filter(|error| error.kind() != ErrorKind::Storage);
                    assert!(other.is_none(), "{other:?}");
                }
                () = bed.server.counted(|counts| counts.total.arrived >= 6) => {}
            }
            drop(download);
            bed.settled().await;
        }
        loop {
            match bed.download(&name, &bed.down()).await {
                Ok(_) => break,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Storage, "{error:?}"),
            }
        }
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    }
}
