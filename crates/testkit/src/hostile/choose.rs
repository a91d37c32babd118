//! Chooses the deviations of a scenario. Each kind of deviation is equally likely, so that rare
//! elements of a response deviate as often as common ones.

use super::deviation::{
    BodyLie, CloudLie, DateLie, Deviation, EncodingLie, EndLie, FramingLie, LengthLie, OpeningLie,
    RangeLie, RedirectLie, Scope, SumLie, TagLie, Unsatisfied,
};
use super::manners::{MIRRORS, ORIGIN, pick, within};
use crate::SplitMix64;

/// The maximum number of deviations of a scenario: more would hide each other.
const DEVIATIONS_MAX: usize = 3;

/// The deviations of a scenario with a blob of `len` bytes, and the responses to which they apply.
pub(crate) fn deviations(dice: &mut SplitMix64, len: u64) -> Vec<(Scope, Deviation)> {
    let count = [0, 1, 1, 1, 2, 2, 2, 3][within(dice, 0, 7)].min(DEVIATIONS_MAX);
    (0..count).map(|_| (scope(dice), deviation(dice, len))).collect()
}

fn scope(dice: &mut SplitMix64) -> Scope {
    match dice.below(12) {
        0..=2 => Scope::First,
        3..=5 => Scope::Nth(within(dice, 1, 5)),
        6 | 7 => Scope::From(within(dice, 1, 3)),
        8 => Scope::All,
        9 => Scope::Heads,
        10 => Scope::LaterRuns,
        _ => Scope::LaterParts,
    }
}

/// A random number of bytes: few, about a shard, or up to a whole blob.
fn bytes(dice: &mut SplitMix64, len: u64) -> u64 {
    match dice.below(4) {
        0 => 1,
        1 => 1 + dice.below(16),
        2 => 1 + dice.below(1024),
        _ => 1 + dice.below(len.max(1)),
    }
}

fn signed(dice: &mut SplitMix64, len: u64) -> i64 {
    let bytes = i64::try_from(bytes(dice, len)).unwrap_or(1);
    if dice.below(2) == 0 { bytes } else { -bytes }
}

fn deviation(dice: &mut SplitMix64, len: u64) -> Deviation {
    match dice.below(16) {
        0 => status(dice),
        1 => Deviation::Unsatisfied(pick(
            dice,
            &[Unsatisfied::Bare, Unsatisfied::Empty, Unsatisfied::Right, Unsatisfied::OtherLength],
        )),
        2 | 3 => part(dice, len),
        4 => Deviation::ContentRange(range(dice, len)),
        5 => Deviation::Length(length(dice, len)),
        6 => Deviation::Framing(framing(dice, len)),
        7 => Deviation::Encoding(pick(
            dice,
            &[
                EncodingLie::Gzip,
                EncodingLie::Identity,
                EncodingLie::Brotli,
                EncodingLie::Decompressed,
            ],
        )),
        8 => Deviation::Tag(tag(dice)),
        9 => Deviation::Date(date(dice)),
        10 => Deviation::Cloud(cloud(dice, len)),
        11 => Deviation::Sums(sums(dice)),
        12 | 13 => Deviation::Body(body(dice, len)),
        14 => end(dice, len),
        _ => redirect(dice),
    }
}

fn status(dice: &mut SplitMix64) -> Deviation {
    match dice.below(4) {
        0 => Deviation::Later(pick(dice, &[429, 503])),
        1 => Deviation::Status(pick(dice, &[429, 500, 502, 503, 504, 408])),
        2 => Deviation::Status(pick(dice, &[401, 403, 404, 410, 412, 400])),
        _ => Deviation::Status(pick(dice, &[200, 201, 203, 204, 205, 206, 226, 299, 304, 418])),
    }
}

fn part(dice: &mut SplitMix64, len: u64) -> Deviation {
    match dice.below(7) {
        0 => Deviation::WholeFor200,
        1 => Deviation::PartFor200,
        2 => Deviation::WholeFor206,
        3 => Deviation::Moved(signed(dice, len)),
        4 => Deviation::Shorter(bytes(dice, len)),
        5 => Deviation::Longer(bytes(dice, len)),
        _ => Deviation::Multipart,
    }
}

fn range(dice: &mut SplitMix64, len: u64) -> RangeLie {
    match dice.below(9) {
        0 => RangeLie::Moved(signed(dice, len)),
        1 => RangeLie::LongerEnd(bytes(dice, len)),
        2 => RangeLie::ShorterEnd(bytes(dice, len)),
        3 => RangeLie::Missing,
        4 => RangeLie::Malformed,
        5 => RangeLie::OtherUnit,
        6 => RangeLie::Twice,
        7 => RangeLie::NoTotal,
        _ => RangeLie::OtherTotal(signed(dice, len)),
    }
}

fn length(dice: &mut SplitMix64, len: u64) -> LengthLie {
    match dice.below(9) {
        0 => LengthLie::Absent,
        1 => LengthLie::Less(bytes(dice, len)),
        2 => LengthLie::More(bytes(dice, len)),
        3 => LengthLie::TwiceTheSame,
        4 => LengthLie::TwiceContradictory,
        5 => LengthLie::List,
        6 => LengthLie::Malformed,
        7 => LengthLie::Negative,
        _ => LengthLie::Huge,
    }
}

fn framing(dice: &mut SplitMix64, len: u64) -> FramingLie {
    match dice.below(13) {
        0 => FramingLie::Chunked,
        1 => FramingLie::UntilClose,
        2 => FramingLie::Both,
        3 => FramingLie::BothLess(bytes(dice, len)),
        4 => FramingLie::BothMore(bytes(dice, len)),
        5 => FramingLie::Coding(pick(dice, &["gzip", "identity", "x-other", "chunked, gzip"])),
        6 => {
            let codings = ["gzip, chunked", "chunked, chunked", "identity, chunked", "Chunked"];
            FramingLie::ChunkedAs(pick(dice, &codings))
        }
        7 => FramingLie::OldHttp,
        8 => FramingLie::OldHttpChunked,
        9 => FramingLie::NotChunked,
        10 => FramingLie::BadChunkSize,
        11 => FramingLie::NoLastChunk,
        _ => FramingLie::Trailer,
    }
}

fn tag(dice: &mut SplitMix64) -> TagLie {
    pick(
        dice,
        &[
            TagLie::Absent,
            TagLie::Weak,
            TagLie::Other,
            TagLie::New,
            TagLie::Unquoted,
            TagLie::Empty,
            TagLie::TwiceTheSame,
            TagLie::TwiceContradictory,
        ],
    )
}

fn date(dice: &mut SplitMix64) -> DateLie {
    pick(
        dice,
        &[
            DateLie::Absent,
            DateLie::Fresh,
            DateLie::AlmostFresh,
            DateLie::Future,
            DateLie::Other,
            DateLie::Malformed,
            DateLie::NoClock,
            DateLie::Alone,
        ],
    )
}

fn cloud(dice: &mut SplitMix64, len: u64) -> CloudLie {
    match dice.below(9) {
        0 => CloudLie::NoGeneration,
        1 => CloudLie::OtherGeneration,
        2 => CloudLie::OddGeneration,
        3 => CloudLie::TwoGenerations,
        4 => CloudLie::NoVersionId,
        5 => CloudLie::OtherVersionId,
        6 => CloudLie::NullVersionId,
        _ => CloudLie::StoredLength(signed(dice, len)),
    }
}

fn sums(dice: &mut SplitMix64) -> SumLie {
    pick(
        dice,
        &[
            SumLie::Absent,
            SumLie::Right,
            SumLie::Wrong,
            SumLie::Other,
            SumLie::Malformed,
            SumLie::RightThenWrong,
            SumLie::WrongThenRight,
            SumLie::BadMember,
            SumLie::Composite,
        ],
    )
}

fn body(dice: &mut SplitMix64, len: u64) -> BodyLie {
    match dice.below(9) {
        0 => BodyLie::Flip(dice.below(len.max(1))),
        1 => BodyLie::Other,
        2 => BodyLie::Mixed,
        3 => BodyLie::Zeros,
        4 => BodyLie::ShortBy(bytes(dice, len)),
        5 => BodyLie::LongBy(bytes(dice, len)),
        6 => BodyLie::Empty,
        7 => BodyLie::Whole,
        _ => BodyLie::MovedBy(bytes(dice, len)),
    }
}

fn end(dice: &mut SplitMix64, len: u64) -> Deviation {
    match dice.below(8) {
        0 | 1 => Deviation::End(EndLie::CutAfter(bytes(dice, len))),
        2 => Deviation::End(EndLie::ResetAfter(bytes(dice, len))),
        3 => Deviation::End(EndLie::SilentAfter(bytes(dice, len))),
        4 => Deviation::End(EndLie::ResetAtEnd),
        5 => Deviation::Opening(OpeningLie::Interim(pick(dice, &[100, 102, 103]))),
        _ => Deviation::Opening(pick(
            dice,
            &[OpeningLie::Nothing, OpeningLie::Reset, OpeningLie::Garbage, OpeningLie::HalfAHead],
        )),
    }
}

fn redirect(dice: &mut SplitMix64) -> Deviation {
    let mirror = ORIGIN + 1 + u16::try_from(dice.below(u64::from(MIRRORS))).unwrap_or(0);
    let status = pick(dice, &[301, 302, 303, 307, 308]);
    Deviation::Redirect(match dice.below(8) {
        0 => RedirectLie::Loop,
        1 => RedirectLie::NoLocation,
        2 => RedirectLie::BadLocation,
        3 => RedirectLie::Ftp,
        4 => RedirectLie::Secure,
        5 => RedirectLie::Plain,
        _ => RedirectLie::Mirror(mirror, status),
    })
}
