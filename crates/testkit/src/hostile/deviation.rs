//! The deviations of a hostile server: one element of the grammar of a response is absent, changed
//! or contradictory.
//!
//! Each deviation changes a [`Draft`](super::draft::Draft) in one place; see `bend`. A response may
//! have several.

/// One deviation. Its `Debug` form is what failures print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deviation {
    /// Another status, without bytes of the blob.
    Status(u16),
    /// The same, with `Retry-After: 1`.
    Later(u16),
    Unsatisfied(Unsatisfied),
    /// The whole blob with 200, for any requested range.
    WholeFor200,
    /// The requested part, with 200 and no `Content-Range`.
    PartFor200,
    /// The whole blob with 206 and the `Content-Range` of all of it.
    WholeFor206,
    /// A range that starts this many bytes after (or before) the requested one, labelled so.
    Moved(i64),
    /// At most this many of the requested bytes, labelled so.
    Shorter(u64),
    /// This many bytes more than requested, labelled so.
    Longer(u64),
    Multipart,
    ContentRange(RangeLie),
    Length(LengthLie),
    Framing(FramingLie),
    Encoding(EncodingLie),
    Tag(TagLie),
    Date(DateLie),
    Cloud(CloudLie),
    Sums(SumLie),
    Body(BodyLie),
    End(EndLie),
    Opening(OpeningLie),
    Redirect(RedirectLie),
}

/// 416 with this in `Content-Range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsatisfied {
    Bare,
    Empty,
    Right,
    OtherLength,
}

/// `Content-Range` does not match the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangeLie {
    Moved(i64),
    LongerEnd(u64),
    ShorterEnd(u64),
    Missing,
    Malformed,
    OtherUnit,
    Twice,
    NoTotal,
    OtherTotal(i64),
}

/// `Content-Length` does not match the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LengthLie {
    Absent,
    Less(u64),
    More(u64),
    TwiceTheSame,
    TwiceContradictory,
    List,
    Malformed,
    Negative,
    Huge,
}

/// How the body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FramingLie {
    Chunked,
    UntilClose,
    /// Chunked, with the right `Content-Length` besides.
    Both,
    /// Chunked, with this much less in `Content-Length`.
    BothLess(u64),
    /// Chunked, with this much more in `Content-Length`.
    BothMore(u64),
    /// `Content-Length`, and this in `Transfer-Encoding`.
    Coding(&'static str),
    /// Chunked, and this in `Transfer-Encoding`.
    ChunkedAs(&'static str),
    OldHttp,
    OldHttpChunked,
    /// Says `chunked` and is not.
    NotChunked,
    BadChunkSize,
    NoLastChunk,
    Trailer,
}

/// `Content-Encoding`; the bytes stay what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncodingLie {
    Gzip,
    Identity,
    Brotli,
    /// The store says that the blob is stored compressed and sent decompressed.
    Decompressed,
}

/// `ETag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagLie {
    Absent,
    Weak,
    /// That of the other content.
    Other,
    /// One that no other response has.
    New,
    Unquoted,
    Empty,
    TwiceTheSame,
    TwiceContradictory,
}

/// `Last-Modified` and `Date`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DateLie {
    Absent,
    /// That of the response.
    Fresh,
    /// One second before `Date`. Both have whole seconds, so the true difference may be shorter.
    AlmostFresh,
    /// After `Date`.
    Future,
    /// That of the other content.
    Other,
    Malformed,
    /// No `Date`.
    NoClock,
    /// No entity tag, only a date.
    Alone,
}

/// Fields that only clouds send; here plain servers send them, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudLie {
    NoGeneration,
    OtherGeneration,
    OddGeneration,
    TwoGenerations,
    NoVersionId,
    OtherVersionId,
    NullVersionId,
    /// `x-goog-stored-content-length` is this much more (or less).
    StoredLength(i64),
}

/// Checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SumLie {
    Absent,
    /// Right ones, although the manners have none.
    Right,
    Wrong,
    /// Those of the other content.
    Other,
    Malformed,
    /// The right one, then another of the same algorithm.
    RightThenWrong,
    WrongThenRight,
    /// A member that is malformed, then right ones.
    BadMember,
    /// Of parts, not of bytes.
    Composite,
}

/// The body; its framing is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyLie {
    /// One flipped bit, at this offset of the blob or in the first byte.
    Flip(u64),
    /// The bytes of the other content.
    Other,
    /// The first half of this content, the second of the other.
    Mixed,
    Zeros,
    ShortBy(u64),
    LongBy(u64),
    Empty,
    /// The whole blob, under the head of a part.
    Whole,
    /// The right length, but this many bytes further on.
    MovedBy(u64),
}

/// A body that ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndLie {
    CutAfter(u64),
    ResetAfter(u64),
    SilentAfter(u64),
    /// All of it, then a reset.
    ResetAtEnd,
}

/// Bytes before the head or in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpeningLie {
    Nothing,
    Reset,
    Garbage,
    HalfAHead,
    Interim(u16),
}

/// Redirects to another location of the blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectLie {
    /// At a mirror with its own entity tags, by this status.
    Mirror(u16, u16),
    /// At the same address.
    Loop,
    NoLocation,
    BadLocation,
    Ftp,
    /// At an `https` address of the same server.
    Secure,
    /// At a plain `http` address of the same server.
    Plain,
}

/// The responses that deviate. They are counted from 0, without redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    First,
    Nth(usize),
    From(usize),
    All,
    /// Responses to `HEAD`.
    Heads,
    /// Those of every run but the first.
    LaterRuns,
    /// Those whose range begins after the blob's first byte.
    LaterParts,
}

impl Deviation {
    /// The order in which deviations change a draft: first the choice of the response, then its
    /// head, last its form on the wire.
    pub(crate) fn stage(self) -> u8 {
        match self {
            Self::Status(_) | Self::Later(_) | Self::Unsatisfied(_) | Self::Redirect(_) => 0,
            Self::WholeFor200
            | Self::PartFor200
            | Self::WholeFor206
            | Self::Moved(_)
            | Self::Shorter(_)
            | Self::Longer(_)
            | Self::Multipart => 1,
            Self::ContentRange(_) => 2,
            Self::Tag(_) | Self::Date(_) | Self::Cloud(_) | Self::Sums(_) | Self::Encoding(_) => 3,
            Self::Body(_) => 4,
            Self::Framing(_) | Self::Length(_) => 5,
            Self::End(_) | Self::Opening(_) => 6,
        }
    }

    /// Whether the bytes, their version or their length may be wrong in a way that no response
    /// contradicts. If no deviation of a scenario does this, a success must be one of the contents.
    pub(crate) fn may_deceive(self) -> bool {
        match self {
            Self::PartFor200 | Self::Sums(_) | Self::Body(_) | Self::End(_) => true,
            Self::Unsatisfied(lie) => matches!(lie, Unsatisfied::Empty | Unsatisfied::OtherLength),
            Self::ContentRange(lie) => !matches!(lie, RangeLie::Missing | RangeLie::NoTotal),
            Self::Length(lie) => !matches!(lie, LengthLie::TwiceTheSame | LengthLie::List),
            Self::Framing(lie) => !matches!(
                lie,
                FramingLie::Chunked | FramingLie::Both | FramingLie::OldHttp | FramingLie::Trailer
            ),
            Self::Tag(lie) => matches!(lie, TagLie::Other | TagLie::TwiceContradictory),
            Self::Date(lie) => matches!(lie, DateLie::Other),
            Self::Cloud(lie) => !matches!(lie, CloudLie::NoGeneration | CloudLie::NoVersionId),
            Self::Status(status) => status == 200,
            Self::Later(_)
            | Self::WholeFor200
            | Self::WholeFor206
            | Self::Moved(_)
            | Self::Shorter(_)
            | Self::Longer(_)
            | Self::Multipart
            | Self::Encoding(_)
            | Self::Opening(_)
            | Self::Redirect(_) => false,
        }
    }
}
