//! Every fault, as a client meets it.

use bytes::Bytes;
use futures_util::stream;
use tidegate_reapi::{
    bytestream::{QueryWriteStatusRequest, WriteRequest},
    v2::Digest,
};
use tidegate_testkit::{
    Gate, pseudo_random,
    reapi::{
        BatchLie, ChunkFunction, Cut, FindMissingLie, GrpcStatus, HashFunction, ReapiFault,
        ReapiOptions, ReapiRule, Rpc, SplitLie,
    },
};
use tonic::{Code, Status};

use super::{Bed, resource};

const CANCEL: u32 = 8;

fn unavailable() -> GrpcStatus {
    GrpcStatus::new(tidegate_testkit::reapi::Code::Unavailable, "later")
}

async fn small() -> Bed {
    let cut = ChunkFunction::FastCdc2020 { avg_bytes: 1024, seed: 0 };
    let rep_max = ChunkFunction::RepMaxCdc { min_bytes: 512, horizon_bytes: 1024 };
    Bed::new(ReapiOptions { chunk_functions: vec![cut, rep_max], ..Default::default() }).await
}

#[tokio::test]
async fn a_lost_call_is_in_flight_until_its_client_gives_up() {
    let bed = Bed::honest().await;
    let name = bed.server.put(&b"data"[..]);
    for fault in [ReapiFault::Lost, ReapiFault::AnswerLost] {
        bed.server.script().next(Rpc::Read, fault);
        let mut call = Box::pin(bed.read(&name));
        tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            () = bed.server.counted(|counts| counts.rpc(Rpc::Read).in_flight == 1) => {}
        }
        drop(call);
        bed.server.idle().await;
        assert_eq!(bed.read(&name).await.unwrap(), b"data");
    }
    let ends: Vec<_> = bed.server.calls().iter().map(|call| call.code.is_some()).collect();
    assert_eq!(ends, [false, true, false, true]);
    assert_eq!(bed.server.counts().calls(Rpc::Read), 4);
}

#[tokio::test]
async fn a_failed_call_returns_the_scripted_status() {
    let bed = Bed::honest().await;
    let name = bed.server.put(&b"data"[..]);
    let quota = GrpcStatus::new(tidegate_testkit::reapi::Code::ResourceExhausted, "quota");
    bed.server.script().next(Rpc::Read, ReapiFault::Fail(quota.retry_after_ms(1500)));
    let status = bed.read(&name).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "quota"));
    assert!(String::from_utf8_lossy(status.details()).contains("google.rpc.RetryInfo"));
    // The failed call had stored the blob.
    let other = HashFunction::Sha256.name(b"other");
    bed.server.script().next(Rpc::BatchUpdate, ReapiFault::FailAfter(unavailable()));
    let batch = [(other.clone(), Bytes::from_static(b"other"))];
    assert_eq!(bed.update(&batch).await.unwrap_err().code(), Code::Unavailable);
    assert!(bed.server.contains(&other));
    // The successful call had stored nothing.
    bed.server.evict(&other.hash);
    bed.server.script().next(Rpc::BatchUpdate, ReapiFault::Forget);
    assert_eq!(bed.update(&batch).await.unwrap(), [Code::Ok]);
    assert!(!bed.server.contains(&other));
    assert_eq!(bed.server.script().applied(), 3);
}

#[tokio::test]
async fn a_read_is_cut_at_the_scripted_byte() {
    let bed = Bed::honest().await;
    let data = pseudo_random(3_000_000, 1);
    let name = bed.server.put(data.clone());
    let cut = async |cut: Cut| -> (Vec<u8>, Result<Vec<u8>, Status>) {
        bed.server.script().next(Rpc::Read, ReapiFault::CutAfter { bytes: 1_500_000, cut });
        bed.read_from(&name, 0, 0).await
    };
    let (got, end) = cut(Cut::End).await;
    assert_eq!((got.len(), end.is_ok()), (1_500_000, true));
    let (got, end) = cut(Cut::Status(unavailable())).await;
    assert_eq!((got.len(), end.unwrap_err().code()), (1_500_000, Code::Unavailable));
    for broken in [Cut::Reset(CANCEL), Cut::Close] {
        let (got, end) = cut(broken.clone()).await;
        assert!(got.len() <= 1_500_000 && end.is_err(), "{broken:?} {}", got.len());
        assert_eq!(got, data[..got.len()]);
    }
    assert_eq!(bed.read(&name).await.unwrap(), data);
}

#[tokio::test]
async fn a_closed_connection_and_a_reset_end_a_call() {
    let bed = Bed::honest().await;
    let name = bed.server.put(&b"data"[..]);
    for fault in [ReapiFault::Close, ReapiFault::Reset(CANCEL)] {
        bed.server.script().next(Rpc::Read, fault);
        bed.read(&name).await.unwrap_err();
    }
    bed.server.idle().await;
    assert_eq!(bed.server.connections(), 2);
    assert_eq!(bed.read(&name).await.unwrap(), b"data");
}

#[tokio::test]
async fn goaway_completes_calls_in_flight_and_accepts_no_more() {
    let bed = Bed::honest().await;
    let name = bed.server.put(&b"data"[..]);
    bed.server.script().next(Rpc::Read, ReapiFault::GoAway);
    assert_eq!(bed.read(&name).await.unwrap(), b"data");
    // The client may or may not have seen it. Later calls finally use another connection.
    while bed.server.connections() == 1 {
        let _ = bed.read(&name).await;
    }
    assert_eq!(bed.read(&name).await.unwrap(), b"data");
}

#[tokio::test]
async fn a_held_read_waits_for_its_gate() {
    let bed = Bed::honest().await;
    let data = pseudo_random(10_000, 1);
    let name = bed.server.put(data.clone());
    for at_start in [true, false] {
        let gate = Gate::new();
        let fault = if at_start {
            ReapiFault::Hold(gate.clone())
        } else {
            ReapiFault::HoldAfter { bytes: 5000, gate: gate.clone() }
        };
        bed.server.script().next(Rpc::Read, fault);
        let mut read = Box::pin(bed.read(&name));
        tokio::select! {
            answer = &mut read => panic!("{answer:?}"),
            () = gate.reached(1) => gate.open(),
        }
        assert_eq!(read.await.unwrap(), data);
    }
}

#[tokio::test]
async fn wrong_bytes_are_wrong_once() {
    let bed = Bed::honest().await;
    let data = pseudo_random(10_000, 1);
    let name = bed.server.put(data.clone());
    let mut wrong = data.to_vec();
    wrong[7777] ^= 1;
    bed.server.script().next(Rpc::Read, ReapiFault::FlipBit(7777));
    assert_eq!(bed.read(&name).await.unwrap(), wrong);
    bed.server.script().next(Rpc::BatchRead, ReapiFault::FlipBit(7777));
    let batch = || bed.batch(std::slice::from_ref(&name));
    assert_eq!(batch().await.unwrap()[0].data, wrong);
    assert_eq!(batch().await.unwrap()[0].data, data);
    bed.server.script().next(Rpc::Read, ReapiFault::Longer(5));
    assert_eq!(bed.read(&name).await.unwrap()[10_000..], [0; 5]);
    assert_eq!(bed.read(&name).await.unwrap(), data);
}

#[tokio::test]
async fn blobs_are_evicted_at_the_moment_chosen() {
    let bed = Bed::honest().await;
    let name = bed.server.put(&b"data"[..]);
    let hashes = vec![name.hash.clone()];
    bed.server.script().next(Rpc::FindMissing, ReapiFault::EvictAfter(hashes.clone()));
    let missing = || bed.missing(std::slice::from_ref(&name));
    assert!(missing().await.unwrap().is_empty());
    assert_eq!(missing().await.unwrap(), hashes);
    bed.server.put(&b"data"[..]);
    bed.server.script().next(Rpc::Read, ReapiFault::EvictBefore(hashes.clone()));
    assert_eq!(bed.read(&name).await.unwrap_err().code(), Code::NotFound);
    bed.server.put(&b"data"[..]);
    bed.server.script().next(Rpc::FindMissing, ReapiFault::HauntBefore(hashes));
    assert!(missing().await.unwrap().is_empty());
    assert!(!bed.server.contains(&name));
}

async fn lie(bed: &Bed, lie: SplitLie) -> (Vec<Digest>, i32) {
    let name = bed.server.put(pseudo_random(50_000, 1));
    bed.server.script().next(Rpc::Split, ReapiFault::Split(lie));
    let answer = bed.split(&name, 1).await.unwrap();
    (answer.chunk_digests, answer.chunking_function)
}

fn sum(chunks: &[Digest]) -> i64 {
    chunks.iter().map(|chunk| chunk.size_bytes).fold(0, i64::saturating_add)
}

#[tokio::test]
async fn splits_that_do_not_add_up() {
    let bed = small().await;
    let honest = lie(&bed, SplitLie::NamesFunction(1)).await.0;
    assert_eq!(sum(&honest), 50_000);
    assert!(lie(&bed, SplitLie::Empty).await.0.is_empty());
    assert!(sum(&lie(&bed, SplitLie::SumShort).await.0) < 50_000);
    assert!(sum(&lie(&bed, SplitLie::SumLong).await.0) > 50_000);
    assert_eq!(sum(&lie(&bed, SplitLie::Overflow).await.0), i64::MAX);
    let million = lie(&bed, SplitLie::Repeated(500_000)).await.0;
    assert_eq!((million.len(), &million[0]), (500_000, &honest[0]));
}

#[tokio::test]
async fn splits_that_add_up_and_are_wrong() {
    let bed = small().await;
    let honest = lie(&bed, SplitLie::NamesFunction(1)).await.0;
    for (length_lie, size) in [(SplitLie::ZeroLength, 0), (SplitLie::NegativeLength, -1)] {
        let chunks = lie(&bed, length_lie).await.0;
        assert_eq!((chunks[0].size_bytes, sum(&chunks)), (size, 50_000));
    }
    let chunks = lie(&bed, SplitLie::Oversized).await.0;
    assert_eq!((chunks.len(), chunks[0].size_bytes), (1, 50_000));
    let chunks = lie(&bed, SplitLie::Exchanged).await.0;
    assert_eq!((&chunks[0], sum(&chunks)), (&honest[honest.len() - 1], 50_000));
    let (chunks, function) = lie(&bed, SplitLie::OtherFunction).await;
    assert_eq!((sum(&chunks), function), (50_000, 2));
    assert_eq!(lie(&bed, SplitLie::NamesFunction(99)).await, (honest, 99));
    assert_eq!(lie(&bed, SplitLie::ShortHash).await.0[0].hash.len(), 63);
    assert!(lie(&bed, SplitLie::UpperCaseHash).await.0[0].hash.contains(char::is_uppercase));
    assert!(lie(&bed, SplitLie::PathHash).await.0[0].hash.starts_with("../"));
}

#[tokio::test]
async fn lies_about_missing_blobs() {
    let bed = Bed::honest().await;
    let (here, absent) = (bed.server.put(&b"here"[..]), HashFunction::Sha256.name(b"absent"));
    let names = [here, absent];
    for (lie, count) in [
        (FindMissingLie::Everything, 2),
        (FindMissingLie::Nothing, 0),
        (FindMissingLie::Foreign, 2),
        (FindMissingLie::Twice, 2),
    ] {
        bed.server.script().next(Rpc::FindMissing, ReapiFault::FindMissing(lie));
        assert_eq!(bed.missing(&names).await.unwrap().len(), count, "{lie:?}");
    }
}

#[tokio::test]
async fn lies_about_batches() {
    let bed = Bed::honest().await;
    let names = [bed.server.put(&b"one"[..]), bed.server.put(&b"two"[..])];
    let lie = async |lie: BatchLie| {
        bed.server.script().next(Rpc::BatchRead, ReapiFault::Batch(lie));
        let responses = bed.batch(&names).await.unwrap();
        let hashes = responses.iter().map(|r| r.digest.as_ref().unwrap().hash.clone());
        (hashes.collect::<Vec<_>>(), responses)
    };
    let [one, two] = names.clone().map(|name| name.hash);
    assert_eq!(lie(BatchLie::Omitted).await.0, std::slice::from_ref(&one));
    assert_eq!(lie(BatchLie::Reversed).await.0, [two.clone(), one.clone()]);
    assert_eq!(lie(BatchLie::Twice).await.0, [one.clone(), two.clone(), one.clone()]);
    assert_ne!(lie(BatchLie::Foreign).await.0[0], one);
    assert_eq!(lie(BatchLie::ShortByOne).await.1[0].data, &b"on"[..]);
    let failed = lie(BatchLie::FailFirst(unavailable())).await.1;
    assert_eq!(Code::from(failed[0].status.as_ref().unwrap().code), Code::Unavailable);
    assert_eq!(failed[1].data, &b"two"[..]);
}

#[tokio::test]
async fn a_write_that_is_cut_keeps_what_came() {
    let bed = Bed::honest().await;
    let data = pseudo_random(2000, 1);
    let name = HashFunction::Sha256.name(&data);
    for (attempt, cut) in
        [Cut::Status(unavailable()), Cut::Reset(CANCEL), Cut::Close].into_iter().enumerate()
    {
        let uuid = format!("00000000-0000-4000-8000-00000000000{attempt}");
        let resource_name = format!("uploads/{uuid}/{}", resource(&name));
        bed.server.script().next(Rpc::Write, ReapiFault::CutAfter { bytes: 700, cut });
        let request = WriteRequest {
            resource_name: resource_name.clone(),
            finish_write: true,
            data: data.clone(),
            ..Default::default()
        };
        let written = bed.bytes.clone().write(stream::iter([request])).await;
        written.unwrap_err();
        bed.server.idle().await;
        let request = QueryWriteStatusRequest { resource_name };
        let status = bed.bytes.clone().query_write_status(request).await.unwrap().into_inner();
        assert_eq!((status.committed_size, status.complete), (700, false));
    }
}

#[tokio::test]
async fn rules_pick_by_hash_and_by_chance() {
    let bed = Bed::honest().await;
    let names: Vec<_> = (0..200_u8).map(|n| bed.server.put(vec![n])).collect();
    let script = bed.server.script();
    script.push(ReapiRule::new(ReapiFault::Fail(unavailable())).hash(&names[3].hash));
    assert!(bed.read(&names[2]).await.is_ok());
    assert!(bed.read(&names[3]).await.is_err());
    assert!(bed.read(&names[3]).await.is_ok());
    script.clear();
    script.push(ReapiRule::new(ReapiFault::Fail(unavailable())).chance(1, 0.3).always());
    let mut failed = 0;
    for name in &names {
        failed += u64::from(bed.read(name).await.is_err());
    }
    assert!((30..=90).contains(&failed), "{failed}");
    assert_eq!(script.applied(), failed);
}
