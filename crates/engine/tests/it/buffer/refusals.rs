//! Bad input gets a typed error that names both sides of the conflict, or the right result. It
//! never panics and changes nothing.

use std::io::Write;
use std::ops::Range;

use bytes::BufMut;
use tidegate::buffer::{Backing, BufferError, ShardBuffer, ShardBufferOptions};
use tidegate::{Error, ErrorKind};

use super::bed::{Wakes, block_on, buffer, byte_at, each_backing, fill, pattern, poll, read};

const LIMIT: u64 = 1_000;

fn limited(backing: Backing, limit_bytes: u64) -> ShardBuffer {
    ShardBuffer::new(ShardBufferOptions { limit_bytes, backing, ..Default::default() }).unwrap()
}

#[track_caller]
fn assert_reserved(result: Result<(), BufferError>, range: Range<u64>, other: Range<u64>) {
    let error = result.unwrap_err();
    let text = error.to_string();
    for bound in [range.start, range.end, other.start, other.end] {
        assert!(text.contains(&bound.to_string()), "{text} does not name {bound}");
    }
    match error {
        BufferError::Reserved { asked, held } => assert_eq!((asked, held), (range, other)),
        error => panic!("refused as {error}"),
    }
}

#[test]
fn a_range_that_overlaps_another_is_refused_naming_both() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut held = buffer.shard(100..200).unwrap();
        let shard = |range| buffer.shard(range).map(drop);
        for range in [100..200, 99..101, 199..201, 150..160, 0..1_000] {
            assert_reserved(shard(range.clone()), range, 100..200);
        }
        assert_reserved(buffer.write_at(199, b"ab"), 199..201, 100..200);
        // A writer's range stays reserved, written bytes included, until the writer is dropped.
        held.write_all(&pattern(100..150)).unwrap();
        assert_reserved(shard(100..110), 100..110, 100..200);
        for range in [0..100, 200..300, 150..150] {
            shard(range).unwrap();
        }
        drop(held);
        shard(150..200).unwrap();
        assert_eq!(read(&buffer, 100..150), pattern(100..150));
    });
}

#[test]
fn published_bytes_are_not_overwritten() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 100..200);
        for range in [100..200, 99..101, 199..201, 0..1_000] {
            let data = vec![0; (range.end - range.start) as usize];
            match buffer.write_at(range.start, &data).unwrap_err() {
                BufferError::Written { asked, written } => {
                    assert_eq!((asked, written), (range.clone(), 100..200));
                }
                error => panic!("refused as {error}"),
            }
            assert!(matches!(buffer.shard(range), Err(BufferError::Written { .. })));
        }
        assert_eq!(read(&buffer, 100..200), pattern(100..200));
        assert_eq!(buffer.extents().iter().collect::<Vec<_>>(), [100..200]);
    });
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
fn a_range_that_ends_before_it_begins_is_refused() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        for (start, end) in [(5, 3), (u64::MAX, 0), (1, 0)] {
            let error = buffer.shard(start..end).unwrap_err();
            let as_asked = matches!(error, BufferError::Reversed { start: s, end: e } if (s, e) == (start, end));
            assert!(as_asked, "{error}");
        }
        assert!(matches!(buffer.slice(5..3), Err(BufferError::Reversed { .. })));
        assert_eq!(buffer.len(), 0);
    });
}

#[test]
fn positions_that_overflow_are_refused() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        for offset in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
            let written = buffer.write_at(offset, b"abc").unwrap_err();
            let is =
                matches!(written, BufferError::Overflow { offset: at, len: 3 } if at == offset);
            assert!(is, "{written}");
            assert!(matches!(
                buffer.read_at(offset, &mut [0; 3]),
                Err(BufferError::Overflow { len: 3, .. })
            ));
        }
        let beyond = buffer.write_at(u64::MAX - 3, b"abc").unwrap_err();
        assert!(matches!(beyond, BufferError::BeyondLimit { end: u64::MAX, .. }), "{beyond}");
        assert!(buffer.shard(0..u64::MAX).is_err());
        assert_eq!(buffer.len(), 0);
    });
}

#[test]
fn nothing_is_reserved_beyond_the_limit() {
    each_backing(|backing| {
        let buffer = limited(backing, LIMIT);
        for range in [0..LIMIT + 1, LIMIT..LIMIT + 1, 5 * LIMIT..6 * LIMIT, LIMIT + 1..LIMIT + 1] {
            match buffer.shard(range.clone()).unwrap_err() {
                BufferError::BeyondLimit { end, limit_bytes } => {
                    assert_eq!((end, limit_bytes), (range.end, LIMIT));
                }
                error => panic!("{range:?} refused as {error}"),
            }
        }
        // The limit is checked before anything is written.
        buffer.write_at(LIMIT - 3, b"four").unwrap_err();
        assert_eq!(buffer.len(), 0);
        fill(&buffer, 0..LIMIT);
        assert_eq!(buffer.freeze(LIMIT).unwrap(), pattern(0..LIMIT));
    });
}

#[test]
fn a_limit_of_zero_accepts_no_bytes() {
    each_backing(|backing| {
        let buffer = limited(backing, 0);
        assert!(matches!(buffer.write_at(0, b"a"), Err(BufferError::BeyondLimit { .. })));
        buffer.write_at(0, b"").unwrap();
        assert_eq!(buffer.freeze(0).unwrap(), "");
    });
}

#[test]
fn the_limit_may_be_any_position() {
    // Larger than any reservation of address space, so that only segments remain.
    let options =
        |backing| ShardBufferOptions { limit_bytes: u64::MAX, backing, ..Default::default() };
    let refused = ShardBuffer::new(options(Backing::Reserved)).unwrap_err();
    assert!(matches!(refused, BufferError::OutOfMemory { .. }), "{refused}");
    for backing in [Backing::Auto, Backing::Segments] {
        let buffer = ShardBuffer::new(options(backing)).unwrap();
        assert_eq!(buffer.stats().backing, Backing::Segments);
        fill(&buffer, 0..200_000);
        // Positions up to the last one, which no machine has memory for.
        for range in [1 << 62..(1 << 62) + 1, u64::MAX - 1..u64::MAX, 0..u64::MAX] {
            let error = buffer.shard(range).unwrap_err();
            let is = matches!(error, BufferError::OutOfMemory { .. } | BufferError::Written { .. });
            assert!(is, "{error}");
        }
        assert_eq!(buffer.freeze(200_000).unwrap(), pattern(0..200_000));
    }
}

#[test]
fn a_hint_beyond_the_limit_or_the_address_space_is_refused() {
    each_backing(|backing| {
        let new = |len_hint, limit_bytes| {
            let len_hint = Some(len_hint);
            ShardBuffer::new(ShardBufferOptions {
                len_hint,
                limit_bytes,
                backing,
                ..Default::default()
            })
        };
        let error = new(LIMIT + 1, LIMIT).unwrap_err();
        let is = matches!(
            error,
            BufferError::HintBeyondLimit { len_hint, limit_bytes: LIMIT } if len_hint == LIMIT + 1
        );
        assert!(is, "{error}");
        new(LIMIT, LIMIT).unwrap();
        for hint in [u64::MAX, 1 << 63] {
            let error = new(hint, u64::MAX).unwrap_err();
            let is = matches!(error, BufferError::Overflow { offset: 0, len } if len == hint);
            assert!(is, "{error}");
        }
    });
}

#[test]
fn empty_ranges_are_accepted_everywhere() {
    each_backing(|backing| {
        let buffer = limited(backing, LIMIT);
        fill(&buffer, 100..200);
        let held = buffer.shard(300..400).unwrap();
        for at in [0, 100, 150, 200, 300, 350, LIMIT] {
            let mut writer = buffer.shard(at..at).unwrap();
            assert_eq!((writer.rest(), writer.room_bytes(), writer.put(b"a")), (at..at, 0, 0));
            assert_eq!((writer.write(b"a").unwrap(), writer.remaining_mut()), (0, 0));
            assert_eq!(writer.chunk_mut().len(), 0);
            buffer.write_at(at, b"").unwrap();
            assert_eq!(buffer.read_at(at, &mut []).unwrap(), 0);
            block_on(buffer.wait_for(at..at)).unwrap();
            assert_eq!(buffer.slice(at..at).unwrap(), "");
        }
        let len = buffer.len();
        drop(held);
        assert_eq!((len, buffer.len(), buffer.gaps()), (200, 200, vec![0..100]));
        assert!(buffer.is_complete(0));
    });
}

#[test]
fn thousands_of_tiny_shards_make_one_blob() {
    const COUNT: u64 = 10_000;
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut wait = buffer.wait_for(0..3 * COUNT);
        let wakes = Wakes::new();
        assert!(poll(&mut wait, &wakes).is_pending());
        // The order of reservation differs from the order of writing, and from the order of
        // dropping.
        let order = |step: u64| (0..COUNT).map(move |n| n * step % COUNT);
        let mut writers: Vec<_> = (0..COUNT).map(|_| None).collect();
        for n in order(7_919) {
            writers[n as usize] = Some(buffer.shard(3 * n..3 * n + 3).unwrap());
        }
        for n in order(104_729) {
            let writer = writers[n as usize].as_mut().unwrap();
            writer.write_all(&pattern(3 * n..3 * n + 3)).unwrap();
        }
        assert!(matches!(buffer.freeze(3 * COUNT), Err(BufferError::WritersRemain { .. })));
        assert_eq!((buffer.contiguous_len(), wakes.count()), (3 * COUNT, 1));
        drop(writers);
        assert_eq!(buffer.extents().iter().collect::<Vec<_>>(), [0..3 * COUNT]);
        assert!(buffer.freeze(3 * COUNT).unwrap() == pattern(0..3 * COUNT));
    });
}

#[test]
fn a_writer_accepts_bytes_until_its_range_is_full() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut writer = buffer.shard(10..20).unwrap();
        assert_eq!(writer.put(&pattern(10..100)), 10);
        assert_eq!((writer.put(b"x"), writer.write(b"x").unwrap()), (0, 0));
        assert_eq!(writer.write_all(b"x").unwrap_err().kind(), std::io::ErrorKind::WriteZero);
        assert_eq!((writer.rest(), writer.remaining_mut()), (20..20, 0));
        drop(writer);
        assert_eq!((buffer.len(), read(&buffer, 10..20)), (20, pattern(10..20)));
    });
}

#[test]
fn the_unwritten_rest_of_a_dropped_writer_is_free_again() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut writer = buffer.shard(0..100_000).unwrap();
        writer.write_all(&pattern(0..70_000)).unwrap();
        drop(writer);
        assert_eq!((buffer.len(), buffer.contiguous_len()), (70_000, 70_000));
        let error = buffer.read_at(69_999, &mut [0; 2]).unwrap_err();
        assert!(matches!(&error, BufferError::Gap { gap } if *gap == (70_000..70_001)), "{error}");
        assert!(buffer.shard(69_999..70_001).is_err());
        fill(&buffer, 70_000..100_000);
        assert!(buffer.freeze(100_000).unwrap() == pattern(0..100_000));
    });
}

#[test]
fn a_writer_dropped_by_a_panic_fails_the_buffer() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let panics = std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let mut writer = buffer.shard(0..10).unwrap();
                writer.write_all(b"01234").unwrap();
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            panicking.join().is_err()
        });
        assert!(panics);
        let failed = |outcome| matches!(outcome, Err(BufferError::Failed { .. }));
        assert!(failed(buffer.write_at(5, b"56789").map(drop)));
        assert!(failed(buffer.read_at(0, &mut [0; 5]).map(drop)));
        assert!(failed(buffer.freeze(10).map(drop)));
    });
}

#[test]
fn reading_missing_bytes_names_the_first_gap() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..10);
        fill(&buffer, 20..30);
        let gap = |offset, len: usize| match buffer.read_at(offset, &mut vec![0; len]) {
            Err(BufferError::Gap { gap }) => gap,
            other => panic!("{other:?}"),
        };
        assert_eq!(gap(0, 11), 10..11);
        assert_eq!(gap(5, 100), 10..20);
        assert_eq!(gap(12, 3), 12..15);
        assert_eq!(gap(25, 10), 30..35);
        assert_eq!(read(&buffer, 22..30), pattern(22..30));
        assert!(matches!(buffer.slice(0..11), Err(BufferError::Gap { gap }) if gap == (10..11)));
    });
}

#[test]
fn refusals_keep_their_kind_and_their_ranges_as_errors_of_the_library() {
    each_backing(|backing| {
        let buffer = limited(backing, LIMIT);
        let held = buffer.shard(0..10).unwrap();
        let error = Error::from(buffer.shard(5..15).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let chain = error.chain();
        assert!(chain.contains("5..15") && chain.contains("0..10"), "{chain}");
        let gap = Error::from(buffer.read_at(3, &mut [0; 4]).unwrap_err());
        assert_eq!(gap.kind(), ErrorKind::OutOfRange);
        drop(held);
        buffer.fail(Error::from(BufferError::Abandoned));
        assert_eq!(Error::from(buffer.shard(0..1).unwrap_err()).kind(), ErrorKind::Cancelled);
    });
}

#[test]
fn bytes_at_every_seam_of_pages_and_segments_are_kept() {
    each_backing(|backing| {
        // Hints that are no multiple of a page, and shards that end on either side of every seam.
        for len_hint in [None, Some(0), Some(1), Some(65_535), Some(65_537), Some(100_000)] {
            let limit_bytes = 1 << 20;
            let options =
                ShardBufferOptions { len_hint, limit_bytes, backing, ..Default::default() };
            let buffer = ShardBuffer::new(options).unwrap();
            let first = len_hint.unwrap_or(0).max(1 << 16);
            let mut cuts: Vec<u64> = [first, 2 * first, 4 * first, 1 << 16, 1 << 17, 1 << 18]
                .into_iter()
                .flat_map(|seam| [seam - 1, seam, seam + 1, seam + 20_000])
                .chain([0, 1, limit_bytes - 1, limit_bytes])
                .collect();
            cuts.sort_unstable();
            cuts.dedup();
            for cut in cuts.windows(2).step_by(2).chain(cuts.windows(2).skip(1).step_by(2)) {
                fill(&buffer, cut[0]..cut[1]);
            }
            assert_eq!(buffer.contiguous_len(), limit_bytes, "{len_hint:?}");
            let bytes = buffer.freeze(limit_bytes).unwrap();
            assert!(bytes.iter().zip(0..).all(|(byte, at)| *byte == byte_at(at)), "{len_hint:?}");
        }
    });
}
