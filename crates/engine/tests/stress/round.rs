//! One round: a blob, its writers, its readers during the writes, and how it ends.

use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::{BufMut, Bytes};
use tidegate::budget::Budget;
use tidegate::buffer::{
    Backing, BufferError, BufferPool, ShardBuffer, ShardBufferOptions, ShardReader, ShardWriter,
};

use crate::thread::{Numbers, block_on, next};

/// Long enough for four segments and some granules, short enough for many rounds.
const LEN_MAX: u64 = 600 << 10;

const WRITERS: u64 = 3;
const READERS: u64 = 2;

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Frozen,
    Failed,
    Abandoned,
    Overwritten,
}

/// A round, derived from its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    seed: u64,
    backing: Backing,
    len: u64,
    len_hint: Option<u64>,
    shard_bytes: u64,
    end: End,
}

/// Bytes that a reader was given, with their offsets.
type Kept = Vec<(u64, Bytes)>;

#[derive(Debug, thiserror::Error)]
#[error("on purpose")]
struct OnPurpose;

impl Round {
    pub(crate) fn new(seed: u64, backing: Backing) -> Self {
        let mut numbers = Numbers::new(seed);
        let len = 1 + numbers.below(LEN_MAX);
        let ends = [End::Frozen, End::Failed, End::Abandoned, End::Overwritten];
        Self {
            seed,
            backing,
            len,
            len_hint: [None, Some(len), Some(len / 2), Some(0)][numbers.below(4) as usize],
            shard_bytes: 1 + numbers.below(len.min(100 << 10)),
            end: ends[numbers.below(4) as usize],
        }
    }

    /// The bytes of a range, which occur in this round only.
    fn bytes(self, range: Range<u64>) -> Vec<u8> {
        let salt = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let byte =
            |at: u64| (at.wrapping_add(salt).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 56) as u8;
        range.map(byte).collect()
    }

    fn check(self, start: u64, bytes: &[u8]) {
        let expected = self.bytes(start..start + bytes.len() as u64);
        assert!(bytes == expected, "other bytes at {start} in {self:?}");
    }

    pub(crate) fn play(self, pool: &BufferPool, budget: &Budget) {
        let options = ShardBufferOptions {
            len_hint: self.len_hint,
            limit_bytes: 8 << 20,
            // Half of the rounds are charged to the budget.
            budget: self.seed.is_multiple_of(2).then(|| budget.clone()),
            pool: Some(pool.clone()),
            backing: self.backing,
            bypass_caches: self.seed.is_multiple_of(3),
            ..Default::default()
        };
        let buffer = Arc::new(ShardBuffer::new(options).unwrap());
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|n| {
                    let reader = buffer.reader();
                    scope.spawn(move || self.follow(reader, n))
                })
                .collect();
            let writers: Vec<_> = (0..WRITERS)
                .map(|n| {
                    let buffer = Arc::clone(&buffer);
                    scope.spawn(move || self.write(&buffer, n))
                })
                .collect();
            let looking = (self.end != End::Abandoned).then(|| {
                let buffer = Arc::clone(&buffer);
                scope.spawn(move || self.look_around(&buffer))
            });
            if self.end == End::Abandoned {
                // The last writer to end drops it.
                drop(buffer);
                return;
            }
            for writer in writers {
                writer.join().unwrap();
            }
            if self.end == End::Failed {
                buffer.fail(OnPurpose);
                return;
            }
            self.fill_gaps(&buffer);
            buffer.set_total(self.len).unwrap();
            if let Some(looking) = looking {
                looking.join().unwrap();
            }
            let kept = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
            let buffer = Arc::try_unwrap(buffer).unwrap();
            match self.end {
                End::Frozen => self.freeze(buffer, kept),
                _ => self.overwrite(buffer, kept),
            }
        });
    }

    /// Visits all shards, from a start of its own, and writes those that no other thread has
    /// reserved.
    fn write(self, buffer: &ShardBuffer, thread: u64) {
        let mut numbers = Numbers::new(self.seed ^ ((thread + 1) << 20));
        let count = self.len.div_ceil(self.shard_bytes);
        let first = numbers.below(count);
        for index in (first..count).chain(0..first) {
            let start = index * self.shard_bytes;
            let mut rest = start..(start + self.shard_bytes).min(self.len);
            // A writer dropped midway is followed by another, or with a chance of 1 in 16 by none.
            while !rest.is_empty() && !numbers.one_in(16) {
                match buffer.shard(rest.clone()) {
                    Ok(writer) => rest = self.write_some(writer, &mut numbers),
                    Err(BufferError::OverBudget { .. }) => std::thread::yield_now(),
                    Err(BufferError::Reserved { .. } | BufferError::Written { .. }) => break,
                    Err(other) => panic!("refused as {other} in {self:?}"),
                }
            }
        }
    }

    /// Writes in calls of any length, through any of the write interfaces. Returns the rest.
    fn write_some(self, mut writer: ShardWriter, numbers: &mut Numbers) -> Range<u64> {
        let call_max = [7, 300, 40 << 10][numbers.below(3) as usize];
        while writer.room_bytes() > 0 && !numbers.one_in(64) {
            let rest = writer.rest();
            let len = (1 + numbers.below(call_max)).max((rest.end - rest.start) / 64);
            let data = self.bytes(rest.start..(rest.start + len).min(rest.end));
            match numbers.below(3) {
                0 => assert_eq!(writer.put(&data), data.len()),
                1 => writer.write_all(&data).unwrap(),
                _ => {
                    let mut left = data.as_slice();
                    while !left.is_empty() {
                        let room = writer.chunk_mut().len().min(left.len());
                        assert!(room > 0, "there is room, and none is lent");
                        writer.put_slice(&left[..room]);
                        left = &left[room..];
                    }
                }
            }
        }
        writer.rest()
    }

    fn fill_gaps(self, buffer: &ShardBuffer) {
        let gaps: Vec<_> = buffer.extents().gaps(0..self.len).collect();
        for gap in gaps {
            let data = self.bytes(gap.clone());
            while let Err(error) = buffer.write_at(gap.start, &data) {
                assert!(matches!(error, BufferError::OverBudget { .. }), "{error} in {self:?}");
                std::thread::yield_now();
            }
        }
    }

    /// Reads during the writes, and keeps some of the bytes.
    fn follow(self, mut reader: ShardReader, thread: u64) -> Kept {
        let mut numbers = Numbers::new(self.seed ^ ((thread + 1) << 40));
        let mut kept = Vec::new();
        loop {
            let start = reader.position();
            match next(&mut reader) {
                Some(Ok(bytes)) => {
                    self.check(start, &bytes);
                    if numbers.one_in(2) {
                        kept.push((start, bytes));
                    }
                }
                None => {
                    assert_eq!(start, self.len);
                    return kept;
                }
                Some(Err(error)) => {
                    match error {
                        BufferError::Failed { .. } => assert_eq!(self.end, End::Failed),
                        BufferError::Abandoned => assert_eq!(self.end, End::Abandoned),
                        other => panic!("{other} in {self:?}"),
                    }
                    assert!(next(&mut reader).is_none());
                    return kept;
                }
            }
        }
    }

    /// Waits for random ranges, drops some of the waits, and queries the extents.
    fn look_around(self, buffer: &ShardBuffer) {
        let mut numbers = Numbers::new(self.seed ^ (1 << 60));
        for _ in 0..16 {
            let start = numbers.below(self.len);
            let range = start..(start + 1 + numbers.below(64 << 10)).min(self.len);
            let mut wait = buffer.wait_for(range.clone());
            if numbers.one_in(3) {
                let mut cx = Context::from_waker(Waker::noop());
                let _ = std::pin::Pin::new(&mut wait).poll(&mut cx);
                continue;
            }
            match block_on(wait) {
                Ok(()) => {
                    let mut target = vec![0; (range.end - range.start) as usize];
                    match buffer.read_at(start, &mut target) {
                        Ok(count) => assert_eq!(count, target.len()),
                        // The fill may have failed meanwhile, and then no bytes are delivered.
                        Err(BufferError::Failed { .. }) => {
                            return assert_eq!(self.end, End::Failed);
                        }
                        Err(other) => panic!("{other} in {self:?}"),
                    }
                    self.check(start, &target);
                }
                Err(BufferError::Failed { .. }) => return assert_eq!(self.end, End::Failed),
                Err(other) => panic!("{other} in {self:?}"),
            }
            let contiguous = buffer.contiguous_len();
            assert!(contiguous <= buffer.len() && buffer.is_complete(contiguous));
        }
    }

    /// Slices outlive the buffer, each in its own thread.
    fn freeze(self, buffer: ShardBuffer, mut kept: Kept) {
        let whole = buffer.freeze(self.len).unwrap();
        kept.push((0, whole.slice(..whole.len() / 2)));
        kept.push((whole.len() as u64 / 2, whole.slice(whole.len() / 2..)));
        drop((whole, buffer));
        std::thread::scope(|scope| {
            for (start, bytes) in kept {
                scope.spawn(move || self.check(start, &bytes));
            }
        });
    }

    /// Overwrites as soon as the last slice is dropped. No event reports this drop.
    fn overwrite(self, mut buffer: ShardBuffer, kept: Kept) {
        std::thread::scope(|scope| {
            for (start, bytes) in kept {
                scope.spawn(move || self.check(start, &bytes));
            }
            let other: Vec<u8> = self.bytes(0..self.len).iter().map(|byte| !byte).collect();
            let mut cursor = buffer.cursor();
            while let Err(error) = cursor.write_all(&other) {
                assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
                cursor.seek(SeekFrom::Start(0)).unwrap();
                std::thread::yield_now();
            }
        });
        let mut target = vec![0; self.bytes(0..self.len).len()];
        assert_eq!(buffer.read_at(0, &mut target).unwrap(), target.len());
        for byte in &mut target {
            *byte = !*byte;
        }
        self.check(0, &target);
    }
}
