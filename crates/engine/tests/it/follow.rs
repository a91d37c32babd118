//! A download into a buffer, and readers that read the buffer during the download.

use std::sync::Arc;

use futures_util::StreamExt;
use tidegate::buffer::{BufferError, ShardBuffer, ShardBufferOptions};
use tidegate::{ErrorKind, Target};
use tidegate_testkit::{
    Blob, Fault, Flavour, Gate, RangeMatch, Rule, ServerOptions, pseudo_random,
};

use crate::bed::{Bed, SHARD_BYTES};
use crate::call::{DownloadOptions, download};

fn buffer() -> Arc<ShardBuffer> {
    Arc::new(ShardBuffer::new(ShardBufferOptions::default()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_readable_while_others_are_in_flight() {
    let bed =
        Bed::new(ServerOptions::of(Flavour::Gcs), 4 * usize::try_from(SHARD_BYTES).unwrap()).await;
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).range(RangeMatch::StartsAt(3 * SHARD_BYTES)));
    let buffer = buffer();
    let mut reader = buffer.reader();
    let filling = {
        let (location, target) = (bed.location(), Target::Buffer(Arc::clone(&buffer)));
        tokio::spawn(async move { download(&location, target, &Bed::options()).await })
    };
    let mut served = Vec::new();
    while (served.len() as u64) < 3 * SHARD_BYTES {
        served.extend_from_slice(&reader.next().await.unwrap().unwrap());
    }
    assert_eq!(served, bed.bytes[..served.len()]);
    assert_eq!(buffer.total(), None, "the end is known once the blob is verified");
    gate.open();
    while let Some(bytes) = reader.next().await {
        served.extend_from_slice(&bytes.unwrap());
    }
    assert_eq!(served, bed.bytes);
    let report = filling.await.unwrap().unwrap();
    assert!(report.is_verified());
    assert_eq!(report.memory.unwrap(), bed.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_of_a_damaged_blob_never_see_its_end() {
    for flavour in [Flavour::Gcs, Flavour::S3] {
        let bed = Bed::new(ServerOptions::of(flavour), 200_000).await;
        bed.server.script().push(Rule::new(Fault::FlipBit(150_000)).always());
        let buffer = buffer();
        let reader = buffer.reader();
        let error = bed.fetch(Target::Buffer(Arc::clone(&buffer))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
        let items: Vec<_> = reader.collect().await;
        let failure = items.last().unwrap().as_ref().unwrap_err().clone();
        assert_eq!(tidegate::Error::from(failure).kind(), ErrorKind::Integrity);
        assert_eq!(items.iter().filter(|item| item.is_err()).count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_get_the_error_of_a_missing_blob() {
    let bed = Bed::new(ServerOptions::default(), 1000).await;
    bed.server.script().push(Rule::new(Fault::Status {
        code: 404,
        retry_after: None,
        body: String::new(),
    }));
    let buffer = buffer();
    bed.fetch(Target::Buffer(Arc::clone(&buffer))).await.unwrap_err();
    let failure = buffer.wait_for(0..1).await.unwrap_err();
    assert_eq!(tidegate::Error::from(failure).kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_download_ends_every_wait() {
    let bed = Bed::new(ServerOptions::default(), 300_000).await;
    bed.server.script().push(Rule::new(Fault::Stall(1000)).always());
    let buffer = buffer();
    let wait = buffer.wait_for(0..300_000);
    let target = Target::Buffer(Arc::clone(&buffer));
    let location = bed.location();
    let options = Bed::options();
    {
        let filling = download(&location, target, &options);
        tokio::pin!(filling);
        tokio::select! {
            _ = &mut filling => panic!("it cannot finish"),
            result = buffer.wait_for(0..500) => result.unwrap(),
        }
    }
    assert!(matches!(wait.await, Err(BufferError::Failed { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_begins_at_the_start_of_the_buffer() {
    let bytes = pseudo_random(300_000, 5);
    let bed = Bed::with(ServerOptions::default(), bytes.clone(), Blob::new(bytes)).await;
    let buffer = buffer();
    let options = DownloadOptions {
        range: Some(tidegate_core::ByteRange::Bounded(100_000..250_000)),
        ..Bed::options()
    };
    let target = Target::Buffer(Arc::clone(&buffer));
    download(&bed.location(), target, &options).await.unwrap();
    assert_eq!(buffer.slice(0..150_000).unwrap(), bed.bytes[100_000..250_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_charged_until_it_is_handed_over_and_reused_afterwards() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), 3 << 20).await;
    let options = Bed::options();
    for round in 0..3 {
        let report = download(&bed.location(), Target::Memory, &options).await.unwrap();
        assert_eq!(options.budget.held_bytes(), 0, "handed over");
        assert_eq!(report.memory.unwrap(), bed.bytes);
        assert_eq!(options.pool.kept_bytes(), 4 << 20, "round {round}");
        assert_eq!(options.budget.held_bytes(), 4 << 20, "what is kept is paid for");
    }
    options.pool.clear();
    assert_eq!(options.budget.held_bytes(), 0);
}
