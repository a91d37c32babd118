//! Charges for memory. A hint costs nothing, committed memory is charged, and released memory is
//! not. A reservation beyond the budget is refused and changes nothing.

use bytes::Bytes;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::buffer::{Backing, BufferError, ShardBuffer, ShardBufferOptions};

use super::bed::{KIB, MIB, block_on, each_backing, fill, pattern, read};

/// A huge page: the most memory that a blob may cost beyond its own bytes.
const HUGE_BYTES: u64 = 2 * MIB;

fn budget(bytes: u64) -> Budget {
    Budget::new(BudgetOptions { requests: 1, bytes })
}

fn charged(backing: Backing, budget: &Budget, len_hint: Option<u64>) -> ShardBuffer {
    let budget = Some(budget.clone());
    let limit_bytes = 1 << 30;
    ShardBuffer::new(ShardBufferOptions {
        len_hint,
        limit_bytes,
        budget,
        backing,
        ..Default::default()
    })
    .unwrap()
}

fn committed(buffer: &ShardBuffer) -> u64 {
    buffer.stats().committed_bytes
}

#[test]
fn nothing_is_committed_or_charged_for_a_hint() {
    each_backing(|backing| {
        let budget = budget(16 * MIB);
        for len_hint in [None, Some(0), Some(1), Some(1 << 30)] {
            let buffer = charged(backing, &budget, len_hint);
            let mut empty = buffer.shard(5..5).unwrap();
            assert_eq!(empty.put(b"x"), 0);
            assert_eq!((committed(&buffer), budget.held_bytes()), (0, 0), "{len_hint:?}");
        }
    });
}

#[test]
fn committed_memory_is_the_blob_and_a_page_for_any_hint_and_order() {
    each_backing(|backing| {
        for (shards, shard_bytes) in [(1, 4 * MIB), (4, 4 * MIB), (10, 4 * MIB), (32, MIB)] {
            let len = shards * shard_bytes;
            for len_hint in [Some(len), Some(len / 2), None, Some(0), Some(1 << 30)] {
                let budget = budget(1 << 30);
                let buffer = charged(backing, &budget, len_hint);
                let starts = (0..shards).rev().map(|n| n * shard_bytes);
                let writers: Vec<_> =
                    starts.map(|at| buffer.shard(at..at + shard_bytes).unwrap()).collect();
                let most = len + len / 20 + HUGE_BYTES;
                let committed = committed(&buffer);
                assert!((len..=most).contains(&committed), "{committed} for {len}, {len_hint:?}");
                assert_eq!(budget.held_bytes(), committed);
                drop((writers, buffer));
                assert_eq!(budget.held_bytes(), 0);
            }
        }
    });
}

#[test]
fn a_small_blob_costs_no_more_than_its_bytes_and_a_page() {
    each_backing(|backing| {
        for len in [1, 4_096, 64 * KIB, 64 * KIB + 1, MIB, 2 * MIB - 1, 2 * MIB, 3 * MIB + 1] {
            let budget = budget(1 << 30);
            let buffer = charged(backing, &budget, Some(len));
            fill(&buffer, 0..len);
            let most = len + len / 20 + HUGE_BYTES;
            assert!((len..=most).contains(&committed(&buffer)), "{} for {len}", committed(&buffer));
        }
    });
}

#[test]
fn growth_is_charged_as_it_happens_and_released_at_the_end() {
    each_backing(|backing| {
        let budget = budget(64 * MIB);
        let buffer = charged(backing, &budget, Some(0));
        let mut before = 0;
        for n in 0..8 {
            fill(&buffer, n * 3 * MIB..(n + 1) * 3 * MIB);
            let held = budget.held_bytes();
            assert_eq!(held, committed(&buffer));
            assert!(
                held >= (n + 1) * 3 * MIB
                    && held > before
                    && held <= (n + 1) * 3 * MIB + HUGE_BYTES
            );
            before = held;
        }
        drop(buffer);
        assert_eq!(budget.held_bytes(), 0);
    });
}

#[test]
fn memory_is_charged_only_once() {
    each_backing(|backing| {
        let budget = budget(64 * MIB);
        let buffer = charged(backing, &budget, Some(4 * MIB));
        let shard = buffer.shard(0..4 * MIB).unwrap();
        let held = budget.held_bytes();
        drop(shard);
        for at in (0..4 * MIB).step_by(100_001) {
            fill(&buffer, at..(at + 100_001).min(4 * MIB));
        }
        assert_eq!((budget.held_bytes(), budget.held_bytes_peak()), (held, held));
    });
}

#[test]
fn a_reservation_beyond_the_budget_is_refused_and_changes_nothing() {
    each_backing(|backing| {
        let budget = budget(4 * MIB);
        let buffer = charged(backing, &budget, Some(4 * MIB));
        fill(&buffer, 0..2 * MIB);
        let other = budget.try_bytes(MIB).unwrap();
        let (held, before) = (budget.held_bytes(), committed(&buffer));
        for range in [2 * MIB..4 * MIB, 2 * MIB..16 * MIB] {
            match buffer.shard(range.clone()) {
                Err(BufferError::OverBudget { wanted_bytes }) => {
                    assert_eq!(wanted_bytes, range.end - range.start);
                }
                result => panic!("{result:?}"),
            }
            assert_eq!((budget.held_bytes(), committed(&buffer)), (held, before));
            assert_eq!(buffer.extents().iter().collect::<Vec<_>>(), [0..2 * MIB]);
        }
        // There is room again, so the same range can be reserved.
        drop(other);
        fill(&buffer, 2 * MIB..4 * MIB);
        assert!(buffer.freeze(4 * MIB).unwrap() == pattern(0..4 * MIB));
    });
}

#[test]
fn granted_bytes_are_used_before_the_budget() {
    each_backing(|backing| {
        let budget = budget(8 * MIB);
        let granted = Some(block_on(budget.bytes(4 * MIB)));
        let other = block_on(budget.bytes(4 * MIB));
        // The budget is used up, but the blob has its own grant.
        let options = ShardBufferOptions {
            len_hint: Some(4 * MIB),
            limit_bytes: 16 * MIB,
            granted,
            backing,
            ..Default::default()
        };
        let buffer = ShardBuffer::new(options).unwrap();
        fill(&buffer, 0..4 * MIB);
        assert_eq!(budget.held_bytes(), 8 * MIB);
        assert!(matches!(buffer.shard(4 * MIB..5 * MIB), Err(BufferError::OverBudget { .. })));
        drop(other);
        // Growth beyond the grant is charged to the budget that gave the grant.
        fill(&buffer, 4 * MIB..5 * MIB);
        assert_eq!(budget.held_bytes(), committed(&buffer));
        drop(buffer);
        assert_eq!(budget.held_bytes(), 0);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn unwritten_memory_of_a_dropped_writer_is_released() {
    let budget = budget(64 * MIB);
    let buffer = charged(Backing::Reserved, &budget, Some(8 * MIB));
    let mut writer = buffer.shard(0..8 * MIB).unwrap();
    assert_eq!(writer.put(&pattern(0..MIB + 1)) as u64, MIB + 1);
    // The two writers share a page, and the neighbour needs the rest of it.
    let neighbour = buffer.shard(8 * MIB..8 * MIB + 1).unwrap();
    assert_eq!((budget.held_bytes(), committed(&buffer)), (10 * MIB, 10 * MIB));
    drop(writer);
    assert_eq!((budget.held_bytes(), committed(&buffer)), (4 * MIB, 4 * MIB));
    assert!(read(&buffer, 0..MIB + 1) == pattern(0..MIB + 1), "what was written stays");
    drop(neighbour);
    assert_eq!(budget.held_bytes(), 2 * MIB);
    // Released memory can be committed again, and holds the new bytes.
    fill(&buffer, MIB + 1..8 * MIB);
    assert!(buffer.freeze(8 * MIB).unwrap() == pattern(0..8 * MIB));
}

#[test]
#[cfg(target_os = "linux")]
fn a_shared_page_is_released_with_its_last_writer() {
    let budget = budget(64 * MIB);
    let buffer = charged(Backing::Reserved, &budget, Some(8 * MIB));
    let shards = [0..100, 100..5_000, 5_000..2 * MIB].map(|range| buffer.shard(range).unwrap());
    assert_eq!(budget.held_bytes(), 2 * MIB);
    let [first, middle, last] = shards;
    drop(middle);
    drop(first);
    assert_eq!(budget.held_bytes(), 2 * MIB);
    drop(last);
    assert_eq!((budget.held_bytes(), committed(&buffer)), (0, 0));
}

#[test]
fn memory_stays_charged_until_the_last_frozen_slice_is_dropped() {
    each_backing(|backing| {
        let budget = budget(64 * MIB);
        let buffer = charged(backing, &budget, Some(4 * MIB));
        fill(&buffer, 0..4 * MIB);
        let held = budget.held_bytes();
        let bytes = buffer.freeze(4 * MIB).unwrap();
        let first = buffer.slice(0..1).unwrap();
        assert_eq!(bytes.as_ptr(), first.as_ptr(), "over the same memory");
        drop((buffer, first));
        assert_eq!(budget.held_bytes(), held);
        let slices: Vec<Bytes> = (0..4).map(|n| bytes.slice(n << 20..(n + 1) << 20)).collect();
        drop(bytes);
        for (slice, start) in slices.into_iter().zip((0..).step_by(1 << 20)) {
            assert_eq!(budget.held_bytes(), held);
            std::thread::scope(|scope| {
                scope.spawn(move || assert!(slice == pattern(start..start + MIB)));
            });
        }
        assert_eq!(budget.held_bytes(), 0);
    });
}

#[test]
fn readers_and_waits_keep_memory_and_charge_too() {
    each_backing(|backing| {
        let budget = budget(64 * MIB);
        let buffer = charged(backing, &budget, None);
        fill(&buffer, 0..MIB);
        let held = budget.held_bytes();
        let (reader, wait) = (buffer.reader(), buffer.wait_for(0..MIB));
        drop(buffer);
        assert_eq!(budget.held_bytes(), held);
        drop(reader);
        assert_eq!(budget.held_bytes(), held);
        drop(wait);
        assert_eq!(budget.held_bytes(), 0);
    });
}

#[test]
fn granted_bytes_stay_with_the_buffer_when_a_writer_is_dropped() {
    each_backing(|backing| {
        let budget = budget(4 * MIB);
        let granted = Some(block_on(budget.bytes(4 * MIB)));
        let len_hint = Some(4 * MIB);
        let options =
            ShardBufferOptions { len_hint, granted, backing, ..ShardBufferOptions::default() };
        let buffer = ShardBuffer::new(options).unwrap();
        drop(buffer.shard(0..4 * MIB).unwrap());
        assert!(budget.try_bytes(1).is_none(), "no other reservation gets it meanwhile");
        fill(&buffer, 0..4 * MIB);
        assert_eq!(budget.held_bytes(), 4 * MIB);
    });
}

#[test]
fn a_failed_allocation_is_not_charged() {
    let budget = budget(4 * MIB);
    let options = ShardBufferOptions {
        limit_bytes: u64::MAX,
        budget: Some(budget.clone()),
        backing: Backing::Segments,
        ..Default::default()
    };
    let buffer = ShardBuffer::new(options).unwrap();
    let error = buffer.shard(1 << 62..(1 << 62) + 1).unwrap_err();
    assert!(matches!(error, BufferError::OutOfMemory { .. }), "{error}");
    assert_eq!((budget.held_bytes(), committed(&buffer)), (0, 0));
}

#[test]
fn a_reservation_beyond_the_whole_budget_takes_nothing_from_it() {
    each_backing(|backing| {
        let budget = budget(4 * MIB);
        let buffer = charged(backing, &budget, None);
        let error = buffer.shard(0..64 * MIB).unwrap_err();
        assert!(matches!(error, BufferError::OverBudget { .. }), "{error}");
        assert_eq!((budget.held_bytes(), budget.held_bytes_peak()), (0, 0));
    });
}

/// Only this path copies bytes, to join segments.
#[test]
fn a_copy_that_joins_segments_is_charged() {
    let budget = budget(16 * MIB);
    let buffer = charged(Backing::Segments, &budget, Some(64 * KIB));
    fill(&buffer, 0..4 * MIB);
    let before = budget.held_bytes();
    let blob = buffer.freeze(4 * MIB).unwrap();
    assert_eq!(budget.held_bytes(), before + 4 * MIB);
    assert_eq!(blob, pattern(0..4 * MIB));
    drop(blob);
    assert_eq!(budget.held_bytes(), before);
}

#[test]
fn a_hint_of_many_tebibytes_costs_nothing() {
    each_backing(|backing| {
        let (len_hint, limit_bytes) = (Some(1 << 44), 1 << 44);
        let options = ShardBufferOptions { len_hint, limit_bytes, backing, ..Default::default() };
        let buffer = ShardBuffer::new(options).unwrap();
        fill(&buffer, 0..1000);
        assert_eq!(read(&buffer, 0..1000), pattern(0..1000));
        assert!(committed(&buffer) <= HUGE_BYTES);
    });
}
