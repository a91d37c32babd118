//! [`Lie`]: one difference between a response and the honest one.
//!
//! Positions wrap around: position 7 of a list of five is the third member. A lie without a target,
//! such as one about an exchange in a list of one digest, may change nothing.

use super::super::status::Code;

/// A part of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The head.
    Head,
    /// The message at this position.
    Message(u8),
    /// The trailers.
    End,
}

/// See the module docs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lie {
    /// A part of the response is late by this many milliseconds.
    Late(Part, u64),
    /// The response's head is wrong.
    Head(HeadLie),
    /// The messages or their framing are wrong.
    Message(MessageLie),
    /// The end is wrong.
    End(EndLie),
    /// `FindMissingBlobs`, `SplitBlob`, `SpliceBlob`: the digests are wrong.
    Digests(DigestsLie),
    /// `SplitBlob`: names this chunking function.
    Chunking(i32),
    /// `BatchReadBlobs`, `BatchUpdateBlobs`: the entries are wrong.
    Entries(EntriesLie),
    /// `Read`, and one entry of `BatchReadBlobs`: the bytes are wrong.
    Content(u8, ContentLie),
    /// `Write`, `QueryWriteStatus`: `committed_size` is this.
    Committed(CommittedForm),
    /// `QueryWriteStatus`: `complete` is this.
    Complete(bool),
    /// `Write`: the response is sent after the first message, and nothing is stored.
    Early,
    /// `Write`, `BatchUpdateBlobs`, `SpliceBlob`: nothing is stored.
    Forget,
    /// The call's blobs are evicted when the response is sent.
    Evict,
    /// No work is done, and the call ends with this code.
    Refuse(Code),
    /// `GetCapabilities` is wrong.
    Capabilities(CapabilitiesLie),
}

/// How the head is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadLie {
    /// Another HTTP status.
    Http(u16),
    /// Another content type, or none.
    ContentType(Option<&'static str>),
    /// `grpc-encoding`: messages are said to be compressed by this.
    Encoding(&'static str),
    /// `grpc-status` is already in the head.
    Status(i32),
    /// `content-length` is this.
    Length(u64),
}

/// How the messages are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageLie {
    /// This one is absent.
    Omit(u8),
    /// This one comes twice.
    Repeat(u8),
    /// These two are exchanged.
    Swap(u8, u8),
    /// An empty message precedes this one.
    Empty(u8),
    /// A message that is not protobuf precedes this one.
    Garbage(u8),
    /// The flag before this one.
    Flag(u8, u8),
    /// The length before this one is wrong by this number.
    Length(u8, i32),
    /// This one lacks this many bytes at its end, and its length matches.
    Cut(u8, u8),
    /// These bytes follow this one, within its length, this many times.
    Append(u8, &'static [u8], u32),
    /// After the last, a message begins, but only this many bytes of it are sent.
    Dangling(u8),
    /// Each `DATA` has only this many bytes.
    Data(u16),
    /// Each message of a `Read` has only this many bytes of the blob.
    Pieces(u16),
}

/// How the end is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndLie {
    /// This `grpc-status`.
    Status(i32),
    /// A `grpc-status` that is no number.
    Word(&'static str),
    /// Trailers without a status.
    NoStatus,
    /// No trailers: the stream just ends.
    NoTrailers,
    /// Two statuses.
    Twice(i32, i32),
    /// This `grpc-message`.
    Message(&'static str),
    /// These `grpc-status-details-bin`.
    Details(&'static str),
    /// `UNAVAILABLE` with a retry delay of this many milliseconds.
    RetryAfter(u64),
    /// `RST_STREAM` with this code.
    Reset(u32),
    /// The connection is closed.
    Close,
    /// The connection accepts no more calls.
    GoAway,
    /// The connection goes silent and stays open.
    Silence,
    /// The end never comes.
    Never,
}

/// A size that is stated in place of the true one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SizeForm {
    Exact,
    Zero,
    One,
    OneLess,
    OneMore,
    Half,
    Twice,
    MinusOne,
    Min,
    Max,
}

impl SizeForm {
    pub(crate) fn of(self, exact: i64) -> i64 {
        match self {
            Self::Exact => exact,
            Self::Zero => 0,
            Self::One => 1,
            Self::OneLess => exact.saturating_sub(1),
            Self::OneMore => exact.saturating_add(1),
            Self::Half => exact / 2,
            Self::Twice => exact.saturating_mul(2),
            Self::MinusOne => -1,
            Self::Min => i64::MIN,
            Self::Max => i64::MAX,
        }
    }
}

/// What a `committed_size` is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommittedForm {
    /// The blob's length.
    Blob(SizeForm),
    /// The received bytes, compressed if they are sent compressed.
    Arrived(SizeForm),
}

/// A digest in place of the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestForm {
    /// Of bytes that the call is not about.
    Foreign,
    /// Without hash and size.
    Unset,
    /// Of no bytes.
    OfNothing,
    /// The blob's that the call is about.
    OfBlob,
    /// With another size.
    Size(SizeForm),
    /// With another hash.
    Hash(HashForm),
}

/// A hash in place of the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum HashForm {
    Absent,
    Short,
    Long,
    UpperCase,
    Path,
    OneDigit,
}

/// How a list of digests is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestsLie {
    /// There are none.
    Clear,
    /// All requested digests.
    Asked,
    /// This one is absent.
    Omit(u8),
    /// This one is repeated this many times more.
    Repeat(u8, u16),
    /// These two are exchanged.
    Swap(u8, u8),
    /// In the opposite order.
    Reverse,
    /// One more precedes this one.
    Insert(u8, DigestForm),
    /// This one is another.
    Alter(u8, DigestForm),
    /// This one is a byte longer, and the next a byte shorter.
    Shift(u8),
}

/// A status within a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusForm {
    /// It is not set, which means success.
    Absent,
    /// This code, known or not.
    Code(i32),
}

/// How the entries of a batch are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntriesLie {
    /// There are none.
    Clear,
    /// This one is absent.
    Omit(u8),
    /// This one is repeated. The second has this status and precedes the first if the flag is set.
    Repeat(u8, StatusForm, bool),
    /// These two are exchanged. The protocol allows it.
    Swap(u8, u8),
    /// These two have each other's digest.
    Exchange(u8, u8),
    /// This one has another digest.
    Rename(u8, DigestForm),
    /// This one has no digest.
    Unname(u8),
    /// This one has this status.
    Status(u8, StatusForm),
    /// All have this status.
    Statuses(StatusForm),
    /// This one names this compressor.
    Compressor(u8, i32),
    /// This many empty entries follow.
    Blank(u16),
}

/// How bytes of a blob are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentLie {
    /// There are none.
    Clear,
    /// The last bytes are absent, this many.
    Cut(u16),
    /// This many more bytes follow.
    Longer(u16),
    /// One bit of this byte is flipped.
    Flip(u16),
    /// Other bytes of the same length.
    Other,
    /// All of them, and all of them again.
    Twice,
    /// From the blob's beginning, for any requested offset.
    FromStart,
    /// To the blob's end, for any requested limit.
    ToEnd,
    /// Their zstd frames are wrong, or they are compressed although they must not be.
    Packed(PackedLie),
}

/// How zstd's frames are wrong, or unusual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedLie {
    /// They are not compressed.
    Plain,
    /// They are compressed, requested or not.
    Packed,
    /// The frame's last bytes are absent.
    Cut(u8),
    /// This byte of the frame is another.
    Flip(u16),
    /// More bytes follow the frame.
    Longer(u8),
    /// The frame claims a window of 2 to this power.
    Window(u8),
    /// The frame claims this content size.
    Size(SizeForm),
    /// Two frames, each with a half. The format allows it.
    Halves,
    /// A skippable frame precedes. The format allows it.
    Skippable,
    /// This many MiB of zeros follow, compressed to a few bytes.
    Bomb(u8),
}

/// How capabilities are wrong, or unusual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilitiesLie {
    /// There is no cache.
    NoCache,
    /// Batches have this size.
    BatchBytes(i64),
    /// Blobs have this size.
    BlobBytes(i64),
    /// `SplitBlob` is available, or not.
    Split(bool),
    /// `SpliceBlob` is available, or not.
    Splice(bool),
    /// zstd is supported in streams and batches, or not.
    Zstd(bool, bool),
    /// Blobs are named by this function.
    Function(i32),
    /// Chunks have this average, and none is named where it is out of range.
    AverageBytes(u64),
    /// No chunking function is named.
    NoChunking,
    /// Versions from this one on.
    Versions(i32),
}
