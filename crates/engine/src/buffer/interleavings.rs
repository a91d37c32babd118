//! Runs every interleaving of a few small scenarios in the model checker. Run with
//! `RUSTFLAGS='--cfg tidegate_loom' cargo test -p tidegate --release --lib interleavings`.
//!
//! Each byte is a cell that the checker watches. Two accesses without an order between them fail
//! the test. So does a wait that never ends: the checker reports a deadlock.

use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::task::{Context, Poll};

use loom::future::block_on;
use loom::thread;

use super::sync::Arc;
use super::{BufferError, ShardBuffer, ShardBufferOptions};

fn buffer() -> ShardBuffer {
    ShardBuffer::new(ShardBufferOptions { limit_bytes: 8, ..ShardBufferOptions::default() })
        .expect("eight bytes are available")
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Enough for the ordering bugs that two or three threads can have, and ends within a minute.
    // LOOM_MAX_PREEMPTIONS=3 searches further.
    builder.preemption_bound.get_or_insert(2);
    builder.check(model);
}

#[test]
fn two_writers_and_a_freeze() {
    check(|| {
        let buffer = buffer();
        let mut first = buffer.shard(0..2).expect("free");
        let mut second = buffer.shard(2..4).expect("free");
        let thread = thread::spawn(move || {
            second.write_all(b"cd").expect("room");
        });
        first.write_all(b"ab").expect("room");
        drop(first);
        match buffer.freeze(4) {
            Ok(bytes) => assert_eq!(bytes, "abcd"),
            Err(BufferError::WritersRemain { held }) => assert_eq!(held, 2..4),
            Err(error) => panic!("{error}"),
        }
        thread.join().expect("no panic");
        assert_eq!(buffer.freeze(4).expect("complete"), "abcd");
    });
}

#[test]
fn what_is_seen_as_written_can_be_read_while_the_writer_goes_on() {
    check(|| {
        let buffer = Arc::new(buffer());
        let mut writer = buffer.shard(0..4).expect("free");
        let reader = Arc::clone(&buffer);
        let thread = thread::spawn(move || {
            let len = reader.contiguous_len();
            let mut bytes = vec![0; usize::try_from(len).expect("small")];
            assert_eq!(reader.read_at(0, &mut bytes).expect("written"), bytes.len());
            assert_eq!(bytes, b"abcd"[..bytes.len()]);
            let beyond = reader.read_at(0, &mut [0; 5]);
            assert!(matches!(beyond, Err(BufferError::Gap { .. })));
        });
        writer.write_all(b"ab").expect("room");
        writer.write_all(b"cd").expect("room");
        drop(writer);
        thread.join().expect("no panic");
    });
}

#[test]
fn a_wait_ends_however_the_writes_fall() {
    check(|| {
        let buffer = buffer();
        let mut first = buffer.shard(0..1).expect("free");
        let mut second = buffer.shard(1..2).expect("free");
        let wait = buffer.wait_for(0..2);
        // The writers stay alive: retiring would also wake the waiter, and so hide a missing
        // wake-up.
        let threads = [
            thread::spawn(move || {
                assert_eq!(first.put(b"a"), 1);
                first
            }),
            thread::spawn(move || {
                assert_eq!(second.put(b"b"), 1);
                second
            }),
        ];
        block_on(wait).expect("it is written");
        let mut bytes = [0; 2];
        assert_eq!(buffer.read_at(0, &mut bytes).expect("written"), 2);
        assert_eq!(&bytes, b"ab");
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
}

#[test]
fn two_waits_for_one_writer_both_end() {
    check(|| {
        let buffer = buffer();
        let mut writer = buffer.shard(0..2).expect("free");
        let (early, late) = (buffer.wait_for(0..1), buffer.wait_for(0..2));
        let waiter = thread::spawn(move || block_on(early).expect("it is written"));
        let thread = thread::spawn(move || {
            assert_eq!(writer.put(b"a"), 1);
            assert_eq!(writer.put(b"b"), 1);
            writer
        });
        block_on(late).expect("it is written");
        waiter.join().expect("no panic");
        thread.join().expect("no panic");
    });
}

#[test]
fn a_wait_for_what_is_reserved_later_ends() {
    check(|| {
        let buffer = Arc::new(buffer());
        let wait = buffer.wait_for(0..1);
        let later = Arc::clone(&buffer);
        let thread = thread::spawn(move || {
            drop(later.shard(0..2).expect("free"));
            later.write_at(0, b"a").expect("free");
        });
        block_on(wait).expect("it is written");
        thread.join().expect("no panic");
    });
}

#[test]
fn of_two_reservations_that_overlap_one_is_refused() {
    check(|| {
        let buffer = Arc::new(buffer());
        let other = Arc::clone(&buffer);
        let thread = thread::spawn(move || other.write_at(0, b"ab").is_ok());
        let here = buffer.write_at(1, b"xy").is_ok();
        let there = thread.join().expect("no panic");
        // Written bytes stay written, so the second reservation is refused, whichever thread makes
        // it.
        assert!(here != there);
    });
}

#[test]
fn memory_goes_with_the_last_who_holds_it() {
    check(|| {
        let buffer = buffer();
        buffer.write_at(0, b"ab").expect("free");
        let mut writer = buffer.shard(2..3).expect("free");
        let thread = thread::spawn(move || assert_eq!(writer.put(b"c"), 1));
        let mut bytes = [0; 2];
        assert_eq!(buffer.read_at(0, &mut bytes).expect("written"), 2);
        drop(buffer);
        thread.join().expect("no panic");
    });
}

#[test]
fn a_wait_ends_when_no_writer_is_left() {
    check(|| {
        let buffer = buffer();
        let writer = buffer.shard(0..2).expect("free");
        let wait = buffer.wait_for(0..2);
        let thread = thread::spawn(move || drop(writer));
        drop(buffer);
        assert!(matches!(block_on(wait), Err(BufferError::Abandoned)));
        thread.join().expect("no panic");
    });
}

#[test]
fn a_failure_reaches_who_waits_and_who_comes_later() {
    check(|| {
        let buffer = Arc::new(buffer());
        let failing = Arc::clone(&buffer);
        let wait = buffer.wait_for(0..1);
        let thread = thread::spawn(move || failing.fail(std::io::Error::other("broke")));
        assert!(matches!(block_on(wait), Err(BufferError::Failed { .. })));
        thread.join().expect("no panic");
        assert!(matches!(buffer.shard(0..1), Err(BufferError::Failed { .. })));
    });
}

#[test]
fn overwriting_is_alone_or_refused() {
    check(|| {
        let mut buffer = buffer();
        buffer.write_at(0, b"ab").expect("free");
        let mut reader = Box::pin(buffer.wait_for(0..2));
        let thread = thread::spawn(move || {
            let waker = futures_util::task::noop_waker();
            let mut context = Context::from_waker(&waker);
            assert!(matches!(pin!(&mut reader).poll(&mut context), Poll::Ready(Ok(()))));
        });
        match buffer.cursor().write(b"xy") {
            Ok(count) => assert_eq!(count, 2),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy),
        }
        thread.join().expect("no panic");
    });
}
