//! Interrupted writes continue where they stopped.

use tidegate_reapi::bytestream::QueryWriteStatusRequest;
use tonic::Code;

use crate::bed::{Bed, blob_name, messages, noise, refused, sha256, upload_name, within, zstd};
use crate::raw::{RawConnection, WRITE, framed};

async fn committed(bed: &Bed, name: &str) -> i64 {
    let request = QueryWriteStatusRequest { resource_name: name.to_owned() };
    let response = bed.streams().await.query_write_status(request).await.unwrap().into_inner();
    assert!(!response.complete);
    response.committed_size
}

/// Waits until the server has noticed the cut.
async fn committed_after_cut(bed: &Bed, name: &str) -> i64 {
    within(async {
        loop {
            match committed(bed, name).await {
                0 => tokio::task::yield_now().await,
                committed => return committed,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_upload_continues() {
    let bed = Bed::new().await;
    let bytes = noise(6 << 20, 1);
    let digest = sha256(&bytes);
    let name = upload_name(&digest);
    let connection = RawConnection::open(&bed).await;
    for cut_connection in [false, true] {
        let from = usize::try_from(committed(&bed, &name).await).unwrap();
        let parts = messages(&name, &bytes[from..], 100_000, from);
        let own = RawConnection::open(&bed).await;
        let mut call = if cut_connection { &own } else { &connection }.call(WRITE, None).await;
        // More than the stream's window of 1 MiB and a batch: so the server has taken a batch.
        for message in &parts[..17] {
            call.send(&framed(message)).await;
        }
        if cut_connection {
            drop((call, own));
        } else {
            call.reset();
        }
        let committed = committed_after_cut(&bed, &name).await;
        assert!(usize::try_from(committed).unwrap() > from, "{committed}");
        assert!(usize::try_from(committed).unwrap() <= from + 1_700_000, "{committed}");
        assert!(!bed.has(&digest).await);
    }
    let from = usize::try_from(committed(&bed, &name).await).unwrap();
    // At another offset it cannot continue, and is still there.
    let status = bed.write(messages(&name, &bytes[from + 1..], 100_000, from + 1)).await;
    let status = refused(status, Code::InvalidArgument);
    assert!(status.message().contains(&format!("offset {from}")), "{status:?}");
    let written = bed.write(messages(&name, &bytes[from..], 100_000, from)).await.unwrap();
    assert_eq!(written, 6 << 20);
    assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_without_an_end_waits_for_it() {
    let bed = Bed::new().await;
    let bytes = noise(1 << 20, 1);
    let digest = sha256(&bytes);
    let name = upload_name(&digest);
    let mut first = messages(&name, &bytes[..600_000], 100_000, 0);
    first.last_mut().unwrap().finish_write = false;
    assert_eq!(bed.write(first).await.unwrap(), 600_000);
    assert_eq!(committed(&bed, &name).await, 600_000);
    assert!(!bed.has(&digest).await);
    // Another upload of the blob is another upload.
    let other = name.replace("00a1", "00a2");
    assert_eq!(committed(&bed, &other).await, 0);
    let rest = messages(&name, &bytes[600_000..], 100_000, 600_000);
    assert_eq!(bed.write(rest).await.unwrap(), 1 << 20);
    assert!(bed.has(&digest).await);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_end_an_upload() {
    let bed = Bed::new().await;
    let bytes = noise(1 << 20, 1);
    let name = upload_name(&sha256(&bytes));
    let mut parts = messages(&name, &bytes, 100_000, 0);
    parts[5].write_offset += 1;
    refused(bed.write(parts).await, Code::InvalidArgument);
    assert_eq!(committed(&bed, &name).await, 0);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_upload_starts_over() {
    let bed = Bed::new().await;
    let bytes = noise(1 << 20, 1);
    let name = upload_name(&sha256(&bytes)).replacen("blobs/", "compressed-blobs/zstd/", 1);
    let packed = zstd(&bytes);
    let mut first = messages(&name, &packed[..600_000], 100_000, 0);
    first.last_mut().unwrap().finish_write = false;
    bed.write(first).await.unwrap();
    assert_eq!(committed(&bed, &name).await, 0);
    assert!(bed.write_all(&name, &packed, 100_000).await.unwrap() > 0);
    assert!(bed.has(&sha256(&bytes)).await);
    bed.end().await;
}
