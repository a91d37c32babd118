//! Random plans for many threads. Each thread writes its own shards, in calls of any size and
//! through every write interface. It drops some writers midway and reserves the rest again, while
//! readers follow and wait.

use std::io::Write;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

use bytes::BufMut;
use proptest::prelude::*;
use tidegate::buffer::{Backing, ShardBuffer, ShardBufferOptions, ShardReader, ShardWriter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::bed::{BACKINGS, MIB, Wakes, block_on, buffer, byte_at, each_backing, pattern, poll};

/// With a small hint this is three segments and many granules.
const LEN_MAX: u64 = 200_000;

const THREADS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum How {
    Write,
    AsyncWrite,
    BufMut,
    WriteAt,
}

/// What a thread does with one shard.
#[derive(Clone, Debug)]
struct Part {
    range: Range<u64>,
    how: How,
    call_bytes: u64,
    // After this many bytes the writer is dropped, and another one takes the rest.
    stop_after: Option<u64>,
}

#[derive(Clone, Debug)]
struct Plan {
    len: u64,
    len_hint: Option<u64>,
    threads: Vec<Vec<Part>>,
    waits: Vec<Range<u64>>,
    read_bytes: usize,
}

fn any_how() -> impl Strategy<Value = How> {
    prop_oneof![Just(How::Write), Just(How::AsyncWrite), Just(How::BufMut), Just(How::WriteAt)]
}

type Choice = (How, u64, Option<u64>, usize);

fn any_plan() -> impl Strategy<Value = Plan> {
    let choice = (any_how(), 1..70_000_u64, prop::option::of(1..30_000_u64), 0..THREADS);
    let shards = prop::collection::vec((0..LEN_MAX, choice), 1..24);
    let waits = prop::collection::vec((0..LEN_MAX, 0..LEN_MAX), 0..12);
    (1..LEN_MAX, prop::option::of(0..LEN_MAX), shards, waits, 1..100_000_usize).prop_map(
        |(len, hint, shards, waits, read_bytes)| plan(len, hint, shards, &waits, read_bytes),
    )
}

/// Cuts `0..len` into shards, and assigns each to a thread.
fn plan(
    len: u64,
    len_hint: Option<u64>,
    shards: Vec<(u64, Choice)>,
    waits: &[(u64, u64)],
    read_bytes: usize,
) -> Plan {
    let mut cuts: Vec<_> = shards.into_iter().map(|(cut, choice)| (cut % len, choice)).collect();
    cuts.sort_by_key(|(cut, _)| *cut);
    cuts.dedup_by_key(|(cut, _)| *cut);
    let mut threads = vec![Vec::new(); THREADS];
    let ends: Vec<u64> = cuts.iter().skip(1).map(|(cut, _)| *cut).chain([len]).collect();
    for (index, ((cut, choice), end)) in cuts.into_iter().zip(ends).enumerate() {
        let start = if index == 0 { 0 } else { cut };
        let (how, call_bytes, stop_after, thread) = choice;
        threads[thread].push(Part { range: start..end, how, call_bytes, stop_after });
    }
    // Not in order: the end of the blob may be written first.
    threads.iter_mut().step_by(2).for_each(|parts| parts.reverse());
    let waits = waits.iter().map(|(one, other)| {
        let (one, other) = (one % (len + 1), other % (len + 1));
        one.min(other)..one.max(other)
    });
    Plan { len, len_hint, threads, waits: waits.collect(), read_bytes }
}

fn write_part(buffer: &ShardBuffer, part: &Part) {
    let mut rest = part.range.clone();
    let mut stop_after = part.stop_after;
    while !rest.is_empty() {
        if matches!(part.how, How::WriteAt) {
            let end = (rest.start + part.call_bytes).min(rest.end);
            buffer.write_at(rest.start, &pattern(rest.start..end)).unwrap();
            rest.start = end;
            continue;
        }
        let mut writer = buffer.shard(rest.clone()).unwrap();
        let until = stop_after.take().map_or(rest.end, |bytes| (rest.start + bytes).min(rest.end));
        while writer.rest().start < until {
            let bytes = part.call_bytes.min(until - writer.rest().start);
            write_call(&mut writer, part.how, bytes);
        }
        rest = writer.rest();
    }
}

fn write_call(writer: &mut ShardWriter, how: How, bytes: u64) {
    let at = writer.rest().start;
    let data = pattern(at..at + bytes);
    match how {
        How::Write | How::WriteAt => Write::write_all(writer, &data).unwrap(),
        How::AsyncWrite => {
            // The write never returns `Pending`.
            let writing =
                poll(&mut Box::pin(AsyncWriteExt::write_all(writer, &data)), &Wakes::new());
            assert!(matches!(writing, Poll::Ready(Ok(()))));
        }
        How::BufMut => {
            let mut left = data.as_slice();
            while !left.is_empty() {
                let chunk = writer.chunk_mut();
                let count = chunk.len().min(left.len());
                assert!(count > 0, "there is room, and none is lent");
                chunk[..count].copy_from_slice(&left[..count]);
                #[expect(unsafe_code, reason = "the trait is unsafe: this is what sockets do")]
                // SAFETY: the copy above has initialised these `count` bytes.
                unsafe {
                    writer.advance_mut(count);
                };
                left = &left[count..];
            }
        }
    }
}

async fn follow_as_stream(mut reader: ShardReader) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(piece) =
        std::future::poll_fn(|cx| futures_core::Stream::poll_next(Pin::new(&mut reader), cx)).await
    {
        all.extend_from_slice(&piece.unwrap());
    }
    all
}

async fn follow_as_file(mut reader: ShardReader, read_bytes: usize) -> Vec<u8> {
    let (mut all, mut target) = (Vec::new(), vec![0; read_bytes]);
    loop {
        match reader.read(&mut target).await.unwrap() {
            0 => return all,
            count => all.extend_from_slice(&target[..count]),
        }
    }
}

fn run(plan: &Plan, backing: Backing) {
    let limit_bytes = LEN_MAX;
    let options =
        ShardBufferOptions { len_hint: plan.len_hint, limit_bytes, backing, ..Default::default() };
    let buffer = &ShardBuffer::new(options).unwrap();
    let expected = pattern(0..plan.len);
    std::thread::scope(|scope| {
        let stream = scope.spawn(|| block_on(follow_as_stream(buffer.reader())));
        let file = scope.spawn(|| block_on(follow_as_file(buffer.reader(), plan.read_bytes)));
        scope.spawn(|| {
            for range in &plan.waits {
                block_on(buffer.wait_for(range.clone())).unwrap();
                let mut target = vec![0; (range.end - range.start) as usize];
                assert_eq!(buffer.read_at(range.start, &mut target).unwrap(), target.len());
                assert!(target == expected[range.start as usize..range.end as usize]);
            }
        });
        let writers: Vec<_> = (plan.threads.iter())
            .map(|parts| scope.spawn(|| parts.iter().for_each(|part| write_part(buffer, part))))
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        buffer.set_total(plan.len).unwrap();
        assert!(stream.join().unwrap() == expected);
        assert!(file.join().unwrap() == expected);
    });
    assert_eq!(buffer.extents().iter().collect::<Vec<_>>(), [0..plan.len]);
    assert!(buffer.freeze(plan.len).unwrap() == expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn many_threads_write_what_one_would(plan in any_plan()) {
        for &backing in BACKINGS {
            run(&plan, backing);
        }
    }
}

#[test]
fn sockets_read_straight_into_their_shards() {
    const SHARD_BYTES: u64 = 300_001;
    const SHARDS: u64 = 4;
    each_backing(|backing| {
        let buffer = buffer(backing);
        block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let sending = async {
                for shard in 0..SHARDS {
                    let (mut socket, _) = listener.accept().await.unwrap();
                    tokio::spawn(async move {
                        let data = pattern(shard * SHARD_BYTES..(shard + 1) * SHARD_BYTES);
                        socket.write_all(&data).await.unwrap();
                    });
                }
            };
            let receiving = async {
                for shard in 0..SHARDS {
                    // One connection after the other, so that each connection gets its own bytes.
                    let mut socket = TcpStream::connect(address).await.unwrap();
                    let range = shard * SHARD_BYTES..(shard + 1) * SHARD_BYTES;
                    let mut writer = buffer.shard(range).unwrap();
                    while writer.has_remaining_mut() {
                        assert!(socket.read_buf(&mut writer).await.unwrap() > 0);
                    }
                }
            };
            tokio::join!(sending, receiving);
        });
        let len = SHARDS * SHARD_BYTES;
        assert!(buffer.freeze(len).unwrap() == pattern(0..len));
    });
}

#[test]
fn writing_with_cache_bypass_gives_the_same_bytes() {
    each_backing(|backing| {
        let options = ShardBufferOptions {
            limit_bytes: 16 * MIB,
            backing,
            bypass_caches: true,
            ..Default::default()
        };
        let buffer = &ShardBuffer::new(options).unwrap();
        let cuts = [0, 1, 4_097, 70_000, 70_017, 1_000_000, 3_000_001];
        std::thread::scope(|scope| {
            for cut in cuts.windows(2) {
                let mut writer = buffer.shard(cut[0]..cut[1]).unwrap();
                scope.spawn(move || {
                    let range = writer.rest();
                    for start in range.clone().step_by(50_001) {
                        let end = (start + 50_001).min(range.end);
                        Write::write_all(&mut writer, &pattern(start..end)).unwrap();
                    }
                });
            }
            let mut target = vec![0; 3_000_001];
            block_on(buffer.wait_for(0..3_000_001)).unwrap();
            assert_eq!(buffer.read_at(0, &mut target).unwrap(), target.len());
            assert!(target.iter().zip(0..).all(|(byte, at)| *byte == byte_at(at)));
        });
    });
}
