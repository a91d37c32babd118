//! Lies from a seed.
//!
//! Numbers are drawn from critical values: none, one, slightly more or less than the right value,
//! and the limits of the type. Times are short, about the client's timeouts, or far longer.

use super::super::{rpc::Rpc, status::Code};
use super::lie::{
    CapabilitiesLie, CommittedForm, ContentLie, DigestForm, DigestsLie, EndLie, EntriesLie,
    HashForm, HeadLie, Lie, MessageLie, PackedLie, Part, SizeForm, StatusForm,
};
use super::{HostileCall, Turns};
use crate::random::SplitMix64;

/// The maximum number of lies of one call.
const LIES_MAX: u64 = 3;

/// Milliseconds: soon, after some seconds, after the usual timeouts, and after an hour.
const LATE_MS: [u64; 4] = [1, 4_000, 40_000, 3_600_000];

const CODES: [Code; 17] = [
    Code::Ok,
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

const SIZES: [SizeForm; 10] = [
    SizeForm::Exact,
    SizeForm::Zero,
    SizeForm::One,
    SizeForm::OneLess,
    SizeForm::OneMore,
    SizeForm::Half,
    SizeForm::Twice,
    SizeForm::MinusOne,
    SizeForm::Min,
    SizeForm::Max,
];

impl HostileCall {
    /// Lies for calls of this kind.
    pub fn draw(rpc: Rpc, random: &mut SplitMix64) -> Self {
        let turns = match random.below(6) {
            0 | 1 => Turns::First,
            2 => Turns::Later,
            3 => Turns::Nth(1 + random.below(4)),
            _ => Turns::All,
        };
        let count = 1 + random.below(LIES_MAX);
        let lies = (0..count).map(|_| Lie::draw(rpc, random)).collect();
        Self { rpc, turns, lies }
    }
}

impl Lie {
    /// A lie for a call of this kind.
    pub fn draw(rpc: Rpc, random: &mut SplitMix64) -> Self {
        // Half of the lies are about the call's content, half about the parts that all responses
        // have.
        if random.below(2) == 0 { surrounding(random) } else { meaning(rpc, random) }
    }
}

fn meaning(rpc: Rpc, random: &mut SplitMix64) -> Lie {
    match rpc {
        Rpc::Capabilities => Lie::Capabilities(capabilities(random)),
        Rpc::FindMissing => Lie::Digests(digests(random)),
        Rpc::Split => match random.below(8) {
            0 => Lie::Chunking(pick(random, &[0, 1, 2, 3, 99, -1])),
            _ => Lie::Digests(digests(random)),
        },
        Rpc::Splice => match random.below(4) {
            0 => Lie::Forget,
            _ => Lie::Digests(digests(random)),
        },
        Rpc::Read => Lie::Content(0, content(random)),
        Rpc::BatchRead => match random.below(2) {
            0 => Lie::Content(position(random), content(random)),
            _ => Lie::Entries(entries(random)),
        },
        Rpc::BatchUpdate => match random.below(8) {
            0 => Lie::Forget,
            _ => Lie::Entries(entries(random)),
        },
        Rpc::Write => match random.below(6) {
            0 => Lie::Forget,
            1 => Lie::Early,
            _ => Lie::Committed(committed(random)),
        },
        Rpc::QueryWriteStatus => match random.below(3) {
            0 => Lie::Complete(random.below(4) > 0),
            _ => Lie::Committed(committed(random)),
        },
        Rpc::GetTree => surrounding(random),
    }
}

/// A lie about a part that every response has.
fn surrounding(random: &mut SplitMix64) -> Lie {
    match random.below(16) {
        0 => Lie::Late(part(random), pick(random, &LATE_MS)),
        1 => Lie::Evict,
        2 | 3 => Lie::Refuse(pick(random, &CODES[1..])),
        4 | 5 => Lie::Head(head(random)),
        6..=9 => Lie::Message(message(random)),
        _ => Lie::End(end(random)),
    }
}

fn part(random: &mut SplitMix64) -> Part {
    match random.below(3) {
        0 => Part::Head,
        1 => Part::Message(position(random)),
        _ => Part::End,
    }
}

fn head(random: &mut SplitMix64) -> HeadLie {
    match random.below(5) {
        0 => HeadLie::Http(pick(random, &[204, 206, 302, 400, 401, 403, 404, 429, 500, 503])),
        1 => HeadLie::ContentType(pick(
            random,
            &[None, Some("text/html"), Some("application/grpc"), Some("application/json")],
        )),
        2 => HeadLie::Encoding(pick(random, &["identity", "gzip", "zstd", "none of yours"])),
        3 => HeadLie::Status(pick(random, &CODES) as i32),
        _ => HeadLie::Length(pick(random, &[0, 1, 10, 1 << 20, u64::MAX])),
    }
}

fn message(random: &mut SplitMix64) -> MessageLie {
    let at = position(random);
    match random.below(13) {
        0 => MessageLie::Omit(at),
        1 => MessageLie::Repeat(at),
        2 => MessageLie::Swap(at, position(random)),
        3 => MessageLie::Empty(at),
        4 => MessageLie::Garbage(at),
        5 => MessageLie::Flag(at, pick(random, &[1, 2, 255])),
        6 => MessageLie::Length(at, pick(random, &[-5, -1, 1, 5, 1 << 20, i32::MAX])),
        7 => MessageLie::Cut(at, pick(random, &[1, 2, 5, 40, 255])),
        8 => {
            // A field of a later version; an empty digest, in each of the two lists of digests; an
            // empty entry.
            let pattern: &[u8] =
                pick(random, &[b"\x78\x01", b"\x0a\x00", b"\x12\x00", b"\x9a\x06\x01x"]);
            MessageLie::Append(at, pattern, pick(random, &[1, 2, 1_000, 40_000, 400_000]))
        }
        9 => MessageLie::Dangling(pick(random, &[1, 4, 5, 6, 50])),
        10 => MessageLie::Data(pick(random, &[1, 3, 5, 100])),
        11 => MessageLie::Swap(0, at),
        _ => MessageLie::Pieces(pick(random, &[1, 7, 100, 1_000, 5_000])),
    }
}

fn end(random: &mut SplitMix64) -> EndLie {
    match random.below(14) {
        0 | 1 => EndLie::Status(pick(random, &CODES) as i32),
        2 => EndLie::Status(pick(random, &[17, 99, -1, i32::MAX])),
        3 => EndLie::Word(pick(random, &["", "OK", "zero", "0x0", "00", " 0"])),
        4 => EndLie::NoStatus,
        5 => EndLie::NoTrailers,
        6 => EndLie::Twice(pick(random, &[0, 5, 6, 14]), pick(random, &[0, 3, 5, 13, 14])),
        7 => EndLie::Message(pick(
            random,
            &["all is well", "%1b%5b2J%0a%00", "%ff%fe", "%", "\u{fffd}\u{202e}gnp.exe"],
        )),
        8 => EndLie::Details(pick(random, &["?", "A", "AAAA", "CAU"])),
        9 => EndLie::RetryAfter(pick(random, &[0, 1, 60_000, 10_u64.pow(12), u64::MAX])),
        10 => EndLie::Reset(pick(random, &[0, 1, 2, 7, 8, 11])),
        11 => EndLie::Close,
        12 => EndLie::GoAway,
        _ => pick(random, &[EndLie::Never, EndLie::Silence]),
    }
}

fn digests(random: &mut SplitMix64) -> DigestsLie {
    let at = position(random);
    match random.below(12) {
        0 => DigestsLie::Clear,
        1 => DigestsLie::Asked,
        2 => DigestsLie::Omit(at),
        3 => DigestsLie::Repeat(at, pick(random, &[1, 2, 1_000])),
        4 => DigestsLie::Swap(at, position(random)),
        5 => DigestsLie::Reverse,
        6 | 7 => DigestsLie::Insert(at, digest(random)),
        8 => DigestsLie::Shift(at),
        _ => DigestsLie::Alter(at, digest(random)),
    }
}

fn digest(random: &mut SplitMix64) -> DigestForm {
    match random.below(8) {
        0 => DigestForm::Foreign,
        1 => DigestForm::Unset,
        2 => DigestForm::OfNothing,
        3 => DigestForm::OfBlob,
        4 | 5 => DigestForm::Size(pick(random, &SIZES[1..])),
        _ => DigestForm::Hash(pick(
            random,
            &[
                HashForm::Absent,
                HashForm::Short,
                HashForm::Long,
                HashForm::UpperCase,
                HashForm::Path,
                HashForm::OneDigit,
            ],
        )),
    }
}

fn entries(random: &mut SplitMix64) -> EntriesLie {
    let at = position(random);
    match random.below(12) {
        0 => EntriesLie::Clear,
        1 => EntriesLie::Omit(at),
        2..=4 => EntriesLie::Repeat(at, status(random), random.below(2) == 0),
        5 => EntriesLie::Swap(at, position(random)),
        6 => EntriesLie::Exchange(at, position(random)),
        7 => EntriesLie::Rename(at, digest(random)),
        8 => EntriesLie::Unname(at),
        9 => EntriesLie::Status(at, status(random)),
        10 => EntriesLie::Statuses(status(random)),
        _ => EntriesLie::Compressor(at, pick(random, &[0, 1, 2, 99, -1])),
    }
}

fn status(random: &mut SplitMix64) -> StatusForm {
    match random.below(4) {
        0 => StatusForm::Absent,
        1 => StatusForm::Code(0),
        2 => StatusForm::Code(pick(random, &[17, 99, -1, i32::MIN])),
        _ => StatusForm::Code(pick(random, &CODES[1..]) as i32),
    }
}

fn content(random: &mut SplitMix64) -> ContentLie {
    let bytes = pick(random, &[1, 2, 100, 3_000, u16::MAX]);
    match random.below(12) {
        0 => ContentLie::Clear,
        1 => ContentLie::Cut(bytes),
        2 => ContentLie::Longer(bytes),
        3 => ContentLie::Flip(u16::try_from(random.below(1 << 16)).unwrap_or(0)),
        4 => ContentLie::Other,
        5 => ContentLie::Twice,
        6 => ContentLie::FromStart,
        7 => ContentLie::ToEnd,
        _ => ContentLie::Packed(packed(random)),
    }
}

fn packed(random: &mut SplitMix64) -> PackedLie {
    match random.below(10) {
        0 => PackedLie::Plain,
        1 => PackedLie::Packed,
        2 => PackedLie::Cut(pick(random, &[1, 3, 4, 100])),
        3 => PackedLie::Flip(u16::try_from(random.below(64)).unwrap_or(0)),
        4 => PackedLie::Longer(pick(random, &[1, 4, 50])),
        5 => PackedLie::Window(pick(random, &[10, 20, 25, 26, 27, 31, 41])),
        6 => PackedLie::Size(pick(random, &SIZES)),
        7 => PackedLie::Halves,
        8 => PackedLie::Skippable,
        _ => PackedLie::Bomb(pick(random, &[1, 64, 255])),
    }
}

fn committed(random: &mut SplitMix64) -> CommittedForm {
    match random.below(3) {
        0 => CommittedForm::Arrived(pick(random, &SIZES)),
        _ => CommittedForm::Blob(pick(random, &SIZES)),
    }
}

fn capabilities(random: &mut SplitMix64) -> CapabilitiesLie {
    let limits = [-1, 0, 1, 5, 1_000, 1 << 20, i64::MAX];
    match random.below(10) {
        0 => CapabilitiesLie::NoCache,
        1 => CapabilitiesLie::BatchBytes(pick(random, &limits)),
        2 => CapabilitiesLie::BlobBytes(pick(random, &limits)),
        3 => CapabilitiesLie::Split(random.below(2) == 0),
        4 => CapabilitiesLie::Splice(random.below(2) == 0),
        5 => CapabilitiesLie::Zstd(random.below(2) == 0, random.below(2) == 0),
        6 => CapabilitiesLie::Function(pick(random, &[0, 1, 3, 9, 99])),
        7 => CapabilitiesLie::AverageBytes(pick(random, &[0, 1, 1_024, 4_096, 1 << 40])),
        8 => CapabilitiesLie::NoChunking,
        _ => CapabilitiesLie::Versions(pick(random, &[0, 1, 2, 3])),
    }
}

/// Mostly one of the first few; later ones are rare.
fn position(random: &mut SplitMix64) -> u8 {
    let bound = pick(random, &[1, 4, 4, 256]);
    u8::try_from(random.below(bound)).unwrap_or(0)
}

fn pick<T: Copy>(random: &mut SplitMix64, among: &[T]) -> T {
    let count = u64::try_from(among.len()).unwrap_or(u64::MAX);
    // Nothing is drawn from an empty list.
    among[usize::try_from(random.below(count)).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_lies_and_another_others() {
        let drawn = |seed| -> Vec<HostileCall> {
            let mut random = SplitMix64::new(seed);
            Rpc::ALL.map(|rpc| HostileCall::draw(rpc, &mut random)).into()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn every_kind_of_lie_is_drawn() {
        let mut kinds = std::collections::HashSet::new();
        let mut random = SplitMix64::new(3);
        for _ in 0..2_000 {
            for rpc in Rpc::ALL {
                kinds.extend(HostileCall::draw(rpc, &mut random).lies.iter().map(kind));
            }
        }
        // Every variant of every type of lies in `lie`.
        assert_eq!(kinds.len(), 79, "{kinds:#?}");
    }

    /// The names of a lie and of its first member that has a name.
    fn kind(lie: &Lie) -> String {
        let text = format!("{lie:?}");
        let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
        let numbered = matches!(lie, Lie::Refuse(_) | Lie::Complete(_) | Lie::Chunking(_));
        words.take(if numbered { 1 } else { 2 }).collect::<Vec<_>>().join(" ")
    }
}
