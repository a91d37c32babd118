//! Waiting for a range. A wait is woken once, when it has ended, and no other wait is woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::buffer::{BufferError, WaitFor};

use super::bed::{MIB, Wakes, block_on, buffer, each_backing, fill, pattern, poll};

/// A wait that was polled once, and the counter of its wakes.
fn waiting(mut wait: WaitFor) -> (WaitFor, Arc<Wakes>) {
    let wakes = Wakes::new();
    assert!(poll(&mut wait, &wakes).is_pending());
    (wait, wakes)
}

#[test]
fn a_wait_is_woken_once_and_not_before_its_last_byte() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (mut wait, wakes) = waiting(buffer.wait_for(10..20));
        let mut writer = buffer.shard(5..40).unwrap();
        let data = pattern(5..40);
        for (at, byte) in (5..40).zip(&data) {
            assert_eq!(wakes.count(), usize::from(at >= 20), "before byte {at}");
            assert_eq!(writer.put(std::slice::from_ref(byte)), 1);
        }
        drop(writer);
        fill(&buffer, 0..5);
        assert_eq!(wakes.count(), 1);
        assert!(matches!(poll(&mut wait, &wakes), Poll::Ready(Ok(()))));
        drop(wait);
        assert_eq!(wakes.count(), 1);
    });
}

#[test]
fn a_wait_for_written_bytes_is_over_at_once() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..10);
        let mut writer = buffer.shard(10..20).unwrap();
        assert_eq!(writer.put(b"abc"), 3);
        let wakes = Wakes::new();
        assert!(matches!(poll(&mut buffer.wait_for(3..13), &wakes), Poll::Ready(Ok(()))));
        assert!(poll(&mut buffer.wait_for(3..14), &wakes).is_pending());
        assert_eq!(writer.put(b"abcdefg"), 7);
        assert_eq!(wakes.count(), 0);
    });
}

#[test]
fn a_wait_over_many_shards_is_woken_by_the_last_of_them() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut shards: Vec<_> =
            (0..8).map(|n| Some(buffer.shard(10 * n..10 * n + 10).unwrap())).collect();
        let (mut wait, wakes) = waiting(buffer.wait_for(5..75));
        for n in [3, 0, 7, 6, 1, 5, 2] {
            assert_eq!(shards[n].as_mut().unwrap().put(&[0; 10]), 10);
            // With and without dropping the writer.
            if n % 2 == 0 {
                shards[n] = None;
            }
            assert_eq!(wakes.count(), 0, "after shard {n}");
        }
        assert_eq!(shards[4].as_mut().unwrap().put(&[0; 9]), 9);
        assert_eq!(wakes.count(), 0);
        assert_eq!(shards[4].as_mut().unwrap().put(&[0; 1]), 1);
        assert_eq!(wakes.count(), 1);
        assert!(matches!(poll(&mut wait, &wakes), Poll::Ready(Ok(()))));
    });
}

#[test]
fn many_waits_are_each_woken_for_their_own_range() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        // Some ranges have the same end, some lie within others, some cross shards.
        let ranges = [0..1, 0..10, 5..10, 9..10, 9..11, 0..30, 20..30, 25..45, 44..45, 0..60];
        let mut waits: Vec<_> = ranges
            .iter()
            .map(|range| {
                let (wait, wakes) = waiting(buffer.wait_for(range.clone()));
                (range.clone(), wait, wakes)
            })
            .collect();
        for shard in [20..40, 0..20, 40..60] {
            let mut writer = buffer.shard(shard.clone()).unwrap();
            for at in shard {
                assert_eq!(writer.put(&pattern(at..at + 1)), 1);
                for (range, _, wakes) in &waits {
                    let over = buffer.extents().contains(range);
                    assert_eq!(wakes.count(), usize::from(over), "{range:?} after byte {at}");
                }
            }
        }
        for (_, wait, wakes) in &mut waits {
            assert!(matches!(poll(wait, wakes), Poll::Ready(Ok(()))));
        }
    });
}

#[test]
fn a_wait_for_bytes_that_no_writer_has_reserved_yet_is_woken_too() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (mut wait, wakes) = waiting(buffer.wait_for(0..10));
        // A writer reserves the range, and is dropped.
        drop(buffer.shard(0..10).unwrap());
        let mut writer = buffer.shard(0..100).unwrap();
        assert_eq!(writer.put(&pattern(0..7)), 7);
        drop(writer);
        assert_eq!(wakes.count(), 0);
        fill(&buffer, 7..10);
        assert_eq!(wakes.count(), 1);
        assert!(matches!(poll(&mut wait, &wakes), Poll::Ready(Ok(()))));
    });
}

#[test]
fn the_last_waker_that_a_wait_was_polled_with_is_the_one_that_is_woken() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (mut wait, first) = waiting(buffer.wait_for(0..10));
        let second = Wakes::new();
        assert!(poll(&mut wait, &second).is_pending());
        fill(&buffer, 0..10);
        assert_eq!((first.count(), second.count()), (0, 1));
    });
}

#[test]
fn a_wait_that_is_dropped_is_forgotten() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (wait, wakes) = waiting(buffer.wait_for(0..10));
        let (other, other_wakes) = waiting(buffer.wait_for(0..10));
        drop(wait);
        assert_eq!(Arc::strong_count(&wakes), 1, "its waker is let go of");
        fill(&buffer, 0..10);
        assert_eq!((wakes.count(), other_wakes.count()), (0, 1));
        drop(other);
    });
}

#[test]
fn a_failure_reaches_every_wait_once_and_those_that_come_later() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut waits = [0..10, 5..50, 1_000..1_001].map(|range| waiting(buffer.wait_for(range)));
        buffer.fail(std::io::Error::other("the link is down"));
        buffer.fail(std::io::Error::other("and stays down"));
        for (wait, wakes) in &mut waits {
            assert_eq!(wakes.count(), 1);
            match poll(wait, wakes) {
                Poll::Ready(Err(BufferError::Failed { source })) => {
                    assert_eq!(source.to_string(), "the link is down");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(block_on(buffer.wait_for(0..1)), Err(BufferError::Failed { .. })));
    });
}

#[test]
fn a_wait_beyond_an_end_that_is_settled_late_is_over() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let (mut beyond, beyond_wakes) = waiting(buffer.wait_for(0..21));
        let (mut within, within_wakes) = waiting(buffer.wait_for(0..20));
        buffer.set_total(20).unwrap();
        assert_eq!((beyond_wakes.count(), within_wakes.count()), (1, 0));
        match poll(&mut beyond, &beyond_wakes) {
            Poll::Ready(Err(BufferError::BeyondEnd { end: 21, total: 20 })) => {}
            other => panic!("{other:?}"),
        }
        assert!(poll(&mut within, &within_wakes).is_pending());
        fill(&buffer, 0..20);
        assert_eq!(within_wakes.count(), 1);
    });
}

#[test]
fn waits_are_over_when_the_buffer_and_its_last_writer_are_gone() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..5);
        let (mut there, mut missing) = (buffer.wait_for(0..10), waiting(buffer.wait_for(0..20)));
        let (mut first, second) = (buffer.shard(5..10).unwrap(), buffer.shard(10..20).unwrap());
        drop(buffer);
        assert_eq!(missing.1.count(), 0, "a writer is left");
        assert_eq!(first.put(&[0; 5]), 5);
        drop(first);
        assert_eq!(missing.1.count(), 0, "another is left");
        assert!(poll(&mut missing.0, &missing.1).is_pending());
        drop(second);
        assert_eq!(missing.1.count(), 1);
        assert!(matches!(
            poll(&mut missing.0, &missing.1),
            Poll::Ready(Err(BufferError::Abandoned))
        ));
        // Bytes that were written before stay readable.
        assert!(matches!(poll(&mut there, &Wakes::new()), Poll::Ready(Ok(()))));
    });
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
fn a_wait_that_no_write_could_end_is_refused() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let refused = |range| block_on(buffer.wait_for(range)).unwrap_err();
        let limit = 64 * MIB;
        for range in [0..limit + 1, limit + 1..limit + 1, 0..u64::MAX] {
            let error = refused(range.clone());
            let is = matches!(error, BufferError::BeyondLimit { end, .. } if end == range.end);
            assert!(is, "{error}");
        }
        assert!(matches!(refused(5..3), BufferError::Reversed { start: 5, end: 3 }));
    });
}

#[test]
fn threads_wait_for_threads_without_missing_a_wake() {
    const ROUNDS: u64 = 200;
    const SHARDS: u64 = 4;
    each_backing(|backing| {
        let buffer = &buffer(backing);
        let seen = &AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for shard in 0..SHARDS {
                let mut writer = buffer.shard(shard * ROUNDS..(shard + 1) * ROUNDS).unwrap();
                scope.spawn(move || {
                    for at in writer.rest() {
                        assert_eq!(writer.put(&pattern(at..at + 1)), 1);
                    }
                });
                scope.spawn(move || {
                    for end in 1..=ROUNDS {
                        let start = shard * ROUNDS;
                        block_on(buffer.wait_for(start..start + end)).unwrap();
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(seen.load(Ordering::Relaxed) as u64, ROUNDS * SHARDS);
    });
}

#[test]
fn a_dropped_wait_costs_its_writer_nothing() {
    each_backing(|backing| {
        let buffer = &buffer(backing);
        let mut writer = buffer.shard(0..MIB).unwrap();
        assert_eq!(writer.put(b"a"), 1);
        drop(waiting(buffer.wait_for(0..2)));
        // Only the first write that reaches the wait's end may check the wait.
        assert_eq!(writer.put(b"b"), 1);
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                while writer.put(b"x") == 1 {}
                // Dropping the writer takes the lock, which can collide with this thread's calls.
                // So it is returned and dropped after them.
                writer
            });
            while !writing.is_finished() {
                assert!(buffer.contiguous_len() <= MIB);
            }
            drop(writing.join().unwrap());
        });
        assert_eq!(buffer.stats().lock_waits, 0);
    });
}

/// A waker that holds its own wait, which ends when the waker is dropped.
struct Nested {
    _wait: Mutex<WaitFor>,
}

impl Wake for Nested {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_may_do_anything_when_it_is_dropped() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let nested = || {
            let (wait, _) = waiting(buffer.wait_for(30..40));
            Waker::from(Arc::new(Nested { _wait: wait.into() }))
        };
        let mut wait = buffer.wait_for(0..20);
        let mut enter = |waker: &Waker| {
            let polled = Pin::new(&mut wait).poll(&mut Context::from_waker(waker));
            assert!(polled.is_pending());
        };
        // The second waker replaces the first, and the last one is dropped when the wait ends.
        enter(&nested());
        enter(&nested());
        enter(&nested());
        fill(&buffer, 0..20);
        assert!(poll(&mut wait, &Wakes::new()).is_ready());
        // And a waker that is dropped with its wait.
        let mut wait = buffer.wait_for(20..30);
        assert!(Pin::new(&mut wait).poll(&mut Context::from_waker(&nested())).is_pending());
        drop(wait);
    });
}

/// Unwinding drops the writer, without an explicit failure to the waiting tasks.
#[test]
fn a_writer_that_panics_fails_those_who_wait() {
    each_backing(|backing| {
        let buffer = Arc::new(buffer(backing));
        let (mut wait, wakes) = waiting(buffer.wait_for(0..20));
        let mut other = buffer.shard(30..40).unwrap();
        let mut writer = buffer.shard(5..25).unwrap();
        assert_eq!(writer.put(b"abc"), 3);
        let panicked = std::thread::spawn(move || {
            let _writer = writer;
            std::panic::resume_unwind(Box::new("as a panic does"));
        });
        panicked.join().unwrap_err();
        assert_eq!(wakes.count(), 1);
        let failed = |outcome: Result<(), BufferError>| match outcome {
            Err(BufferError::Failed { source }) => source.to_string(),
            other => panic!("{other:?}"),
        };
        let Poll::Ready(outcome) = poll(&mut wait, &wakes) else { panic!("it waits on") };
        assert_eq!(failed(outcome), "its writer panicked before it had written 8..25");
        assert!(failed(block_on(buffer.wait_for(30..40))).contains("panicked"));
        assert!(buffer.shard(50..60).is_err() && other.put(b"xyz") == 3);
    });
}

/// A writer that has written its whole range fails nothing.
#[test]
fn a_writer_that_panics_when_it_is_done_fails_nothing() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut writer = buffer.shard(0..3).unwrap();
        assert_eq!(writer.put(b"abc"), 3);
        let panicked = std::thread::spawn(move || {
            let _writer = writer;
            std::panic::resume_unwind(Box::new("as a panic does"));
        });
        panicked.join().unwrap_err();
        assert!(block_on(buffer.wait_for(0..3)).is_ok());
        drop(buffer.shard(3..5).unwrap());
        assert!(buffer.shard(3..5).is_ok(), "what is dropped by itself is free again");
    });
}
