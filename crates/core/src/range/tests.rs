//! Ranges: arithmetic at its edges, text forms, and properties over arbitrary input.

use proptest::prelude::*;

use super::{ByteRange, ContentRange, RangeError};

fn parsed(text: &str) -> ByteRange {
    text.parse().unwrap()
}

#[test]
fn what_a_user_types() {
    assert_eq!(parsed("0-99"), ByteRange::Bounded(0..100));
    assert_eq!(parsed("100-"), ByteRange::From(100));
    assert_eq!(parsed("-500"), ByteRange::Last(500));
    assert_eq!(parsed(" 7-7 "), ByteRange::Bounded(7..8));
    assert_eq!(parsed("all"), ByteRange::All);
}

#[test]
fn a_wrong_range_is_shown_in_the_error() {
    for text in [
        "",
        "-",
        "5",
        "9-0",
        "+1-2",
        "1-+2",
        "a-b",
        "1-2-3",
        "--5",
        "0x1-2",
        "0-18446744073709551615",
        "18446744073709551616-",
        "bytes=0-1",
    ] {
        let error = text.parse::<ByteRange>().unwrap_err().to_string();
        assert!(error.contains(&format!("got {text:?}")), "{error}");
    }
}

#[test]
fn headers_are_canonical() {
    assert_eq!(ByteRange::All.header(), None);
    assert_eq!(ByteRange::EMPTY.header(), None);
    assert_eq!(ByteRange::last(0).header(), None);
    assert_eq!(ByteRange::From(0).header().as_deref(), Some("bytes=0-"));
    assert_eq!(ByteRange::first(1).header().as_deref(), Some("bytes=0-0"));
    assert_eq!(ByteRange::last(9).header().as_deref(), Some("bytes=-9"));
    assert_eq!(ByteRange::first_from(5, 10).unwrap().header().as_deref(), Some("bytes=5-14"));
    let reversed = ByteRange::Bounded(std::ops::Range { start: 9, end: 3 });
    assert_eq!(reversed.header(), None);
}

#[test]
fn resolving_clips_at_the_end_and_refuses_what_lies_beyond() {
    assert_eq!(ByteRange::All.resolve(10), Ok(0..10));
    assert_eq!(ByteRange::All.resolve(0), Ok(0..0));
    assert_eq!(ByteRange::From(10).resolve(10), Ok(10..10));
    assert_eq!(ByteRange::From(11).resolve(10), Err(RangeError::BeyondEnd { start: 11, len: 10 }));
    assert_eq!(ByteRange::Bounded(4..99).resolve(10), Ok(4..10));
    assert_eq!(ByteRange::Last(99).resolve(10), Ok(0..10));
    assert_eq!(ByteRange::Last(3).resolve(10), Ok(7..10));
    let reversed = ByteRange::Bounded(std::ops::Range { start: 9, end: 3 });
    assert_eq!(reversed.resolve(10), Err(RangeError::Reversed { start: 9, end: 3 }));
}

#[test]
fn shifting_limiting_and_going_on() {
    assert_eq!(ByteRange::All.shift(0), Ok(ByteRange::All));
    assert_eq!(ByteRange::All.shift(5), Ok(ByteRange::From(5)));
    assert_eq!(ByteRange::Bounded(1..4).shift(5), Ok(ByteRange::Bounded(6..9)));
    assert_eq!(ByteRange::Last(5).shift(1), Err(RangeError::LengthUnknown { n: 5 }));
    assert!(ByteRange::From(2).shift(u64::MAX - 1).is_err());

    assert_eq!(ByteRange::All.limit(5), Ok(ByteRange::first(5)));
    assert_eq!(ByteRange::Bounded(2..9).limit(3), Ok(ByteRange::Bounded(2..5)));
    assert_eq!(ByteRange::Bounded(2..9).limit(u64::MAX), Ok(ByteRange::Bounded(2..9)));
    assert_eq!(ByteRange::From(2).limit(u64::MAX), Ok(ByteRange::Bounded(2..u64::MAX)));
    assert_eq!(ByteRange::Last(5).limit(5), Ok(ByteRange::Last(5)));
    assert_eq!(ByteRange::Last(5).limit(4), Err(RangeError::LengthUnknown { n: 5 }));

    assert_eq!(ByteRange::All.after(0), Ok(ByteRange::All));
    assert_eq!(ByteRange::All.after(7), Ok(ByteRange::From(7)));
    assert_eq!(ByteRange::From(3).after(7), Ok(ByteRange::From(10)));
    assert_eq!(ByteRange::Bounded(3..10).after(7), Ok(ByteRange::Bounded(10..10)));
    assert_eq!(
        ByteRange::Bounded(3..10).after(8),
        Err(RangeError::TooMuchDelivered { delivered: 8, len: 7 })
    );
    assert_eq!(ByteRange::Last(9).after(4), Ok(ByteRange::Last(5)));
    assert!(ByteRange::Last(9).after(10).is_err());
}

#[test]
fn content_range_in_all_its_forms() {
    let bytes = |range, total| ContentRange::Bytes { range, total };
    assert_eq!(ContentRange::parse("bytes 0-9/10"), Ok(bytes(0..10, Some(10))));
    assert_eq!(ContentRange::parse("Bytes 5-5/*"), Ok(bytes(5..6, None)));
    assert_eq!(ContentRange::parse(" bytes  0-0/1 "), Ok(bytes(0..1, Some(1))));
    assert_eq!(
        ContentRange::parse("bytes */10"),
        Ok(ContentRange::Unsatisfied { total: Some(10) })
    );
    assert_eq!(ContentRange::parse("BYTES */*"), Ok(ContentRange::Unsatisfied { total: None }));
}

#[test]
fn a_wrong_content_range_is_shown_in_the_error() {
    for header in [
        "",
        "bytes",
        "bytes ",
        "bytes 0-9",
        "items 0-9/10",
        "bytes 9-0/10",
        "bytes 0-10/10",
        "bytes 0-9/9",
        "bytes -9/10",
        "bytes 0-/10",
        "bytes 0-9/10 x",
        "bytes 0-9/+10",
        "bytes 0-18446744073709551615/*",
        "bytes 0-9/18446744073709551616",
        "bytes=0-9/10",
        "bytes 0 - 9/10",
        "bytes 0-0/0",
    ] {
        let error = ContentRange::parse(header).unwrap_err().to_string();
        assert!(error.contains(&format!("got {header:?}")), "{error}");
    }
}

fn any_range() -> impl Strategy<Value = ByteRange> {
    let position = prop_oneof![0..1000_u64, any::<u64>(), (u64::MAX - 9)..=u64::MAX];
    prop_oneof![
        Just(ByteRange::All),
        position.clone().prop_map(ByteRange::From),
        position.clone().prop_map(ByteRange::Last),
        (position.clone(), position).prop_map(|(start, end)| ByteRange::Bounded(start..end)),
    ]
}

proptest! {
    #[test]
    fn arithmetic_never_overflows(range in any_range(), n in any::<u64>(), len in any::<u64>()) {
        let _ = (range.shift(n), range.limit(n), range.after(n), range.to_string());
        if let Ok(resolved) = range.resolve(len) {
            prop_assert!(resolved.start <= resolved.end && resolved.end <= len);
        }
    }

    #[test]
    fn a_header_reads_back_as_the_same_range(range in any_range()) {
        if let Some(header) = range.header() {
            let text = header.strip_prefix("bytes=").expect("the unit");
            prop_assert_eq!(text.parse::<ByteRange>(), Ok(range));
        }
    }

    /// The first n bytes and then the rest are together the whole range.
    #[test]
    fn limit_and_after_are_halves(
        kind in 0..4_u8, start in 0..900_u64, wanted in 0..900_u64, len in 900..2000_u64, cut in 0..=100_u64,
    ) {
        let range = match kind {
            0 => ByteRange::All,
            1 => ByteRange::From(start),
            2 => ByteRange::first_from(start, wanted).unwrap(),
            _ => ByteRange::Last(wanted),
        };
        let whole = range.resolve(len).unwrap();
        let n = (whole.end - whole.start) * cut / 100;
        let rest = range.after(n).unwrap().resolve(len).unwrap();
        prop_assert_eq!(rest, whole.start + n..whole.end);
        match range.limit(n) {
            Ok(first) => prop_assert_eq!(first.resolve(len).unwrap(), whole.start..whole.start + n),
            // A range of the last bytes cannot be limited to its first bytes.
            Err(error) => prop_assert_eq!(error, RangeError::LengthUnknown { n: wanted }),
        }
    }

    #[test]
    fn content_range_parsing_never_panics(header in ".{0,60}") {
        let _ = ContentRange::parse(&header);
    }

    #[test]
    fn content_range_near_misses_are_consistent(header in "bytes [0-9*]{0,21}-?[0-9*]{0,21}/[0-9*]{1,21}") {
        if let Ok(parsed) = ContentRange::parse(&header) {
            if let ContentRange::Bytes { range, total } = &parsed {
                prop_assert!(range.start < range.end);
                prop_assert!(total.is_none_or(|total| range.end <= total));
            }
            prop_assert_eq!(ContentRange::parse(&parsed.to_string()), Ok(parsed));
        }
    }
}
