//! How a blob ends: its length is set, it is frozen, or filling it fails. Each happens once and is
//! final.

use std::io::Write;

use tidegate::buffer::{Backing, BufferError, ShardBuffer, ShardBufferOptions};

use super::bed::{block_on, buffer, each_backing, fill, pattern, read};

const LIMIT: u64 = 1_000;

fn limited(backing: Backing) -> ShardBuffer {
    let limit_bytes = LIMIT;
    ShardBuffer::new(ShardBufferOptions { limit_bytes, backing, ..Default::default() }).unwrap()
}

#[test]
fn an_empty_blob_is_a_blob() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        assert!(buffer.is_empty() && buffer.is_complete(0) && !buffer.is_complete(1));
        assert_eq!((buffer.contiguous_len(), buffer.gaps()), (0, Vec::new()));
        assert_eq!(buffer.freeze(0).unwrap(), "");
        assert_eq!(buffer.total(), Some(0));
    });
}

#[test]
fn reading_is_short_at_a_settled_end_and_then_nothing() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..10);
        buffer.set_total(10).unwrap();
        let mut target = [0; 8];
        assert_eq!(buffer.read_at(6, &mut target).unwrap(), 4);
        assert_eq!(target[..4], pattern(6..10));
        for offset in [10, 11, 1 << 40] {
            assert_eq!(buffer.read_at(offset, &mut target).unwrap(), 0);
        }
    });
}

#[test]
fn freezing_is_refused_while_gaps_or_writers_remain_and_changes_nothing() {
    each_backing(|backing| {
        let buffer = limited(backing);
        fill(&buffer, 0..10);
        fill(&buffer, 20..30);
        let gap = buffer.freeze(30).unwrap_err();
        assert!(matches!(&gap, BufferError::Gap { gap } if *gap == (10..20)), "{gap}");
        let mut writer = buffer.shard(10..20).unwrap();
        let held = buffer.freeze(30).unwrap_err();
        assert!(
            matches!(&held, BufferError::WritersRemain { held } if *held == (10..20)),
            "{held}"
        );
        writer.write_all(&pattern(10..20)).unwrap();
        // All bytes are written, but their writer still exists.
        assert!(matches!(buffer.freeze(30), Err(BufferError::WritersRemain { .. })));
        drop(writer);
        for total in [31, LIMIT, LIMIT + 1, u64::MAX] {
            assert!(matches!(buffer.freeze(total), Err(BufferError::Gap { .. })), "{total}");
        }
        let short = buffer.freeze(29).unwrap_err();
        assert!(matches!(short, BufferError::BeyondEnd { end: 30, total: 29 }), "{short}");
        assert_eq!(buffer.total(), None);
        fill(&buffer, 30..31);
        assert_eq!(buffer.freeze(31).unwrap(), pattern(0..31));
    });
}

#[test]
fn freezing_twice_gives_the_same_bytes_and_no_other_length() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..10);
        let (first, second) = (buffer.freeze(10).unwrap(), buffer.freeze(10).unwrap());
        assert_eq!(first, second);
        for total in [9, 0] {
            let error = buffer.freeze(total).unwrap_err();
            assert!(matches!(error, BufferError::OtherLength { was: 10, is } if is == total));
        }
        assert!(matches!(buffer.shard(10..20), Err(BufferError::Frozen)));
        assert!(matches!(buffer.write_at(10, b"x"), Err(BufferError::Frozen)));
        assert_eq!(read(&buffer, 2..8), pattern(2..8));
    });
}

#[test]
fn the_length_is_settled_once() {
    each_backing(|backing| {
        let buffer = limited(backing);
        fill(&buffer, 0..10);
        let writer = buffer.shard(50..60).unwrap();
        let short = buffer.set_total(59).unwrap_err();
        assert!(matches!(short, BufferError::BeyondEnd { end: 60, total: 59 }), "{short}");
        let long = buffer.set_total(LIMIT + 1).unwrap_err();
        assert!(matches!(long, BufferError::BeyondLimit { limit_bytes: LIMIT, .. }), "{long}");
        assert_eq!(buffer.total(), None);
        buffer.set_total(60).unwrap();
        buffer.set_total(60).unwrap();
        let other = buffer.set_total(61).unwrap_err();
        assert!(matches!(other, BufferError::OtherLength { was: 60, is: 61 }), "{other}");
        drop(writer);
        let beyond = buffer.shard(55..61).unwrap_err();
        assert!(matches!(beyond, BufferError::BeyondEnd { end: 61, total: 60 }), "{beyond}");
        fill(&buffer, 10..60);
        assert!(matches!(buffer.freeze(59), Err(BufferError::OtherLength { was: 60, is: 59 })));
        assert_eq!(buffer.freeze(60).unwrap(), pattern(0..60));
    });
}

#[derive(Debug, thiserror::Error)]
#[error("the link is down")]
struct LinkDown;

#[test]
fn after_a_failure_nothing_begins_and_the_first_failure_stays() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        let mut writer = buffer.shard(0..10).unwrap();
        buffer.fail(LinkDown);
        buffer.fail(std::io::Error::other("another"));
        // A failure does not stop a writer that exists already.
        assert_eq!(writer.put(b"01234"), 5);
        drop(writer);
        let refusals = [
            buffer.shard(20..30).map(drop),
            buffer.write_at(20, b"x"),
            buffer.set_total(10),
            buffer.freeze(5).map(drop),
            block_on(buffer.wait_for(0..5)),
        ];
        for refusal in refusals {
            let error = refusal.unwrap_err();
            match &error {
                BufferError::Failed { source } => {
                    assert!(source.downcast_ref::<LinkDown>().is_some());
                }
                other => panic!("refused as {other}"),
            }
            let error = std::error::Error::source(&error).unwrap().to_string();
            assert_eq!(error, "the link is down");
        }
    });
}

#[test]
fn no_bytes_are_readable_after_a_failure() {
    each_backing(|backing| {
        let buffer = buffer(backing);
        fill(&buffer, 0..100);
        buffer.fail(std::io::Error::other("it is damaged"));
        let outcomes = [buffer.slice(0..10).map(|_| 10), buffer.read_at(0, &mut [0; 10])];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(BufferError::Failed { .. })), "{outcome:?}");
        }
    });
}
