//! Seeks and limits, compared with a slice of the same bytes.

use std::io::SeekFrom;

use tidegate::read::{ReadChannel, Verification};
use tidegate::{ErrorKind, Unverified};
use tidegate_core::range::ByteRange;
use tidegate_testkit::{Fault, FaultMix, Flavour, Rule, ServerOptions, SplitMix64};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncSeekExt};

use super::{engine_error, options};
use crate::bed::Bed;
use crate::call::ReadOptions;
use crate::trial::within;

const LEN: usize = 600_000;
const END: u64 = LEN as u64;

async fn take(channel: &mut ReadChannel, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    within(channel.read_exact(&mut bytes)).await.unwrap();
    bytes
}

async fn is_at_end(channel: &mut ReadChannel) -> bool {
    within(channel.next()).await.unwrap().is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_seek_forward_reads_on_and_a_long_one_sends_a_request() {
    for (drain_bytes_max, requests) in [(400_000, 1), (399_999, 2), (0, 2)] {
        let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
        // Frames of at most this size, so that the channel holds little.
        bed.server.script().always(Fault::SlowDrip { bytes: 20_000, interval_ms: 1 });
        let options = ReadOptions {
            drain_bytes_max: Some(drain_bytes_max),
            buffer_bytes: Some(0),
            ..options()
        };
        let mut channel = crate::call::read(bed.location(), options);
        assert_eq!(take(&mut channel, 100).await, bed.bytes[..100]);
        let held = channel.fill_buf().await.unwrap().len();
        channel.consume(held);
        let position = channel.position().unwrap();
        let target = position + 400_000;
        assert_eq!(channel.seek(SeekFrom::Current(400_000)).await.unwrap(), target);
        // A seek by itself sends nothing.
        assert_eq!(bed.server.requests(), 1);
        let at = usize::try_from(target).unwrap();
        assert_eq!(take(&mut channel, 100).await, bed.bytes[at..at + 100]);
        assert_eq!(bed.server.requests(), requests, "{drain_bytes_max}");
        let wasted = channel.totals().bytes_wasted;
        assert_eq!(wasted, if requests == 1 { 400_000 } else { 0 }, "{drain_bytes_max}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_backwards_sends_a_request() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    take(&mut channel, 500_000).await;
    channel.seek(SeekFrom::Start(1000)).await.unwrap();
    assert_eq!(take(&mut channel, 9).await, bed.bytes[1000..1009]);
    assert_eq!(bed.server.requests(), 2);
    // Held bytes are not requested again.
    channel.seek(SeekFrom::Current(-5)).await.unwrap();
    assert_eq!(take(&mut channel, 9).await, bed.bytes[1004..1013]);
    assert_eq!(bed.server.requests(), 2);
    let asked: Vec<_> = bed.server.log().into_iter().map(|logged| logged.range).collect();
    assert_eq!(asked, [None, Some("bytes=1000-".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_and_beyond_the_end_there_is_nothing() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        // The end is the same, whether the length is known or not.
        for known in [false, true] {
            let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
            let mut channel = crate::call::read(bed.location(), options());
            if known {
                take(&mut channel, 10).await;
            }
            for position in [END, END + 1, u64::MAX] {
                let label = format!("{flavour:?} {known} {position}");
                channel.seek(SeekFrom::Start(position)).await.unwrap();
                for _ in 0..3 {
                    assert!(is_at_end(&mut channel).await, "{label}");
                    assert_eq!(channel.read(&mut [0; 10]).await.unwrap(), 0, "{label}");
                }
                assert_eq!(channel.position(), Some(position), "{label}");
            }
            channel.seek(SeekFrom::Start(7)).await.unwrap();
            assert_eq!(take(&mut channel, 9).await, bed.bytes[7..16]);
        }
    }
}

/// Only responses to ranges give the length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_that_only_range_responses_give_is_found() {
    let framing = tidegate_testkit::Framing::Chunked;
    for len in [0, LEN] {
        let chunked = ServerOptions { framing, ..ServerOptions::of(Flavour::Http) };
        let bed = Bed::new(chunked, len).await;
        let mut channel = crate::call::read(bed.location(), options());
        channel.seek(SeekFrom::Start(END + 9)).await.unwrap();
        assert!(is_at_end(&mut channel).await, "{len}");
        let mut channel = crate::call::read(bed.location(), options());
        assert_eq!(channel.seek(SeekFrom::End(0)).await.unwrap(), len as u64);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_before_the_start_is_an_error() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    take(&mut channel, 10).await;
    let wrong = [
        SeekFrom::Current(-11),
        SeekFrom::Current(i64::MIN),
        SeekFrom::End(-600_001),
        SeekFrom::End(i64::MIN),
    ];
    for to in wrong {
        let error = channel.seek(to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{to:?}: {error:?}");
        let error = AsyncSeekExt::seek(&mut channel, to).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{to:?}");
        assert_eq!(channel.position(), Some(10), "{to:?}");
    }
    channel.seek(SeekFrom::Start(u64::MAX)).await.unwrap();
    let error = channel.seek(SeekFrom::Current(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    channel.seek(SeekFrom::Start(10)).await.unwrap();
    assert_eq!(take(&mut channel, 10).await, bed.bytes[10..20]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_is_found_when_it_is_asked_for() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    assert_eq!(AsyncSeekExt::seek(&mut channel, SeekFrom::End(-22)).await.unwrap(), END - 22);
    assert_eq!(take(&mut channel, 22).await, bed.bytes[LEN - 22..]);
    assert!(is_at_end(&mut channel).await);
    assert_eq!(channel.seek(SeekFrom::End(0)).await.unwrap(), END);
    assert_eq!(channel.seek(SeekFrom::End(5)).await.unwrap(), END + 5);
    assert_eq!(bed.server.requests(), 2);
    // Finding the length first does not prevent verification.
    channel.rewind().await.unwrap();
    let mut content = Vec::new();
    channel.read_to_end(&mut content).await.unwrap();
    assert!(content == bed.bytes && channel.verified().is_verified());
    // Relative to the end of the range, not of the blob.
    let range = ByteRange::Bounded(100..1000);
    let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
    assert_eq!(channel.position(), Some(100));
    assert_eq!(channel.seek(SeekFrom::End(-10)).await.unwrap(), 990);
    let mut content = Vec::new();
    channel.read_to_end(&mut content).await.unwrap();
    assert_eq!(content, bed.bytes[990..1000]);
    // A range of the last n bytes has no position until a response gives one.
    let range = ByteRange::Last(50);
    let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
    assert_eq!(channel.position(), None);
    assert_eq!(channel.seek(SeekFrom::Current(10)).await.unwrap(), END - 40);
    assert_eq!(take(&mut channel, 40).await, bed.bytes[LEN - 40..]);
    let range = ByteRange::Last(0);
    let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
    assert_eq!(channel.seek(SeekFrom::Current(-3)).await.unwrap(), END - 3);
    assert_eq!(take(&mut channel, 3).await, bed.bytes[LEN - 3..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_is_absolute_and_exclusive() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    channel.limit(1000);
    assert_eq!(take(&mut channel, 900).await, bed.bytes[..900]);
    let mut rest = Vec::new();
    channel.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, bed.bytes[900..1000]);
    assert!(is_at_end(&mut channel).await);
    assert_eq!(channel.verified(), Verification::Unverified(Unverified::Partial));
    // The request asks for no more than the limit.
    assert_eq!(bed.server.log()[0].range.as_deref(), Some("bytes=0-999"));
    // A limit below the position leaves nothing to read. With a higher limit reading continues.
    channel.limit(10);
    assert!(is_at_end(&mut channel).await);
    assert_eq!(bed.server.requests(), 1);
    channel.limit(END + 100);
    rest.clear();
    channel.read_to_end(&mut rest).await.unwrap();
    assert!(rest == bed.bytes[1000..]);
    assert!(channel.verified().is_verified(), "{:?}", channel.verified());
    assert_eq!(bed.server.requests(), 2);

    // The limit lies within a response that is in flight. The rest of the response is not waited
    // for.
    bed.server.script().always(Fault::Stall(20_000));
    let mut channel = crate::call::read(bed.location(), options());
    take(&mut channel, 10).await;
    channel.limit(20_000);
    rest.clear();
    channel.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, bed.bytes[10..20_000]);
    within(bed.server.idle()).await;
    assert_eq!(bed.server.requests(), 3);
}

/// Random plans of reads, seeks, limits and captures through random faults, against a slice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_plans_agree_with_a_slice() {
    for seed in 0..40_u64 {
        let flavour =
            [Flavour::Http, Flavour::Gcs, Flavour::S3][usize::try_from(seed % 3).unwrap()];
        let bed = Bed::new(ServerOptions { seed, ..ServerOptions::of(flavour) }, LEN).await;
        if seed % 2 == 1 {
            bed.server.script().random(seed, FaultMix::recoverable(0.3));
        } else {
            let drip = Fault::SlowDrip { bytes: 30_000, interval_ms: 0 };
            bed.server.script().push(Rule::new(drip).always());
        }
        within(plan(&bed, seed)).await;
    }
}

async fn plan(bed: &Bed, seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut options = options();
    options.retry.attempts_max = 12;
    options.buffer_bytes = Some([0, 1000, 64 << 10][usize::try_from(random.below(3)).unwrap()]);
    options.drain_bytes_max = Some([0, 50_000, 1 << 30][usize::try_from(random.below(3)).unwrap()]);
    let mut channel = crate::call::read(bed.location(), options);
    let (mut position, mut limit) = (0_u64, u64::MAX);
    for step in 0..25 {
        let label = format!("seed {seed} step {step}");
        match random.below(7) {
            0 => {
                limit = if random.below(2) == 0 { u64::MAX } else { random.below(END + 1000) };
                channel.limit(limit);
            }
            1 => {
                let to = random.below(END + 5000);
                position = channel.seek(SeekFrom::Start(to)).await.unwrap();
                assert_eq!(position, to, "{label}");
            }
            2 => {
                let by = i64::try_from(random.below(40_000)).unwrap() - 20_000;
                match (channel.seek(SeekFrom::Current(by)).await, position.checked_add_signed(by)) {
                    (Ok(at), Some(to)) => {
                        assert_eq!(at, to, "{label}");
                        position = to;
                    }
                    (Err(error), None) => assert_eq!(error.kind(), ErrorKind::Invalid, "{label}"),
                    (outcome, to) => panic!("{label}: {outcome:?}, expected {to:?}"),
                }
            }
            3 => {
                let state = match channel.capture() {
                    Ok(state) => state.to_string().parse().unwrap(),
                    // A position beyond the end, or a read without a version, cannot be restored.
                    Err(error) if position > END => {
                        let kinds = [ErrorKind::Invalid, ErrorKind::Unsupported];
                        assert!(kinds.contains(&error.kind()), "{label}: {error:?}");
                        continue;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unsupported, "{label}: {error:?}");
                        assert_eq!(channel.len_bytes(), None, "{label}: {error:?}");
                        continue;
                    }
                };
                let budget = super::options().budget;
                let restored = crate::call::restore_as_it_was(&bed.location(), &state, &budget);
                channel = restored.unwrap();
            }
            4 => channel.suspend(),
            _ => {
                let mut buf = vec![0; usize::try_from(random.below(50_000) + 1).unwrap()];
                let count = match channel.read(&mut buf).await {
                    Ok(count) => count,
                    Err(error) => panic!("{label}: {:?}", engine_error(error)),
                };
                let end = END.min(limit);
                let left = usize::try_from(end.saturating_sub(position)).unwrap();
                assert_eq!(count == 0, left == 0, "{label} at {position}, limit {limit}");
                assert!(count <= left, "{label}");
                let at = usize::try_from(position.min(END)).unwrap();
                assert!(buf[..count] == bed.bytes[at..at + count], "{label} at {position}");
                position += count as u64;
            }
        }
        assert_eq!(channel.position(), Some(position), "{label}");
    }
}

/// The limit lies inside a frame, and is raised before the end is delivered. The bytes that the
/// limit cut off must not be skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_inside_a_frame_can_be_raised_before_the_end() {
    const AT: u64 = 20_500;
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3] {
        let bed = Bed::new(ServerOptions::of(flavour), 600_000).await;
        let mut channel = crate::call::read(bed.location(), options());
        channel.info().await.unwrap();
        channel.limit(AT);
        let mut content = Vec::new();
        while (content.len() as u64) < AT {
            content.extend_from_slice(&channel.next().await.unwrap().unwrap());
        }
        channel.limit(u64::MAX);
        while let Some(bytes) = channel.next().await.unwrap() {
            content.extend_from_slice(&bytes);
        }
        assert!(content == bed.bytes, "{flavour:?}");
    }
}
