//! The memory that the system has committed, read from its own tables (`/proc/self/pagemap`). The
//! buffer's own count is not used.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use tidegate::buffer::{Backing, ShardBuffer, ShardBufferOptions};

use super::bed::{MIB, fill, read};

const PAGE_BYTES: u64 = 4096;

fn hinted(len_hint: u64) -> ShardBuffer {
    let options = ShardBufferOptions {
        len_hint: Some(len_hint),
        limit_bytes: 1 << 30,
        backing: Backing::Reserved,
        ..Default::default()
    };
    ShardBuffer::new(options).unwrap()
}

/// How many of a buffer's first `len` bytes have memory behind them.
fn resident(buffer: &ShardBuffer, len: u64) -> u64 {
    let start = buffer.slice(0..1).unwrap().as_ptr().addr() as u64;
    let mut entries = vec![0; (len / PAGE_BYTES * 8) as usize];
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    pagemap.read_exact_at(&mut entries, start / PAGE_BYTES * 8).unwrap();
    // The highest bit of each 64-bit entry says that the page is present.
    let there = entries.iter().skip(7).step_by(8).filter(|byte| **byte & 0x80 != 0).count();
    there as u64 * PAGE_BYTES
}

#[test]
fn a_hint_touches_no_page_and_a_reservation_none_either() {
    let buffer = hinted(1 << 30);
    let _writer = buffer.shard(64 * MIB..1 << 30).unwrap();
    fill(&buffer, 0..1);
    let resident = resident(&buffer, 1 << 30);
    assert!((1..=2 * MIB).contains(&resident), "{resident} bytes for one byte");
}

#[test]
fn resident_memory_is_the_blob_and_at_most_a_huge_page() {
    for (len_hint, len) in [(8 * MIB, 8 * MIB), (1 << 30, 8 * MIB), (0, 8 * MIB), (0, 100_000)] {
        let buffer = hinted(len_hint);
        fill(&buffer, 0..len);
        let resident = resident(&buffer, 64 * MIB);
        let most = len + len / 20 + 2 * MIB;
        assert!((len..=most).contains(&resident), "{resident} for {len}, hint {len_hint}");
        assert!(resident <= buffer.stats().committed_bytes, "more than is counted");
    }
}

#[test]
fn unpublished_pages_of_a_dropped_writer_are_returned_to_the_system() {
    let buffer = hinted(64 * MIB);
    fill(&buffer, 0..1);
    let mut writer = buffer.shard(2 * MIB..64 * MIB).unwrap();
    // A socket writes into the lent tail before it calls `advance_mut`.
    let lent = bytes::BufMut::chunk_mut(&mut writer);
    for at in (0..lent.len()).step_by(PAGE_BYTES as usize) {
        lent.write_byte(at, 1);
    }
    assert!(resident(&buffer, 64 * MIB) >= 62 * MIB);
    drop(writer);
    assert!(resident(&buffer, 64 * MIB) <= 2 * MIB);
    fill(&buffer, 2 * MIB..3 * MIB);
    assert!(read(&buffer, 2 * MIB..3 * MIB) == super::bed::pattern(2 * MIB..3 * MIB));
}

#[test]
fn growth_moves_nothing() {
    let buffer = hinted(0);
    fill(&buffer, 0..1);
    let first = buffer.slice(0..1).unwrap();
    fill(&buffer, 1..32 * MIB);
    let all = buffer.freeze(32 * MIB).unwrap();
    assert_eq!(first.as_ptr(), all.as_ptr());
}
