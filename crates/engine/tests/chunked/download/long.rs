//! Chunks too long to be held: each is fetched once while in flight, copied from seeds, and held
//! only in pieces.
//!
//! With a budget of 16 MiB, chunks longer than 2 MiB are too long, and there is room for two
//! downloads. File writes take real time, so these tests do not pause the clock. They wait for
//! events instead.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use tidegate::buffer::{ShardBuffer, ShardBufferOptions};
use tidegate::{Budget, ErrorKind, Report, Result, Target};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, cuts};
use tidegate_core::window::WindowOptions;
use tidegate_testkit::pseudo_random;
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, Collect, chunks};
use super::fake::{Act, Call, FakeStore, Fault};
use crate::call::{ChunkedDownloadOptions, download_chunks};

const BUDGET_BYTES: u64 = 16 << 20;

/// Three long chunks.
fn bed() -> Bed {
    let lens = [2_200_000, 3_200_000, 2_100_000];
    let mut bed = Bed::new(chunks(lens.into_iter().zip(1..))).with_budget(BUDGET_BYTES, 16);
    bed.options.window = WindowOptions::fixed(4);
    bed
}

fn held_behind(bed: &Bed, gate: &CancellationToken) {
    let gate = gate.clone();
    bed.store.script(move |call, _, _| match call {
        Call::Get { .. } => Act::behind(&gate),
        _ => Act::default(),
    });
}

/// Options of another download of the same process.
fn another(bed: &Bed) -> ChunkedDownloadOptions {
    ChunkedDownloadOptions {
        progress: Arc::default(),
        cancel: CancellationToken::new(),
        ..bed.options.clone()
    }
}

/// Waits until `count` units have begun. A unit joins those in flight before it waits for anything.
async fn begun(options: &ChunkedDownloadOptions, count: u32) {
    while options.progress.snapshot().in_flight < count {
        tokio::task::yield_now().await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Buffer,
}

/// A target that shows its bytes.
enum Given {
    File(std::path::PathBuf),
    Buffer(Arc<ShardBuffer>),
}

impl Given {
    fn new(bed: &Bed, kind: Kind, name: &str) -> Self {
        match kind {
            Kind::File => Self::File(bed.folder.path().join(name)),
            Kind::Buffer => {
                Self::Buffer(Arc::new(ShardBuffer::new(ShardBufferOptions::default()).unwrap()))
            }
        }
    }

    fn target(&self) -> Target {
        match self {
            Self::File(path) => Target::File(path.clone()),
            Self::Buffer(buffer) => Target::Buffer(Arc::clone(buffer)),
        }
    }

    fn bytes(&self) -> Bytes {
        match self {
            Self::File(path) => fs::read(path).unwrap().into(),
            Self::Buffer(buffer) => buffer.slice(0..buffer.total().unwrap()).unwrap(),
        }
    }
}

fn all_paid_for(budget: &Budget) {
    assert_eq!(budget.held_bytes(), 0);
    assert!(budget.held_bytes_peak() <= BUDGET_BYTES, "{}", budget.held_bytes_peak());
}

#[tokio::test]
async fn concurrent_downloads_fetch_each_long_chunk_once() {
    for kinds in [
        [Kind::File, Kind::File],
        [Kind::File, Kind::Buffer],
        [Kind::Buffer, Kind::File],
        [Kind::Buffer, Kind::Buffer],
    ] {
        let bed = bed();
        let gate = CancellationToken::new();
        held_behind(&bed, &gate);
        let (store, other) = (bed.dyn_store(), another(&bed));
        let [one, two] =
            [(kinds[0], "one"), (kinds[1], "two")].map(|(kind, name)| Given::new(&bed, kind, name));
        let first = download_chunks(&store, &bed.blob, one.target(), &bed.options);
        let second = async {
            begun(&bed.options, 3).await;
            download_chunks(&store, &bed.blob, two.target(), &other).await
        };
        let opened = async {
            begun(&other, 3).await;
            gate.cancel();
        };
        let (first, second, ()) = tokio::join!(first, second, opened);
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(
            (first.chunks.unwrap().moved.chunks, first.chunks.unwrap().shared.chunks),
            (3, 0),
            "{kinds:?}"
        );
        assert_eq!(
            (second.chunks.unwrap().moved.chunks, second.chunks.unwrap().shared.chunks),
            (0, 3),
            "{kinds:?}"
        );
        assert_eq!(
            (second.chunks.unwrap().moved.bytes, second.chunks.unwrap().shared.bytes),
            (0, bed.blob.len)
        );
        assert_eq!(bed.store.fetches().len(), 3, "{kinds:?}");
        for given in [one, two] {
            assert!(given.bytes() == bed.content(), "{kinds:?}");
        }
        all_paid_for(bed.options.client.budget());
    }
}

/// Bytes that are fetched into a file are also copied into a stream.
#[tokio::test]
async fn a_stream_copies_from_a_file() {
    let bed = Bed::new(chunks([(2_200_000, 1), (100, 2)])).with_budget(BUDGET_BYTES, 16);
    let gate = CancellationToken::new();
    held_behind(&bed, &gate);
    let (store, other) = (bed.dyn_store(), another(&bed));
    let file = Given::new(&bed, Kind::File, "file");
    let collect = Collect::default();
    let stream = Target::Writer { writer: Box::new(collect.clone()), name: "test".to_owned() };
    let first = download_chunks(&store, &bed.blob, file.target(), &bed.options);
    let second = async {
        begun(&bed.options, 1).await;
        download_chunks(&store, &bed.blob, stream, &other).await
    };
    let opened = async {
        begun(&other, 1).await;
        gate.cancel();
    };
    let (first, second, ()) = tokio::join!(first, second, opened);
    assert_eq!(first.unwrap().chunks.unwrap().shared.bytes, 0);
    assert!(second.unwrap().chunks.unwrap().shared.bytes >= 2_200_000);
    assert!(file.bytes() == bed.content() && *collect.0.lock().unwrap() == bed.content());
    assert_eq!(bed.store.asked_for()[&bed.digest(0)], 1);
}

/// A stream may block on its reader, so it is never a leader: other downloads fetch for themselves.
#[tokio::test]
async fn a_stream_never_leads_a_chunk_in_flight() {
    let mut bed = Bed::new(chunks([(2_200_000, 1), (100, 2)])).with_budget(BUDGET_BYTES, 16);
    // The limit for silence is longer than this test.
    bed.options.retry.stall_ms_max = 3_600_000;
    let (gate, long) = (CancellationToken::new(), bed.digest(0));
    let held = gate.clone();
    bed.store.script(move |_, digest, nth| match digest {
        Some(digest) if *digest == long && nth == 0 => Act::behind(&held),
        _ => Act::default(),
    });
    let (store, other) = (bed.dyn_store(), another(&bed));
    let collect = Collect::default();
    let stream = Target::Writer { writer: Box::new(collect.clone()), name: "test".to_owned() };
    let first = download_chunks(&store, &bed.blob, stream, &bed.options);
    let second = async {
        while !bed.store.asked_for().contains_key(&long) {
            tokio::task::yield_now().await;
        }
        let file = Given::new(&bed, Kind::File, "file");
        let report = download_chunks(&store, &bed.blob, file.target(), &other).await;
        gate.cancel();
        assert!(file.bytes() == bed.content());
        report
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(
        (
            first.unwrap().chunks.unwrap().shared.chunks,
            second.unwrap().chunks.unwrap().shared.chunks
        ),
        (0, 0)
    );
    assert!(*collect.0.lock().unwrap() == bed.content());
}

#[tokio::test]
async fn a_leader_that_is_cancelled_hands_its_work_over() {
    for kind in [Kind::File, Kind::Buffer] {
        let bed = bed();
        let gate = CancellationToken::new();
        held_behind(&bed, &gate);
        let (store, other) = (bed.dyn_store(), another(&bed));
        let leading = Given::new(&bed, kind, "leading");
        let following = Given::new(&bed, kind, "following");
        let leader = download_chunks(&store, &bed.blob, leading.target(), &bed.options);
        let follower = async {
            begun(&bed.options, 3).await;
            download_chunks(&store, &bed.blob, following.target(), &other).await
        };
        let cancel = async {
            begun(&other, 3).await;
            bed.options.cancel.cancel();
            while bed.store.fetches().len() < 6 {
                tokio::task::yield_now().await;
            }
            gate.cancel();
        };
        let (leader, follower, ()) = tokio::join!(leader, follower, cancel);
        assert_eq!(leader.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(follower.unwrap().chunks.unwrap().moved.chunks, 3);
        assert!(following.bytes() == bed.content());
        all_paid_for(bed.options.client.budget());
    }
}

/// If a leader is cancelled, one of its followers becomes the leader, and the others follow it.
#[tokio::test]
async fn a_follower_of_a_cancelled_leader_becomes_the_leader() {
    let bed = bed();
    let gate = CancellationToken::new();
    held_behind(&bed, &gate);
    let (store, others) = (bed.dyn_store(), [another(&bed), another(&bed)]);
    let [leading, one, two] =
        ["leading", "one", "two"].map(|name| Given::new(&bed, Kind::Buffer, name));
    let leader = download_chunks(&store, &bed.blob, leading.target(), &bed.options);
    let follower = async |given: &Given, options: &ChunkedDownloadOptions| {
        begun(&bed.options, 3).await;
        download_chunks(&store, &bed.blob, given.target(), options).await
    };
    let cancel = async {
        begun(&others[0], 3).await;
        begun(&others[1], 3).await;
        bed.options.cancel.cancel();
        while bed.store.fetches().len() < 6 {
            tokio::task::yield_now().await;
        }
        gate.cancel();
    };
    let followers = async { tokio::join!(follower(&one, &others[0]), follower(&two, &others[1])) };
    let (leader, followers, ()) = tokio::join!(leader, followers, cancel);
    assert_eq!(leader.unwrap_err().kind(), ErrorKind::Cancelled);
    let reports = [followers.0.unwrap(), followers.1.unwrap()];
    let fetched: u64 = reports.iter().map(|report| report.chunks.unwrap().moved.chunks).sum();
    let shared: u64 = reports.iter().map(|report| report.chunks.unwrap().shared.chunks).sum();
    assert_eq!((fetched, shared, bed.store.fetches().len()), (3, 3, 6));
    assert!(one.bytes() == bed.content() && two.bytes() == bed.content());
}

#[tokio::test]
async fn a_failure_of_the_leader_does_not_fail_its_followers() {
    let bed = bed();
    let (gate, first) = (CancellationToken::new(), bed.digest(1));
    let held = gate.clone();
    bed.store.script(move |call, digest, nth| match (call, nth) {
        (Call::Get { .. }, 0) if digest == Some(&first) => Act::behind(&held).but(Fault::Refused),
        (Call::Get { .. }, _) => Act::behind(&held),
        _ => Act::default(),
    });
    let (store, other) = (bed.dyn_store(), another(&bed));
    let [one, two] = ["one", "two"].map(|name| Given::new(&bed, Kind::File, name));
    let leader = download_chunks(&store, &bed.blob, one.target(), &bed.options);
    let follower = async {
        begun(&bed.options, 3).await;
        download_chunks(&store, &bed.blob, two.target(), &other).await
    };
    let opened = async {
        begun(&other, 3).await;
        gate.cancel();
    };
    let (leader, follower, ()) = tokio::join!(leader, follower, opened);
    assert_eq!(leader.unwrap_err().kind(), ErrorKind::NoAccess);
    follower.unwrap();
    assert!(two.bytes() == bed.content());
}

/// Two versions of a file. Most chunks are too long to be held with the budget of [`seeded`].
fn versions() -> (Vec<u8>, Vec<u8>) {
    let old = pseudo_random(6_000_000, 1).to_vec();
    let mut new = old.clone();
    new.splice(4_500_000..4_500_010, *b"other");
    new[900_000] ^= 1;
    (old, new)
}

fn chunking() -> Chunking {
    Chunking::FastCdc2020(FastCdc2020Params::new(256 << 10, 0).unwrap())
}

const SEEDED_BUDGET_BYTES: u64 = 1 << 20;

fn seeded() -> Bed {
    let (old, new) = versions();
    let bytes = Bytes::from(new);
    let mut rest = bytes.clone();
    let chunks: Vec<Bytes> = cuts(&chunking(), &bytes).map(|len| rest.split_to(len)).collect();
    let long = chunks.iter().filter(|one| one.len() as u64 > SEEDED_BUDGET_BYTES / 8).count();
    assert!(long > 10 && long * 10 > chunks.len() * 9, "{long} of {}", chunks.len());
    let store = FakeStore::new().with_profile(|profile| profile.chunkings = vec![chunking()]);
    let mut bed = Bed::on(store, chunks).with_budget(SEEDED_BUDGET_BYTES, 4);
    bed.store.hold(&bed.blob, &bed.chunks, Some(chunking()));
    let seed = bed.folder.path().join("old");
    fs::write(&seed, old).unwrap();
    bed.options.seeds = vec![seed];
    bed
}

/// Downloads into every kind of target that this budget has room for.
async fn everywhere(bed: &Bed) -> Vec<Report> {
    let file = bed.to_file().await.unwrap();
    fs::remove_file(bed.path()).unwrap();
    let (buffer, given) = bed.to_buffer().await;
    assert!(given.slice(0..bed.blob.len).unwrap() == bed.content());
    let (writer, given) = bed.to_writer().await;
    assert!(given == bed.content());
    let nowhere = bed.run(Target::Discard).await;
    let reports: Result<Vec<_>> = [Ok(file), buffer, writer, nowhere].into_iter().collect();
    assert!(bed.options.client.budget().held_bytes_peak() <= SEEDED_BUDGET_BYTES);
    reports.unwrap()
}

#[tokio::test]
async fn chunks_of_a_seed_are_copied() {
    let bed = seeded();
    for report in everywhere(&bed).await {
        assert!(report.chunks.unwrap().moved.chunks <= 4, "{report:?}");
        assert!(report.chunks.unwrap().reused.bytes > 4_000_000, "{report:?}");
        assert_eq!(
            report.chunks.unwrap().reused.bytes + report.chunks.unwrap().moved.bytes,
            bed.blob.len
        );
    }
}

/// The index says where the chunks of the seed are. A chunk that is no longer there costs a fetch.
#[tokio::test]
async fn a_seed_that_changes_under_its_index_costs_a_fetch() {
    let bed = seeded();
    let seed = &bed.options.seeds[0];
    let before = everywhere(&bed).await;
    let modified = fs::metadata(seed).unwrap().modified().unwrap();
    let mut bytes = fs::read(seed).unwrap();
    bytes[3_000_000] ^= 1;
    fs::write(seed, &bytes).unwrap();
    fs::File::options().write(true).open(seed).unwrap().set_modified(modified).unwrap();
    for (report, before) in everywhere(&bed).await.into_iter().zip(before) {
        assert_eq!(report.chunks.unwrap().moved.chunks, before.chunks.unwrap().moved.chunks + 1);
        assert_eq!(report.chunks.unwrap().reused.chunks, before.chunks.unwrap().reused.chunks - 1);
        assert_eq!(
            report.chunks.unwrap().reused.bytes + report.chunks.unwrap().moved.bytes,
            bed.blob.len
        );
    }
}

#[tokio::test]
async fn a_chunk_that_recurs_is_copied_from_where_it_stands() {
    let lens = [2_200_000, 3_200_000, 2_100_000, 3_200_000];
    let bed = Bed::new(chunks(lens.into_iter().zip([1, 2, 3, 2]))).with_budget(BUDGET_BYTES, 4);
    let last = bed.digest(2);
    let gate = CancellationToken::new();
    let held = gate.clone();
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if *digest == last => Act::behind(&held).but(Fault::Refused),
        _ => Act::default(),
    });
    let arrived = async {
        while bed.options.progress.snapshot().done_bytes < 8_600_000 {
            tokio::task::yield_now().await;
        }
        gate.cancel();
    };
    let (outcome, ()) = tokio::join!(bed.to_file(), arrived);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoAccess);
    bed.store.script(|_, _, _| Act::default());
    // The recurring chunk is left only at its first place.
    let part = fs::OpenOptions::new().write(true).open(bed.part()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&part, b"lost", 7_500_000).unwrap();
    let report = bed.to_file().await.unwrap();
    assert_eq!(
        (report.chunks.unwrap().reused.chunks, report.chunks.unwrap().reused.bytes),
        (1, 3_200_000)
    );
    assert_eq!(
        (report.chunks.unwrap().moved.chunks, report.chunks.unwrap().moved.bytes),
        (1, 2_100_000)
    );
}

/// In memory a wrong byte cannot be undone: it is reported at the end of its chunk.
#[tokio::test]
async fn wrong_bytes_in_memory_fail_the_download_and_name_the_chunk() {
    let bed = bed();
    let bad = bed.digest(1);
    bed.store.script(move |_, digest, _| match digest {
        Some(digest) if *digest == bad => Act::fault(Fault::Flipped),
        _ => Act::default(),
    });
    let error = bed.to_buffer().await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert!(error.chain().contains(&bad.to_string()), "{}", error.chain());
}
