//! Bugs that chunked clients and servers are known for, by the names under which they were
//! reported.

use std::time::Duration;

use tidegate::{Budget, BudgetOptions, ErrorKind, Form, Target};
use tidegate_core::window::WindowOptions;
use tidegate_testkit::reapi::{
    ChunkFunction, Code, GrpcStatus, HashFunction, ReapiFault, ReapiOptions, ReapiRule, Rpc,
};
use tidegate_testkit::{Gate, pseudo_random};

use super::bed::{BUDGET_BYTES, Bed, CUT, Collect, Way, blob, chunks, hashes};
use crate::call::{ChunkedDownloadOptions, UploadOptions, client_with};

/// The bug: a chunk was downloaded with the blob's output path as its own, and truncated it.
#[tokio::test]
async fn bazel_29544_a_chunk_never_takes_the_place_of_the_blob() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let cut = chunks(&data);
        bed.server.put(data.slice(..usize::try_from(cut[0].len_bytes).unwrap()));
        let old = b"the old output, longer than a chunk or not";
        bed.file("target", old);
        // A chunk that is not in the first batch.
        let gate = Gate::new();
        let rpc = if way == Way::Batches { Rpc::BatchRead } else { Rpc::Read };
        let hold = ReapiRule::new(ReapiFault::Hold(gate.clone())).rpc(rpc).hash(&cut[150].hash);
        bed.server.script().push(hold);
        let options = bed.down();
        let mut download = Box::pin(bed.download(&name, &options));
        tokio::select! {
            ended = &mut download => panic!("{ended:?}"),
            () = gate.reached(1) => {}
        }
        // One of its chunks is also a blob, and another download fetches it into a file of its own.
        let other = Target::File(bed.folder.path().join("chunk"));
        let options = bed.down();
        let head = super::bed::digest(&cut[0]);
        crate::call::download_chunks(&bed.store, &head, other, &options).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&old[..]), "as it was until the end");
        gate.open();
        download.await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
        let chunk = std::fs::read(bed.folder.path().join("chunk")).unwrap();
        assert_eq!(chunk, data[..chunk.len()]);
        assert_eq!(chunk.len() as u64, cut[0].len_bytes);
    }
}

/// The bug: a chunk was found missing late, and the whole blob was appended to the bytes already
/// written.
#[tokio::test]
async fn bazel_30742_after_a_late_missing_chunk_the_blob_is_fetched_from_the_start() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let last = hashes(&chunks(&data)).split_off(chunks(&data).len() - 1);
        bed.server.script().next(Rpc::Split, ReapiFault::EvictAfter(last));
        let report = bed.download(&name, &bed.down()).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "{way:?}");
        assert!(report.form == Form::Whole, "{report:?}");
        let whole: Vec<_> = bed.server.calls();
        let whole = whole.iter().filter(|call| call.hashes.contains(&name.hash));
        let reads: Vec<_> = whole.filter(|call| call.rpc == Rpc::Read).collect();
        assert_eq!(reads.len(), 1, "{reads:?}");
    }
}

#[tokio::test]
async fn bazel_30742_a_late_missing_chunk_is_an_error_without_whole_fallback() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let last = hashes(&chunks(&data)).split_off(chunks(&data).len() - 1);
        bed.server.script().next(Rpc::Split, ReapiFault::EvictAfter(last));
        let options = ChunkedDownloadOptions { whole_fallback: false, ..bed.down() };
        let error = bed.download(&name, &options).await.unwrap_err();
        assert_eq!((error.kind(), bed.arrived()), (ErrorKind::NotFound, None), "{error:?}");
    }
}

/// A blob that exists only as a manifest is lost with its chunk: there is no whole blob either.
#[tokio::test]
async fn bazel_30742_a_late_missing_chunk_of_a_manifest_is_not_found() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let (name, cut) = bed.server.put_chunked(HashFunction::Sha256, CUT, blob(1));
        let last = hashes(&cut[cut.len() - 1..]);
        bed.server.script().next(Rpc::Split, ReapiFault::EvictAfter(last));
        let error = bed.download(&name, &bed.down()).await.unwrap_err();
        assert_eq!((error.kind(), bed.arrived()), (ErrorKind::NotFound, None), "{error:?}");
    }
}

/// Bytes in a pipe cannot be taken back. The rest of the blob follows them, and no byte comes
/// twice.
#[tokio::test]
async fn bazel_30742_a_late_missing_chunk_appends_nothing_to_what_was_written_in_order() {
    for way in Way::ALL {
        for whole_fallback in [true, false] {
            let bed = Bed::by(way).await;
            let data = blob(1);
            let name = bed.server.put(data.clone());
            let cut = chunks(&data);
            let late = hashes(&cut[cut.len() - 20..cut.len() - 19]);
            bed.server.script().next(Rpc::Split, ReapiFault::EvictAfter(late));
            let output = Collect::default();
            let options = ChunkedDownloadOptions { whole_fallback, ..bed.down() };
            let ended = bed.download_to(&name, output.target(), &options).await;
            assert_eq!(ended.is_ok(), whole_fallback, "{way:?}: {ended:?}");
            if whole_fallback {
                assert_eq!(output.bytes(), data, "{way:?}");
            } else {
                assert!(data.starts_with(&output.bytes()), "{way:?}");
            }
        }
    }
}

#[tokio::test]
async fn bazel_30742_a_late_missing_chunk_leaves_memory_right() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        // A blob in memory is charged to the budget until it is dropped.
        let budget = Budget::new(BudgetOptions { requests: 64, bytes: 1 << 20 });
        let data = blob(1);
        let name = bed.server.put(data.clone());
        let last = hashes(&chunks(&data)).split_off(chunks(&data).len() - 1);
        bed.server.script().next(Rpc::Split, ReapiFault::EvictAfter(last));
        let options = ChunkedDownloadOptions { client: client_with(&budget), ..bed.down() };
        let report = bed.download_to(&name, Target::Memory, &options).await.unwrap();
        assert!(report.form == Form::Whole);
        assert_eq!(report.memory, Some(data));
    }
}

/// The bug: a chunk that recurred after it had left the window was fetched again.
#[tokio::test]
async fn a_recurring_chunk_is_fetched_once_however_far_apart() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        // Zeros at both ends and in the middle. In each run of zeros all chunks except the last are
        // equal. Between the runs are other chunks, as many as a window holds.
        let mut data = vec![0; 20 << 10];
        data.extend(pseudo_random(80 << 10, 1));
        data.extend(vec![0; 20 << 10]);
        data.extend(pseudo_random(80 << 10, 2));
        data.extend(vec![0; 20 << 10]);
        let cut = chunks(&data);
        let zeros = CUT.cut(&[0; 4096]).len();
        assert_eq!(zeros, 1);
        let zero = HashFunction::Sha256.name(&[0; 4096]);
        let places = cut.iter().filter(|chunk| **chunk == zero).count();
        assert!(places >= 9, "{places}");
        let name = bed.server.put(data.clone());
        let report = bed.download(&name, &bed.down()).await.unwrap();
        assert_eq!(bed.arrived(), Some(data));
        let counts = bed.server.counts();
        assert_eq!(counts.served(&zero.hash), 1);
        assert!(counts.served_all().values().all(|times| *times == 1));
        assert_eq!(report.chunks.unwrap().all.chunks, cut.len() as u64);
        assert_eq!(counts.bytes_out, report.chunks.unwrap().moved.bytes);
    }
}

/// 4,096 equal chunks: only one is fetched or sent.
#[tokio::test]
async fn a_chunk_that_recurs_everywhere_is_fetched_once() {
    let bed = Bed::by(Way::Streams).await;
    let data = vec![0; 16 << 20];
    let name = bed.server.put(data.clone());
    let report = bed.download(&name, &bed.down()).await.unwrap();
    assert_eq!(report.chunks.unwrap().all.chunks, 4096);
    assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    assert_eq!(bed.server.counts().calls(Rpc::Read), 1);
    bed.server.evict(&name.hash);
    bed.server.clear_counts();
    let zero = HashFunction::Sha256.name(&[0; 4096]);
    bed.server.evict(&zero.hash);
    let sent = bed.upload(&data.into(), &bed.up()).await.unwrap();
    assert_eq!((sent.chunks.unwrap().moved.chunks, bed.server.counts().stored(&zero.hash)), (1, 1));
}

/// Two downloads of blobs that share chunks, at the same time: each chunk is fetched once.
#[tokio::test]
async fn a_chunk_that_two_blobs_share_is_fetched_once_while_in_flight() {
    const CHUNKS: u32 = 20;
    let bed = Bed::by(Way::Streams).await;
    let data = blob(1);
    let name = bed.server.put(data.clone());
    let gate = Gate::new();
    bed.server.script().always(Rpc::Read, ReapiFault::Hold(gate.clone()));
    // Room for both downloads, so that neither waits for the other's memory.
    let budget = Budget::new(BudgetOptions { requests: 64, bytes: 1 << 20 });
    let client = client_with(&budget);
    let options = || ChunkedDownloadOptions {
        window: WindowOptions::fixed(CHUNKS),
        client: client.clone(),
        ..bed.down()
    };
    let digest = super::bed::digest(&name);
    let to = |name: &str| Target::File(bed.folder.path().join(name));
    let (one, other) = (options(), options());
    let first = crate::call::download_chunks(&bed.store, &digest, to("a"), &one);
    let second = crate::call::download_chunks(&bed.store, &digest, to("b"), &other);
    let opened = async {
        // Both have reserved memory for a full window, and ask for the same chunks.
        while budget.held_bytes() < 2 * u64::from(CHUNKS) * 4096 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gate.reached(u64::from(CHUNKS)).await;
        gate.open();
    };
    let (first, second, ()) = tokio::join!(first, second, opened);
    let (first, second) = (first.unwrap(), second.unwrap());
    let shared = first.chunks.unwrap().shared.chunks + second.chunks.unwrap().shared.chunks;
    assert!(shared >= u64::from(CHUNKS), "{first:?} {second:?}");
    let counts = bed.server.counts();
    assert_eq!(
        counts.bytes_out,
        first.chunks.unwrap().moved.bytes + second.chunks.unwrap().moved.bytes
    );
    for name in ["a", "b"] {
        assert_eq!(std::fs::read(bed.folder.path().join(name)).unwrap(), data);
    }
    bed.settled().await;
}

/// `FindMissing` reports a chunk as present that Splice cannot use.
#[tokio::test]
async fn buildbuddy_12168_a_chunk_that_is_said_to_be_there_is_sent_when_splice_misses_it() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let cut = chunks(&data);
        bed.server.haunt(&cut[7].hash);
        bed.server.haunt(&cut[70].hash);
        let report = bed.upload(&data, &bed.up()).await.unwrap();
        assert_eq!((report.form, report.chunks.unwrap().rounds), (Form::Chunks, 1));
        let counts = bed.server.counts();
        assert_eq!((counts.calls(Rpc::Splice), counts.stored(&cut[7].hash)), (2, 1));
        // Only chunks that this upload has not sent yet are sent without asking.
        assert!(cut.iter().all(|chunk| counts.stored(&chunk.hash) == 1));
    }
}

/// The same, and to send the chunk again does not help.
#[tokio::test]
async fn buildbuddy_12168_a_store_that_never_sees_the_chunk_is_given_up() {
    let bed = Bed::by(Way::Batches).await;
    let data = blob(1);
    let missing = GrpcStatus::new(Code::NotFound, "a chunk is not here");
    bed.server.script().always(Rpc::Splice, ReapiFault::Fail(missing));
    let error = bed.upload(&data, &bed.up()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Integrity | ErrorKind::Exhausted), "{error:?}");
    assert!(bed.server.counts().calls(Rpc::Splice) <= 5);
    let sent = bed.server.counts().bytes_in;
    assert!(sent <= 5 * data.len() as u64, "{sent}");
}

/// A chunk that is evicted between `FindMissing` and Splice is sent again, and no other chunk is.
#[tokio::test]
async fn a_chunk_evicted_before_splice_is_sent_again() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let cut = chunks(&data);
        let evicted = vec![cut[3].hash.clone()];
        bed.server.script().next(Rpc::Splice, ReapiFault::EvictBefore(evicted));
        let report = bed.upload(&data, &bed.up()).await.unwrap();
        let counts = bed.server.counts();
        assert_eq!((report.chunks.unwrap().rounds, counts.calls(Rpc::Splice)), (1, 2));
        for (index, chunk) in cut.iter().enumerate() {
            assert_eq!(counts.stored(&chunk.hash), 1 + u64::from(index == 3), "{index}");
        }
    }
}

/// Evicted as soon as `FindMissing` had reported it as present.
#[tokio::test]
async fn a_chunk_evicted_after_find_missing_is_sent() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let data = blob(1);
        let cut = chunks(&data);
        let head = usize::try_from(cut[0].len_bytes).unwrap();
        bed.server.put(data.slice(..head));
        let evicted = vec![cut[0].hash.clone()];
        bed.server.script().push(
            ReapiRule::new(ReapiFault::EvictAfter(evicted))
                .rpc(Rpc::FindMissing)
                .hash(&cut[0].hash),
        );
        bed.upload(&data, &bed.up()).await.unwrap();
        assert_eq!(bed.server.counts().stored(&cut[0].hash), 1);
    }
}

/// The bug: Splice of a gigabyte took longer than the client's timeout. A retry succeeds.
#[tokio::test]
async fn remote_apis_376_a_splice_that_times_out_is_asked_for_again() {
    let bed = Bed::by(Way::Batches).await;
    let data = blob(1);
    bed.server.script().next(Rpc::Splice, ReapiFault::AnswerLost);
    let options = UploadOptions { retry: Bed::impatient(), ..bed.up() };
    let report = bed.upload(&data, &options).await.unwrap();
    assert_eq!(report.form, Form::Chunks);
    let counts = bed.server.counts();
    assert_eq!((counts.calls(Rpc::Splice), counts.bytes_in), (2, data.len() as u64));
}

/// The bug: finding, sending and splicing in sequence cost round trips for every group of chunks.
/// Here a small blob takes few calls, and those of a larger blob overlap.
#[tokio::test]
async fn tuist_12971_a_small_blob_takes_one_round_trip_a_stage() {
    let options = ReapiOptions { chunk_functions: vec![CUT], ..ReapiOptions::default() };
    let bed = Bed::new(options).await;
    let data = pseudo_random(32 << 10, 1);
    bed.upload(&data, &bed.up()).await.unwrap();
    let counts = bed.server.counts();
    assert!(counts.calls(Rpc::FindMissing) <= 3, "{:?}", counts.batches);
    assert!(counts.calls(Rpc::BatchUpdate) <= 2, "{:?}", counts.batches);
    assert_eq!((counts.calls(Rpc::Write), counts.calls(Rpc::Splice)), (0, 1));
    bed.server.clear_counts();
    bed.download(&HashFunction::Sha256.name(&data), &bed.down()).await.unwrap();
    let counts = bed.server.counts();
    assert_eq!((counts.calls(Rpc::Split), counts.calls(Rpc::Read)), (1, 0));
    assert!(counts.calls(Rpc::BatchRead) <= 2, "{:?}", counts.batches);
    assert_eq!(counts.calls(Rpc::Capabilities), 0, "they are asked for once");
}

#[tokio::test]
async fn tuist_12971_chunks_are_sent_while_others_are_still_asked_for() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        // More chunks than one question covers.
        let data = pseudo_random(4 << 20, 1);
        let gate = Gate::new();
        // Every question except the first is held: the chunks that the first one found missing are
        // sent meanwhile.
        let held = ReapiRule::new(ReapiFault::Hold(gate.clone())).rpc(Rpc::FindMissing).nth(2);
        bed.server.script().push(held.always());
        let options = bed.up();
        let mut upload = Box::pin(bed.upload(&data, &options));
        tokio::select! {
            ended = &mut upload => panic!("{ended:?}"),
            () = bed.server.counted(|counts| {
                counts.rpc(Rpc::FindMissing).in_flight > 0 && counts.bytes_in > 0
            }) => {}
        }
        gate.open();
        let report = upload.await.unwrap();
        assert!(report.held_bytes_peak <= BUDGET_BYTES);
    }
}

/// For a cache without Splice, and for a blob too short to be cut, the blob is sent whole.
#[tokio::test]
async fn a_blob_that_cannot_be_spliced_is_sent_whole() {
    let without = ReapiOptions { splice: false, ..Way::Streams.options() };
    let other = ChunkFunction::RepMaxCdc { min_bytes: 64 << 10, horizon_bytes: 0 };
    let longer = ReapiOptions { chunk_functions: vec![other], ..Way::Streams.options() };
    for (options, len) in [(without, 256 << 10), (longer, 100 << 10)] {
        let bed = Bed::new(options).await;
        let data = pseudo_random(len, 1);
        let report = bed.upload(&data, &bed.up()).await.unwrap();
        assert_eq!(report.form, Form::Whole);
        let counts = bed.server.counts();
        assert_eq!((counts.calls(Rpc::Splice), counts.bytes_in), (0, data.len() as u64));
        let name = HashFunction::Sha256.name(&data);
        bed.download(&name, &bed.down()).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
    }
}
