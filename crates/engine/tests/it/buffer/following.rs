//! Readers that follow the writers. They get the bytes in order, whatever the order of the writes,
//! up to the blob's end or its failure. They never get a byte that was not written.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_core::Stream;
use tidegate::buffer::{BufferError, ShardReader};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::bed::{MIB, Wakes, block_on, buffer, each_backing, fill, pattern};

type Piece = Option<Result<Bytes, BufferError>>;

fn next(reader: &mut ShardReader, wakes: &Arc<Wakes>) -> Poll<Piece> {
    Pin::new(reader).poll_next(&mut Context::from_waker(&Waker::from(Arc::clone(wakes))))
}

/// All bytes that a stream gives without waiting.
#[track_caller]
fn given(reader: &mut ShardReader, wakes: &Arc<Wakes>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Poll::Ready(Some(piece)) = next(reader, wakes) {
        all.extend_from_slice(&piece.unwrap());
    }
    all
}

fn is_end(polled: &Poll<Piece>) -> bool {
    matches!(polled, Poll::Ready(None))
}

#[test]
fn a_stream_follows_writers_that_come_out_of_order() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (mut reader, wakes) = (buffer.reader(), Wakes::new());
        assert!(next(&mut reader, &wakes).is_pending());
        fill(&buffer, 10..20);
        assert_eq!(wakes.count(), 0, "nothing for it yet");
        let mut first = buffer.shard(0..10).unwrap();
        assert_eq!(first.put(&pattern(0..4)), 4);
        assert_eq!(wakes.count(), 1);
        assert_eq!(given(&mut reader, &wakes), pattern(0..4));
        assert_eq!(first.put(&pattern(4..10)), 6);
        assert_eq!(wakes.count(), 2);
        assert_eq!(given(&mut reader, &wakes), pattern(4..20));
        assert_eq!(reader.position(), 20);
        buffer.set_total(20).unwrap();
        assert_eq!(wakes.count(), 3, "the end wakes the reader, too");
        for _ in 0..3 {
            assert!(is_end(&next(&mut reader, &wakes)));
        }
    });
}

#[test]
fn an_end_that_is_settled_late_ends_a_reader_that_has_caught_up() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..10);
        let mut stream = buffer.reader();
        let wakes = Wakes::new();
        assert_eq!(given(&mut stream, &wakes), pattern(0..10));
        assert!(next(&mut stream, &wakes).is_pending());
        assert_eq!(buffer.freeze(10).unwrap(), pattern(0..10));
        assert_eq!(wakes.count(), 1);
        assert!(is_end(&next(&mut stream, &wakes)));
        // A reader that starts after the end is known, and readers that begin at the end and
        // beyond.
        assert_eq!(given(&mut buffer.reader(), &wakes), pattern(0..10));
        for position in [10, 11, u64::MAX] {
            assert!(is_end(&next(&mut buffer.reader_at(position), &wakes)));
        }
        assert_eq!(given(&mut buffer.reader_at(7), &wakes), pattern(7..10));
    });
}

#[test]
fn streamed_pieces_share_the_buffers_memory() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..4 * MIB + 1);
        buffer.set_total(4 * MIB + 1).unwrap();
        let (mut reader, wakes) = (buffer.reader(), Wakes::new());
        let mut count = 0;
        while let Poll::Ready(Some(piece)) = next(&mut reader, &wakes) {
            let piece = piece.unwrap();
            let range = reader.position() - piece.len() as u64..reader.position();
            assert_eq!(
                piece.as_ptr(),
                buffer.slice(range.start..range.start + 1).unwrap().as_ptr()
            );
            assert!(piece == pattern(range));
            count += 1;
        }
        assert!(count >= 4, "a reader far behind need not take all at once: {count}");
    });
}

#[test]
fn reads_of_any_size_give_the_same_bytes() {
    each_backing(|backing| {
        let buffer = &buffer(backing);
        let len = 100_003;
        for read_bytes in [1_000, 4_096, 65_537, 200_000] {
            let mut reader = buffer.reader();
            let content = std::thread::scope(|scope| {
                let reading = scope.spawn(move || {
                    block_on(async {
                        let (mut all, mut target) = (Vec::new(), vec![0; read_bytes]);
                        while let count @ 1.. = reader.read(&mut target).await.unwrap() {
                            all.extend_from_slice(&target[..count]);
                        }
                        assert_eq!(reader.position(), all.len() as u64);
                        assert_eq!(reader.read(&mut target).await.unwrap(), 0);
                        all
                    })
                });
                if buffer.is_empty() {
                    for range in [9..70_000, 70_000..len, 1..9, 0..1] {
                        fill(buffer, range);
                    }
                    buffer.set_total(len).unwrap();
                }
                reading.join().unwrap()
            });
            assert!(content == pattern(0..len), "in reads of {read_bytes}");
        }
    });
}

#[test]
fn a_reader_may_be_read_and_streamed_in_turns() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..100);
        buffer.set_total(100).unwrap();
        let (mut reader, wakes) = (buffer.reader(), Wakes::new());
        let mut target = [0; 30];
        assert_eq!(block_on(reader.read(&mut target)).unwrap(), 30);
        assert_eq!((target.to_vec(), reader.position()), (pattern(0..30), 30));
        assert_eq!(given(&mut reader, &wakes), pattern(30..100));
        assert_eq!((reader.position(), block_on(reader.read(&mut target)).unwrap()), (100, 0));
    });
}

#[test]
fn an_empty_read_does_not_wait() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut reader = buffer.reader();
        let mut nothing = ReadBuf::new(&mut []);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut reader).poll_read(&mut cx, &mut nothing).is_ready());
    });
}

#[test]
fn a_failure_reaches_every_reader_once_after_right_bytes_only() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut writer = buffer.shard(0..10).unwrap();
        assert_eq!(writer.put(&pattern(0..4)), 4);
        let wakes = Wakes::new();
        let (mut caught_up, mut behind) = (buffer.reader(), buffer.reader());
        let mut elsewhere = buffer.reader_at(7);
        assert_eq!(given(&mut caught_up, &wakes), pattern(0..4));
        assert!(next(&mut elsewhere, &wakes).is_pending());
        // Two of the readers wait. The third has not been polled yet.
        buffer.fail(std::io::Error::other("the link is down"));
        assert_eq!(wakes.count(), 2);
        let mut late = buffer.reader();
        for reader in [&mut caught_up, &mut behind, &mut elsewhere, &mut late] {
            match next(reader, &wakes) {
                Poll::Ready(Some(Err(BufferError::Failed { source }))) => {
                    assert_eq!(source.to_string(), "the link is down");
                }
                other => panic!("{other:?}"),
            }
            assert!(is_end(&next(reader, &wakes)), "once, and then the stream ends");
        }
        assert_eq!(wakes.count(), 2);
    });
}

#[test]
fn a_failure_is_never_taken_for_the_end_of_a_file() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..10);
        let mut reader = buffer.reader();
        let mut target = [0; 4];
        assert_eq!(block_on(reader.read(&mut target)).unwrap(), 4);
        buffer.fail(std::io::Error::other("the link is down"));
        // The reader still delivers the bytes that it got before the failure. Then every read
        // fails.
        let mut rest = Vec::new();
        let error = block_on(reader.read_to_end(&mut rest)).unwrap_err();
        assert!(pattern(4..10).starts_with(&rest));
        for error in [error, block_on(reader.read(&mut target)).unwrap_err()] {
            let source = error.get_ref().and_then(|source| source.downcast_ref::<BufferError>());
            assert!(matches!(source, Some(BufferError::Failed { .. })), "{error}");
        }
    });
}

#[test]
fn a_blob_that_is_given_up_ends_its_readers_with_an_error() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut writer = buffer.shard(0..10).unwrap();
        let (mut reader, wakes) = (buffer.reader(), Wakes::new());
        assert!(next(&mut reader, &wakes).is_pending());
        drop(buffer);
        assert_eq!(wakes.count(), 0, "a writer is left");
        assert_eq!(writer.put(&pattern(0..4)), 4);
        drop(writer);
        assert!(
            matches!(next(&mut reader, &wakes), Poll::Ready(Some(Ok(piece))) if piece == pattern(0..4))
        );
        assert!(matches!(
            next(&mut reader, &wakes),
            Poll::Ready(Some(Err(BufferError::Abandoned)))
        ));
        assert!(is_end(&next(&mut reader, &wakes)));
    });
}

#[test]
fn a_complete_blob_is_read_to_its_end_after_the_buffer_is_gone() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..100_000);
        buffer.set_total(100_000).unwrap();
        let mut reader = buffer.reader();
        drop(buffer);
        let mut content = Vec::new();
        block_on(reader.read_to_end(&mut content)).unwrap();
        assert!(content == pattern(0..100_000));
    });
}

#[test]
fn a_reader_that_is_dropped_is_forgotten() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (mut reader, wakes) = (buffer.reader(), Wakes::new());
        assert!(next(&mut reader, &wakes).is_pending());
        drop(reader);
        assert_eq!(Arc::strong_count(&wakes), 1, "its waker is let go of");
        fill(&buffer, 0..10);
        assert_eq!(wakes.count(), 0);
    });
}

#[test]
fn a_reader_at_the_largest_position_waits_for_the_end() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (mut reader, wakes) = (buffer.reader_at(u64::MAX), Wakes::new());
        assert!(next(&mut reader, &wakes).is_pending());
        buffer.set_total(10).unwrap();
        assert_eq!(wakes.count(), 1);
        assert!(is_end(&next(&mut reader, &wakes)));
    });
}

#[test]
fn a_failure_after_the_end_was_settled_reaches_readers_that_have_not_seen_the_end() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..10);
        let (mut reader, wakes) = (buffer.reader(), Wakes::new());
        assert_eq!(given(&mut reader, &wakes), pattern(0..10));
        buffer.set_total(10).unwrap();
        buffer.fail(std::io::Error::other("the checksum is another"));
        assert!(matches!(
            next(&mut reader, &wakes),
            Poll::Ready(Some(Err(BufferError::Failed { .. })))
        ));
        assert!(is_end(&next(&mut reader, &wakes)));
    });
}
