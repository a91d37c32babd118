//! A buffer used as a file: sequential writes, gaps, overwriting, seeks, and any mix of read sizes.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};

use proptest::prelude::*;
use tidegate::buffer::{Backing, BufferError, ShardBuffer, ShardBufferOptions};

use super::bed::{BACKINGS, MIB, Wakes, buffer, each_backing, fill, pattern, poll, read};

/// A buffer of `limit_bytes`.
fn limited(backing: Backing, limit_bytes: u64) -> ShardBuffer {
    ShardBuffer::new(ShardBufferOptions { limit_bytes, backing, ..Default::default() }).unwrap()
}

fn refused(error: &io::Error) -> &BufferError {
    error.get_ref().and_then(|source| source.downcast_ref()).unwrap()
}

#[test]
fn bytes_written_in_order_are_read_back() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        let mut cursor = buffer.cursor();
        cursor.write_all(b"hello ").unwrap();
        cursor.write_all(b"world").unwrap();
        assert_eq!(cursor.position(), 11);
        cursor.rewind().unwrap();
        let mut text = String::new();
        assert_eq!(cursor.read_to_string(&mut text).unwrap(), 11);
        assert_eq!(text, "hello world");
        assert_eq!(cursor.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(buffer.freeze(11).unwrap(), "hello world");
    });
}

#[test]
fn bytes_written_out_of_order_are_read_in_order() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        let mut cursor = buffer.cursor();
        for (at, text) in [(6, "world"), (0, "hello"), (5, " ")] {
            cursor.seek(SeekFrom::Start(at)).unwrap();
            cursor.write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(buffer.freeze(11).unwrap(), "hello world");
    });
}

#[test]
fn a_gap_is_an_error_that_names_it_and_not_zeros() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        let mut cursor = buffer.cursor();
        cursor.write_all(b"abc").unwrap();
        cursor.seek(SeekFrom::Start(10)).unwrap();
        cursor.write_all(b"xyz").unwrap();
        cursor.rewind().unwrap();
        let mut target = [0; 16];
        assert_eq!(cursor.read(&mut target).unwrap(), 3);
        let error = cursor.read(&mut target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(matches!(refused(&error), BufferError::Gap { gap } if *gap == (3..10)), "{error}");
        assert_eq!(cursor.position(), 3, "a refusal leaves it where it was");
        cursor.write_all(b"defghij").unwrap();
        cursor.rewind().unwrap();
        let mut text = String::new();
        cursor.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcdefghijxyz");
    });
}

#[test]
fn one_write_overwrites_fills_a_gap_and_appends() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        fill(&buffer, 2..4);
        fill(&buffer, 6..8);
        let mut cursor = buffer.cursor();
        cursor.seek(SeekFrom::Start(1)).unwrap();
        assert_eq!(cursor.write(b"bcdefghij").unwrap(), 9);
        cursor.rewind().unwrap();
        cursor.write_all(b"a").unwrap();
        assert_eq!(buffer.freeze(10).unwrap(), "abcdefghij");
    });
}

#[test]
fn seeks_go_from_the_start_the_current_position_and_the_end() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        fill(&buffer, 0..100);
        let mut cursor = buffer.cursor();
        let seeks = [
            (SeekFrom::Start(7), 7),
            (SeekFrom::Current(3), 10),
            (SeekFrom::Current(-10), 0),
            (SeekFrom::Current(0), 0),
            (SeekFrom::End(0), 100),
            (SeekFrom::End(-100), 0),
            (SeekFrom::End(-1), 99),
            (SeekFrom::End(50), 150),
            (SeekFrom::Current(1 << 40), 150 + (1 << 40)),
            (SeekFrom::Start(u64::MAX), u64::MAX),
        ];
        for (seek, position) in seeks {
            assert_eq!(cursor.seek(seek).unwrap(), position, "{seek:?}");
            assert_eq!(
                (cursor.position(), cursor.stream_position().unwrap()),
                (position, position)
            );
        }
    });
}

#[test]
fn an_invalid_seek_is_refused_and_keeps_the_position() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        fill(&buffer, 0..10);
        let mut cursor = buffer.cursor();
        cursor.seek(SeekFrom::Start(4)).unwrap();
        let seeks = [
            SeekFrom::Current(-5),
            SeekFrom::Current(i64::MIN),
            SeekFrom::End(-11),
            SeekFrom::End(i64::MIN),
        ];
        for seek in seeks {
            assert_eq!(cursor.seek(seek).unwrap_err().kind(), ErrorKind::InvalidInput, "{seek:?}");
            assert_eq!(cursor.position(), 4);
        }
        cursor.seek(SeekFrom::Start(u64::MAX)).unwrap();
        assert_eq!(cursor.seek(SeekFrom::Current(1)).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(cursor.position(), u64::MAX);
    });
}

#[test]
fn reading_at_or_beyond_the_end_gives_nothing_however_often() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        fill(&buffer, 0..10);
        let mut cursor = buffer.cursor();
        for position in [10, 11, 1 << 40, u64::MAX] {
            cursor.seek(SeekFrom::Start(position)).unwrap();
            for _ in 0..3 {
                assert_eq!(cursor.read(&mut [0; 4]).unwrap(), 0);
                assert_eq!(cursor.position(), position);
            }
        }
        cursor.seek(SeekFrom::Start(9)).unwrap();
        assert_eq!(cursor.read(&mut [0; 4]).unwrap(), 1, "short at the end");
    });
}

#[test]
fn writing_beyond_the_end_leaves_a_gap() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        let mut cursor = buffer.cursor();
        cursor.write_all(b"ab").unwrap();
        cursor.seek(SeekFrom::End(MIB as i64)).unwrap();
        cursor.write_all(b"yz").unwrap();
        assert_eq!((buffer.len(), buffer.contiguous_len()), (MIB + 4, 2));
        assert_eq!(buffer.gaps(), [2..MIB + 2]);
    });
}

#[test]
fn nothing_is_written_beyond_the_limit_or_the_positions_there_are() {
    each_backing(|backing| {
        let mut buffer = limited(backing, 10);
        let mut cursor = buffer.cursor();
        cursor.write_all(b"0123456789").unwrap();
        let error = cursor.write(b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        let is = refused(&error);
        assert!(matches!(is, BufferError::BeyondLimit { end: 11, limit_bytes: 10 }), "{is}");
        for position in [u64::MAX - 1, u64::MAX] {
            cursor.seek(SeekFrom::Start(position)).unwrap();
            let is = cursor.write(b"xy").unwrap_err();
            assert!(matches!(refused(&is), BufferError::Overflow { len: 2, .. }), "{is}");
            assert_eq!(cursor.position(), position);
        }
        assert_eq!(buffer.len(), 10);
    });
}

#[test]
fn empty_reads_and_writes_have_no_effect_at_any_position() {
    each_backing(|backing| {
        let mut buffer = limited(backing, 10);
        fill(&buffer, 2..4);
        let mut cursor = buffer.cursor();
        for position in [0, 2, 3, 4, 10, 11, u64::MAX] {
            cursor.seek(SeekFrom::Start(position)).unwrap();
            assert_eq!(cursor.read(&mut []).unwrap(), 0);
            assert_eq!(cursor.write(&[]).unwrap(), 0);
            assert_eq!(cursor.position(), position);
        }
        cursor.flush().unwrap();
        assert_eq!((buffer.len(), buffer.gaps()), (4, vec![0..2]));
    });
}

/// Whether the bytes of a buffer can be overwritten.
fn overwrites(buffer: &mut ShardBuffer) -> bool {
    match buffer.cursor().write(b"!") {
        Ok(count) => count == 1,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ResourceBusy);
            assert!(matches!(refused(&error), BufferError::Shared), "{error}");
            false
        }
    }
}

#[test]
fn overwriting_is_refused_while_a_handle_could_see_it_and_allowed_after() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        fill(&buffer, 0..10);
        assert!(overwrites(&mut buffer));

        let writer = buffer.shard(100..200).unwrap();
        assert!(!overwrites(&mut buffer));
        drop(writer);
        assert!(overwrites(&mut buffer));

        let reader = buffer.reader();
        assert!(!overwrites(&mut buffer));
        drop(reader);
        assert!(overwrites(&mut buffer));

        let mut wait = buffer.wait_for(10..20);
        assert!(poll(&mut wait, &Wakes::new()).is_pending());
        assert!(!overwrites(&mut buffer));
        drop(wait);
        assert!(overwrites(&mut buffer));

        let slice = buffer.slice(0..10).unwrap();
        let part = slice.slice(3..5);
        let before = part.to_vec();
        drop(slice);
        assert!(!overwrites(&mut buffer));
        assert_eq!(part, before);
        drop(part);
        assert!(overwrites(&mut buffer));
    });
}

#[test]
fn new_bytes_may_be_written_where_old_ones_may_not() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        fill(&buffer, 0..10);
        let slice = buffer.slice(0..10).unwrap();
        let mut cursor = buffer.cursor();
        cursor.seek(SeekFrom::End(0)).unwrap();
        cursor.write_all(b"more").unwrap();
        // The write stops at the first byte that it must not overwrite.
        cursor.seek(SeekFrom::Start(20)).unwrap();
        cursor.write_all(b"island").unwrap();
        cursor.seek(SeekFrom::Start(14)).unwrap();
        assert_eq!(cursor.write(b"0123456789").unwrap(), 6);
        assert_eq!(cursor.position(), 20);
        assert_eq!(slice, pattern(0..10));
        assert_eq!(read(&buffer, 10..26), b"more012345island");
    });
}

#[test]
fn a_frozen_buffer_is_read_and_sought_and_never_written() {
    each_backing(|backing| {
        let mut buffer = buffer(backing);
        fill(&buffer, 0..10);
        drop(buffer.freeze(10).unwrap());
        let mut cursor = buffer.cursor();
        let mut content = Vec::new();
        cursor.read_to_end(&mut content).unwrap();
        assert_eq!(content, pattern(0..10));
        for position in [0, 10] {
            cursor.seek(SeekFrom::Start(position)).unwrap();
            let error = cursor.write(b"x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
            assert!(matches!(refused(&error), BufferError::Frozen), "{error}");
        }
    });
}

/// Any mix of read sizes and seeks gives the same bytes (after Go's `iotest.TestReader`).
fn check_reading(file: &mut (impl Read + Seek), content: &[u8]) {
    for size in [1, 2, 3, 7, 511, 512, 513, content.len() / 2 + 1, content.len(), content.len() + 1]
    {
        file.rewind().unwrap();
        let (mut all, mut target) = (Vec::new(), vec![0; size]);
        loop {
            match file.read(&mut target).unwrap() {
                0 => break,
                count => all.extend_from_slice(&target[..count]),
            }
        }
        assert!(all == content, "in reads of {size}");
        assert_eq!(file.read(&mut target).unwrap(), 0);
    }
    for at in [0, 1, content.len() / 3, content.len() - 1, content.len()] {
        let (mut rest, from_end) = (Vec::new(), at as i64 - content.len() as i64);
        assert_eq!(file.seek(SeekFrom::End(from_end)).unwrap(), at as u64);
        file.read_to_end(&mut rest).unwrap();
        assert!(rest == content[at..], "from {at}");
        assert_eq!(file.stream_position().unwrap(), content.len() as u64);
    }
}

#[test]
fn any_mix_of_read_sizes_gives_the_same_bytes() {
    each_backing(|backing| {
        // This read crosses the seam of the first two segments.
        let hint = Some(64 << 10);
        let options = ShardBufferOptions { len_hint: hint, backing, ..Default::default() };
        let mut buffer = ShardBuffer::new(options).unwrap();
        let content = pattern(0..70_001);
        for (index, piece) in content.chunks(9_001).enumerate().rev() {
            buffer.write_at(index as u64 * 9_001, piece).unwrap();
        }
        check_reading(&mut buffer.cursor(), &content);
    });
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u8),
    Read(usize),
    Seek(SeekFrom),
}

fn any_step() -> impl Strategy<Value = Step> {
    let seek = prop_oneof![
        (0..90_000_u64).prop_map(SeekFrom::Start),
        (-40_000..40_000_i64).prop_map(SeekFrom::Current),
        (-90_000..2_000_i64).prop_map(SeekFrom::End),
    ];
    prop_oneof![
        3 => (0..30_000_usize, any::<u8>()).prop_map(|(len, byte)| Step::Write(len, byte)),
        3 => (0..30_000_usize).prop_map(Step::Read),
        3 => seek.prop_map(Step::Seek),
    ]
}

/// The outcome of a step: a count or position with the bytes read, or the kind of refusal.
type Outcome = Result<(u64, Vec<u8>), ErrorKind>;

fn take(file: &mut (impl Read + Write + Seek), step: &Step) -> Outcome {
    let done = match step {
        Step::Write(len, byte) => {
            // A file fills a gap with zeros, and a buffer keeps the gap. Gaps have a test of their
            // own, so start no later than the end.
            let (position, end) = (file.stream_position().unwrap(), file.seek(SeekFrom::End(0)));
            file.seek(SeekFrom::Start(position.min(end.unwrap()))).unwrap();
            let data: Vec<u8> = (0..*len).map(|at| *byte ^ (at % 251) as u8).collect();
            file.write_all(&data).map(|()| (*len as u64, Vec::new()))
        }
        Step::Read(len) => {
            let mut target = vec![0; *len];
            let mut done = 0;
            // Reads may be short before the end. Only their total counts.
            while done < target.len() {
                match file.read(&mut target[done..]).unwrap() {
                    0 => break,
                    count => done += count,
                }
            }
            target.truncate(done);
            Ok((done as u64, target))
        }
        Step::Seek(seek) => file.seek(*seek).map(|position| (position, Vec::new())),
    };
    done.map_err(|error| error.kind())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn without_gaps_a_cursor_behaves_like_a_vector_and_a_file(
        steps in prop::collection::vec(any_step(), 1..40),
        len_hint in prop::option::of(0..200_000_u64),
    ) {
        for &backing in BACKINGS {
            let options = ShardBufferOptions { len_hint, backing, ..Default::default() };
            let mut buffer = ShardBuffer::new(options).unwrap();
            let mut cursor = buffer.cursor();
            let mut vector = io::Cursor::new(Vec::new());
            let mut file = tempfile::tempfile().unwrap();
            for step in &steps {
                let outcome = take(&mut cursor, step);
                prop_assert!(outcome == take(&mut vector, step), "{step:?}: a vector differs");
                prop_assert!(outcome == take(&mut file, step), "{step:?}: a file differs");
            }
            let content = vector.into_inner();
            prop_assert!(buffer.freeze(content.len() as u64).unwrap() == content);
        }
    }
}

#[test]
fn a_write_that_does_not_fit_is_short() {
    each_backing(|backing| {
        let mut buffer = limited(backing, 10);
        let mut cursor = buffer.cursor();
        assert_eq!(cursor.write(&[7; 16]).unwrap(), 10);
        let full = cursor.write(&[7; 16]).unwrap_err();
        assert!(matches!(refused(&full), BufferError::BeyondLimit { limit_bytes: 10, .. }));

        // The same before a range that another writer holds.
        let mut buffer = limited(backing, 10);
        let held = buffer.shard(4..6).unwrap();
        let mut cursor = buffer.cursor();
        assert_eq!(cursor.write(&[7; 8]).unwrap(), 4);
        let busy = cursor.write(&[7; 8]).unwrap_err();
        assert!(matches!(refused(&busy), BufferError::Reserved { held, .. } if *held == (4..6)));
        drop(held);
    });
}
