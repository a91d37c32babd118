//! The pool reuses memory that was touched before. It is bounded and charged, yields to
//! reservations, releases idle memory, and never shows old bytes.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use tidegate::budget::{Budget, BudgetOptions};
use tidegate::buffer::{
    Backing, BufferError, BufferPool, BufferPoolOptions, ShardBuffer, ShardBufferOptions,
};

use super::bed::{HANG, MIB, block_on, fill, pattern, read};

/// Longer than any test takes, so that memory released earlier is not released for idleness.
const NEVER_MS: u64 = 1 << 40;

fn pool(bytes_max: u64) -> BufferPool {
    BufferPool::new(BufferPoolOptions { bytes_max, idle_ms_max: NEVER_MS })
}

fn budget(bytes: u64) -> Budget {
    Budget::new(BudgetOptions { requests: 1, bytes })
}

fn recycled(pool: &BufferPool, budget: &Budget, len: u64) -> ShardBuffer {
    let options = ShardBufferOptions {
        len_hint: Some(len),
        limit_bytes: 1 << 30,
        budget: Some(budget.clone()),
        pool: Some(pool.clone()),
        backing: Backing::Reserved,
        ..Default::default()
    };
    ShardBuffer::new(options).unwrap()
}

fn committed(buffer: &ShardBuffer) -> u64 {
    buffer.stats().committed_bytes
}

/// Waits until a condition holds.
#[track_caller]
fn until(what: &str, is: impl Fn() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < HANG, "{what} never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn memory_is_used_again_without_another_charge() {
    let (pool, budget) = (pool(16 * MIB), budget(64 * MIB));
    for _ in 0..5 {
        let buffer = recycled(&pool, &budget, 4 * MIB);
        fill(&buffer, 0..4 * MIB);
        assert_eq!((committed(&buffer), budget.held_bytes()), (4 * MIB, 4 * MIB));
        assert_eq!(pool.kept_bytes(), 0, "in use");
        drop(buffer);
        assert_eq!((pool.kept_bytes(), budget.held_bytes()), (4 * MIB, 4 * MIB));
    }
    assert_eq!(budget.held_bytes_peak(), 4 * MIB);
    pool.clear();
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (0, 0));
}

#[test]
fn a_new_buffer_reuses_the_same_memory() {
    let (pool, budget) = (pool(16 * MIB), budget(64 * MIB));
    let address = || {
        let buffer = recycled(&pool, &budget, 4 * MIB);
        fill(&buffer, 0..4 * MIB);
        buffer.slice(0..1).unwrap().as_ptr().addr()
    };
    let first = address();
    assert_eq!(address(), first);
}

#[test]
fn a_blob_that_grows_beyond_recycled_memory_is_charged_for_the_rest() {
    let (pool, budget) = (pool(64 * MIB), budget(64 * MIB));
    fill(&recycled(&pool, &budget, 4 * MIB), 0..4 * MIB);
    let buffer = recycled(&pool, &budget, 8 * MIB);
    assert_eq!((committed(&buffer), budget.held_bytes()), (4 * MIB, 4 * MIB));
    fill(&buffer, 0..8 * MIB);
    assert_eq!((committed(&buffer), budget.held_bytes()), (8 * MIB, 8 * MIB));
    drop(buffer);
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (8 * MIB, 8 * MIB));
}

#[test]
fn memory_comes_back_only_with_the_last_slice_of_it() {
    let (pool, budget) = (pool(16 * MIB), budget(64 * MIB));
    let buffer = recycled(&pool, &budget, 2 * MIB);
    fill(&buffer, 0..2 * MIB);
    let bytes = buffer.freeze(2 * MIB).unwrap();
    drop(buffer);
    let last = bytes.slice(5..6);
    drop(bytes);
    assert_eq!(pool.kept_bytes(), 0);
    let other = recycled(&pool, &budget, 2 * MIB);
    other.write_at(0, &[0xff; 100]).unwrap();
    assert_eq!(last, pattern(5..6), "no other buffer reused the memory");
    drop(other);
    drop(last);
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (4 * MIB, 4 * MIB));
}

#[test]
fn the_pool_keeps_no_more_than_its_limit() {
    let (pool, budget) = (pool(8 * MIB), budget(256 * MIB));
    let blobs: Vec<_> = (0..6)
        .map(|_| {
            let buffer = recycled(&pool, &budget, 4 * MIB);
            fill(&buffer, 0..4 * MIB);
            buffer
        })
        .collect();
    assert_eq!(budget.held_bytes(), 24 * MIB);
    drop(blobs);
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (8 * MIB, 8 * MIB));
    // A buffer larger than the pool is not kept, and evicts nothing.
    let buffer = recycled(&pool, &budget, 16 * MIB);
    fill(&buffer, 0..16 * MIB);
    drop(buffer);
    assert!(pool.kept_bytes() <= 8 * MIB);
    assert_eq!(budget.held_bytes(), pool.kept_bytes());
}

#[test]
fn the_pool_frees_memory_for_a_reservation_larger_than_the_rest_of_the_budget() {
    let (pool, budget) = (pool(16 * MIB), budget(8 * MIB));
    let keep = || {
        fill(&recycled(&pool, &budget, 6 * MIB), 0..6 * MIB);
        assert_eq!((pool.kept_bytes(), budget.held_bytes()), (6 * MIB, 6 * MIB));
    };
    // The pool yields to a `try_bytes` reservation,
    keep();
    drop(budget.try_bytes(8 * MIB).unwrap());
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (0, 0));
    // to a reservation that waits,
    keep();
    drop(block_on(budget.bytes(8 * MIB)));
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (0, 0));
    // and to a buffer that does not use the pool.
    keep();
    let options = ShardBufferOptions { budget: Some(budget.clone()), ..Default::default() };
    fill(&ShardBuffer::new(options).unwrap(), 0..8 * MIB);
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (0, 0));
}

#[test]
fn the_pool_keeps_no_memory_that_a_reservation_waits_for() {
    let (pool, budget) = (pool(16 * MIB), budget(8 * MIB));
    let buffer = recycled(&pool, &budget, 8 * MIB);
    fill(&buffer, 0..8 * MIB);
    block_on(async {
        let mut waiting = std::pin::pin!(budget.bytes(8 * MIB));
        let polled = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())
        });
        assert!(polled.await);
        drop(buffer);
        assert_eq!(waiting.await.bytes(), 8 * MIB);
    });
    assert_eq!((pool.kept_bytes(), budget.held_bytes()), (0, 0));
}

#[test]
fn idle_memory_is_freed() {
    let pool = BufferPool::new(BufferPoolOptions { bytes_max: 16 * MIB, idle_ms_max: 1 });
    let budget = budget(64 * MIB);
    // More than once: the thread that looks for idle memory must start again, too.
    for _ in 0..3 {
        fill(&recycled(&pool, &budget, 4 * MIB), 0..4 * MIB);
        until("giving back what lies idle", || (pool.kept_bytes(), budget.held_bytes()) == (0, 0));
    }
}

#[test]
fn kept_memory_is_freed_with_the_last_handle_of_the_pool() {
    let (pool, budget) = (pool(16 * MIB), budget(64 * MIB));
    let buffer = recycled(&pool, &budget, 4 * MIB);
    fill(&recycled(&pool, &budget, 2 * MIB), 0..2 * MIB);
    drop(pool);
    assert_eq!(budget.held_bytes(), 2 * MIB, "the buffer holds one");
    fill(&buffer, 0..4 * MIB);
    drop(buffer);
    assert_eq!(budget.held_bytes(), 0);
}

#[test]
fn recycled_memory_exposes_no_earlier_bytes() {
    let (pool, budget) = (pool(16 * MIB), budget(64 * MIB));
    let secret = recycled(&pool, &budget, 4 * MIB);
    secret.write_at(0, &vec![0x5e; 4 << 20]).unwrap();
    drop(secret);
    assert_eq!(pool.kept_bytes(), 4 * MIB);
    let buffer = recycled(&pool, &budget, 4 * MIB);
    assert_eq!((pool.kept_bytes(), buffer.len()), (0, 0));
    assert!(buffer.extents().is_empty());
    assert!(matches!(buffer.read_at(0, &mut [0; 1]), Err(BufferError::Gap { .. })));
    assert!(matches!(buffer.freeze(1), Err(BufferError::Gap { .. })));
    fill(&buffer, 10..20);
    // A dropped writer leaves no readable bytes either.
    drop(buffer.shard(100..200).unwrap());
    for range in [9..20, 10..21, 100..200] {
        assert!(matches!(buffer.slice(range), Err(BufferError::Gap { .. })));
    }
    assert_eq!(read(&buffer, 10..20), pattern(10..20));
}

#[test]
fn memory_of_a_small_buffer_is_reused_for_a_larger_limit() {
    let (pool, budget) = (pool(16 * MIB), budget(64 * MIB));
    for limit_bytes in [2 * MIB, 1 << 20, 3 << 20, 1 << 36] {
        let options = ShardBufferOptions {
            len_hint: Some(limit_bytes.min(2 * MIB)),
            limit_bytes,
            budget: Some(budget.clone()),
            pool: Some(pool.clone()),
            backing: Backing::Reserved,
            ..Default::default()
        };
        let buffer = ShardBuffer::new(options).unwrap();
        let len = limit_bytes.min(3 << 20);
        fill(&buffer, 0..len);
        assert!(matches!(
            buffer.shard(limit_bytes..limit_bytes + 1),
            Err(BufferError::BeyondLimit { .. })
        ));
        assert!(buffer.freeze(len).unwrap() == pattern(0..len));
        let held = budget.held_bytes();
        assert!(held >= committed(&buffer) && held <= 16 * MIB, "{held}");
    }
}

#[test]
fn kept_memory_without_a_budget_is_charged_to_the_buffer_that_reuses_it() {
    let (pool, budget) = (pool(16 * MIB), budget(64 * MIB));
    let options = |budget| ShardBufferOptions {
        len_hint: Some(4 * MIB),
        budget,
        pool: Some(pool.clone()),
        ..ShardBufferOptions::default()
    };
    fill(&ShardBuffer::new(options(None)).unwrap(), 0..4 * MIB);
    let buffer = ShardBuffer::new(options(Some(budget.clone()))).unwrap();
    fill(&buffer, 0..4 * MIB);
    assert_eq!((committed(&buffer), budget.held_bytes()), (4 * MIB, 4 * MIB));
}

#[test]
fn a_buffer_with_granted_bytes_can_be_filled_with_any_recycled_memory() {
    let (pool, budget) = (pool(16 * MIB), budget(8 * MIB));
    // The kept memory lies at another offset than the next blob's bytes.
    let sparse = recycled(&pool, &budget, 4 * MIB);
    fill(&sparse, 10 * MIB..12 * MIB);
    drop(sparse);
    assert_eq!(budget.held_bytes(), 2 * MIB);
    let options = ShardBufferOptions {
        len_hint: Some(4 * MIB),
        granted: Some(budget.try_bytes(4 * MIB).unwrap()),
        pool: Some(pool.clone()),
        ..ShardBufferOptions::default()
    };
    let buffer = ShardBuffer::new(options).unwrap();
    let _others = budget.try_bytes(8 * MIB - budget.held_bytes());
    fill(&buffer, 0..4 * MIB);
}
