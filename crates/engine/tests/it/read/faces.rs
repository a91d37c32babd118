//! The interfaces of a channel: what each of them delivers, and that a caller can mix them.

use std::io::{BufRead as _, Read as _, Seek as _};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tidegate::ErrorKind;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::remote::RemoteOptions;
use tidegate_core::range::ByteRange;
use tidegate_testkit::{
    Fault, Flavour, Gate, NetworkProfile, Rule, ServerOptions, SplitMix64, pseudo_random,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};

use super::{FACES, options, read};
use crate::bed::Bed;
use crate::call::{ReadOptions, client_of};
use crate::trial::within;

const LEN: usize = 300_000;

#[tokio::test]
async fn nothing_is_sent_before_the_first_read() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    channel.limit(100);
    channel.capture().unwrap();
    channel.seek(std::io::SeekFrom::Start(10)).await.unwrap();
    channel.seek(std::io::SeekFrom::Current(-5)).await.unwrap();
    assert_eq!(channel.position(), Some(5));
    // A position without a version cannot be restored.
    assert_eq!(channel.capture().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!((channel.len_bytes(), bed.server.connections_accepted()), (None, 0));
    // A range that is known to be empty sends no request.
    for range in [ByteRange::EMPTY, ByteRange::Last(0), ByteRange::Bounded(7..7)] {
        let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
        assert!(channel.next().await.unwrap().is_none());
    }
    assert_eq!((bed.server.requests(), bed.server.connections_accepted()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_delivers_everything() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::Azure] {
        for face in FACES {
            let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
            let outcome = read(bed.location(), options(), face).await;
            outcome.result.unwrap();
            assert!(outcome.content == bed.bytes, "{flavour:?} {face:?}");
            assert_eq!(bed.server.requests(), 1, "{flavour:?} {face:?}");
        }
    }
}

/// Like Go's `iotest.TestReader`: any interface and any read size give the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interfaces_and_read_sizes_can_be_mixed() {
    for seed in 0..30 {
        let mut random = SplitMix64::new(seed);
        let profile =
            NetworkProfile { rate_bytes_per_second: Some(64 << 20), ..NetworkProfile::LOOPBACK };
        let bed = Bed::new(ServerOptions { profile, ..ServerOptions::of(Flavour::Gcs) }, LEN).await;
        let buffer_bytes = [0, 1, 1000, 64 << 10, 1 << 20][usize::try_from(seed % 5).unwrap()];
        let mut channel = crate::call::read(
            bed.location(),
            ReadOptions { buffer_bytes: Some(buffer_bytes), ..options() },
        );
        let mut content = Vec::new();
        loop {
            let before = content.len();
            match random.below(4) {
                0 => content.extend(channel.next().await.unwrap().unwrap_or_default()),
                1 => {
                    let mut buf = vec![0; usize::try_from(random.below(100_000) + 1).unwrap()];
                    let count = channel.read(&mut buf).await.unwrap();
                    content.extend_from_slice(&buf[..count]);
                }
                2 => {
                    let bytes = channel.fill_buf().await.unwrap();
                    let count = bytes.len().min(usize::try_from(random.below(5000) + 1).unwrap());
                    content.extend_from_slice(&bytes[..count]);
                    channel.consume(count);
                }
                _ => {
                    let mut buf = [0; 3];
                    let count = channel.read(&mut buf).await.unwrap();
                    content.extend_from_slice(&buf[..count]);
                }
            }
            assert_eq!(channel.position(), Some(content.len() as u64), "seed {seed}");
            if content.len() == before {
                break;
            }
        }
        assert!(content == bed.bytes, "seed {seed}");
        assert!(channel.verified().is_verified(), "seed {seed}: {:?}", channel.verified());
        assert_eq!(bed.server.requests(), 1, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_buffer_gives_the_same_bytes() {
    // Small writes with pauses, so that frames are small and must be gathered.
    let drip = Fault::SlowDrip { bytes: 3000, interval_ms: 1 };
    for buffer_bytes in [0, 4096, 64 << 10, 1 << 20] {
        for budget_bytes in [4096, 8 << 20] {
            let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
            bed.server.script().always(drip.clone());
            let budget = Budget::new(BudgetOptions { requests: 2, bytes: budget_bytes });
            let options = ReadOptions {
                buffer_bytes: Some(buffer_bytes),
                budget: budget.clone(),
                ..options()
            };
            let mut channel = crate::call::read(bed.location(), options);
            let mut content = Vec::new();
            let mut buf = [0; 700];
            loop {
                let count = within(channel.read(&mut buf)).await.unwrap();
                if count == 0 {
                    break;
                }
                content.extend_from_slice(&buf[..count]);
            }
            let label = format!("{buffer_bytes} of {budget_bytes}");
            assert!(content == bed.bytes, "{label}");
            assert!(budget.held_bytes_peak() <= buffer_bytes as u64, "{label}: {budget:?}");
            assert!(buffer_bytes > 0 || budget.held_bytes_peak() == 0, "{label}");
            drop(channel);
            assert_eq!(budget.held_bytes(), 0, "{label}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_does_not_copy() {
    // `next` must return the memory that `fill_buf` showed, without its first byte.
    let bed = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    let held = channel.fill_buf().await.unwrap();
    let (start, len) = (held.as_ptr(), held.len());
    channel.consume(1);
    let frame: Bytes = channel.next().await.unwrap().unwrap();
    assert_eq!(frame.as_ptr() as usize, start as usize + 1);
    assert_eq!(frame.len(), len - 1);
    assert_eq!(frame, bed.bytes.slice(1..len));
}

#[tokio::test]
async fn a_blocking_read_inside_a_task_is_refused() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read_blocking(bed.location(), options());
    let error = channel.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("inside an asynchronous task"), "{error}");
    let error = channel.seek(std::io::SeekFrom::End(0)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
    assert_eq!(bed.server.requests(), 0);
    // The same in a spawned task. Then a read on a blocking thread, which is allowed.
    let mut channel = tokio::spawn(async move {
        assert!(channel.fill_buf().is_err());
        channel
    })
    .await
    .unwrap();
    let read = move || {
        channel.rewind().unwrap();
        let mut lines = Vec::new();
        channel.read_until(b'\n', &mut lines).unwrap();
        lines
    };
    let lines = tokio::task::spawn_blocking(read).await.unwrap();
    assert!(bed.bytes.starts_with(&lines) && !lines.is_empty());
}

/// Blocking channels of a process share one thread for their connections. So a channel can reuse a
/// connection that another channel left in the pool.
#[test]
fn blocking_channels_work_without_any_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bed = runtime.block_on(Bed::new(ServerOptions::of(Flavour::S3), LEN));
    let location = bed.location();
    for _ in 0..3 {
        let location = location.clone();
        let bytes = bed.bytes.clone();
        std::thread::spawn(move || {
            let mut channel = crate::call::read_blocking(location, options());
            let mut content = Vec::new();
            channel.read_to_end(&mut content).unwrap();
            assert!(content == bytes);
            assert!(channel.verified().is_verified());
            assert_eq!(channel.next_bytes().unwrap(), None);
        })
        .join()
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_channel_releases_its_permits() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let gate = Gate::new();
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
    let hold = Fault::HoldAfter { bytes: 1000, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).always());
    let options = ReadOptions { budget: budget.clone(), ..options() };
    let mut channel = crate::call::read(bed.location(), options.clone());
    let mut buf = [0; 10];
    channel.read_exact(&mut buf).await.unwrap();
    // This channel holds the only request permit.
    let mut waiting = Box::pin(budget.request());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    channel.suspend();
    assert_eq!(budget.held_bytes(), 0);
    drop(within(waiting).await);
    // The held bytes are delivered, and the rest is requested again.
    let mut rest = vec![0; 1990];
    within(channel.read_exact(&mut rest)).await.unwrap();
    assert!(bed.bytes[10..2000] == rest);
    assert_eq!(channel.totals().requests, 2);
    drop(channel);
    within(budget.request()).await;
    within(bed.server.idle()).await;
    drop(gate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_future_loses_nothing() {
    let profile = NetworkProfile { latency_ms: 2, ..NetworkProfile::LOOPBACK };
    let bed = Bed::new(ServerOptions { profile, ..ServerOptions::of(Flavour::S3) }, LEN).await;
    bed.server.script().push(Rule::new(Fault::CutAfter(50_000)).method("GET").times(3));
    let mut channel = crate::call::read(bed.location(), options());
    let mut content = Vec::new();
    loop {
        // Each future is polled once and dropped.
        let mut next = Box::pin(channel.next());
        match futures_util::poll!(&mut next) {
            std::task::Poll::Pending => {
                drop(next);
                tokio::task::yield_now().await;
            }
            std::task::Poll::Ready(frame) => match frame.unwrap() {
                Some(bytes) => content.extend_from_slice(&bytes),
                None => break,
            },
        }
    }
    assert!(content == bed.bytes);
    assert!(channel.verified().is_verified());
    // The checksum request, the read, and one request for each cut.
    assert_eq!(bed.server.requests(), 2 + 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_file_is_a_blob() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blob");
    let bytes = pseudo_random(3_000_000, 1);
    std::fs::write(&path, &bytes).unwrap();
    let remotes = client_of(RemoteOptions::default());
    let location = remotes.locate(path.to_str().unwrap()).unwrap();
    let mut channel = crate::call::read(location, options());
    channel.seek(std::io::SeekFrom::End(-1_500_000)).await.unwrap();
    let tail: Vec<Bytes> = channel.by_ref().map(Result::unwrap).collect().await;
    assert!(tail.concat() == bytes[1_500_000..]);
    assert!(!channel.verified().is_verified());
}
