//! All faults of one call.
//!
//! Faults are data: a [`ReapiScript`](super::ReapiScript) picks them, and the call performs them.

use super::{hostile::Lie, status::GrpcStatus};
use crate::gate::Gate;

/// One way to misbehave.
#[derive(Debug, Clone)]
pub enum ReapiFault {
    /// This many milliseconds later than otherwise.
    Delay(u64),
    /// The call waits until the gate opens.
    Hold(Gate),
    /// No work is done, and no response is ever sent.
    Lost,
    /// The work is done, and no response is ever sent.
    AnswerLost,
    /// No work is done, and this is the response.
    Fail(GrpcStatus),
    /// The work is done, and this is the response.
    FailAfter(GrpcStatus),
    /// `RST_STREAM` with this HTTP/2 error code, and nothing is done.
    Reset(u32),
    /// The connection is closed with all calls in flight on it, and no work is done.
    Close,
    /// GOAWAY: calls in flight on this connection finish, and it accepts no more.
    GoAway,
    /// The connection goes silent: calls in flight on it are dropped without a response, the server
    /// reads and writes no more, and the connection stays open. A firewall that has forgotten the
    /// connection has this effect.
    Silence,
    /// Blobs of these hashes are evicted before the call is processed.
    EvictBefore(Vec<String>),
    /// Blobs of these hashes are evicted after the response is built.
    EvictAfter(Vec<String>),
    /// Blobs of these hashes are evicted before the call is processed. `FindMissingBlobs` reports
    /// that they exist until they are put again.
    HauntBefore(Vec<String>),
    /// A `Read` or `Write` ends after this many bytes of data. The server keeps the bytes of a
    /// `Write` up to there. A reset or a closed connection may overtake bytes that were sent before
    /// it, so fewer may arrive.
    CutAfter {
        /// Bytes of data.
        bytes: u64,
        /// How it ends.
        cut: Cut,
    },
    /// A `Read` stops after this many bytes of data until the gate opens.
    HoldAfter {
        /// Bytes of data; a shorter `Read` never reaches the gate.
        bytes: u64,
        /// The gate that the test opens.
        gate: Gate,
    },
    /// `Read` and `BatchReadBlobs` flip the lowest bit of this byte, counted from the blob's start;
    /// a batch flips it in every blob that is long enough.
    FlipBit(u64),
    /// A `Read` sends this many zeros after the blob's end.
    Longer(u64),
    /// A false response of `SplitBlob`.
    Split(SplitLie),
    /// A false response of `FindMissingBlobs`.
    FindMissing(FindMissingLie),
    /// A false response of `BatchReadBlobs` and `BatchUpdateBlobs`.
    Batch(BatchLie),
    /// `Write`, `BatchUpdateBlobs` and `SpliceBlob` succeed and store nothing.
    Forget,
    /// `Write` and `QueryWriteStatus` say that this many bytes were committed.
    Committed(i64),
    /// `Write` says after the first message that this many bytes were committed, and stores
    /// nothing.
    AnswerFirst(i64),
    /// `QueryWriteStatus` says that the upload is complete, regardless of the received bytes.
    Complete,
    /// The response is built as a whole, and this lie changes it. The faults that interrupt a
    /// `Read` at a byte then do not apply: lies end the response.
    Hostile(Lie),
}

/// How a stream ends before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// As if it were complete.
    End,
    /// With this status.
    Status(GrpcStatus),
    /// With `RST_STREAM` and this HTTP/2 error code.
    Reset(u32),
    /// With the connection, and all that is in flight on it.
    Close,
}

/// How the response of `SplitBlob` is wrong or unexpected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitLie {
    /// There are no chunks.
    Empty,
    /// The first chunk has no bytes; the rest adds up to the blob.
    ZeroLength,
    /// The first chunk has a negative length; the rest adds up to the blob.
    NegativeLength,
    /// A single chunk, longer than the function allows. It exists and adds up.
    Oversized,
    /// The last chunk is missing.
    SumShort,
    /// The last chunk is there twice.
    SumLong,
    /// Two chunks of 2^63 - 1 bytes each.
    Overflow,
    /// Only the first chunk, repeated this many times.
    Repeated(usize),
    /// The first and the last chunk are exchanged: everything adds up, and the blob differs.
    Exchanged,
    /// Cut by the other function, and says so. The protocol allows it.
    OtherFunction,
    /// Cut as asked, and names this function, known or not.
    NamesFunction(i32),
    /// The first hash is too short.
    ShortHash,
    /// The first hash is in upper case.
    UpperCaseHash,
    /// The first hash contains `../`, to leave the folder.
    PathHash,
}

/// How the response of `FindMissingBlobs` is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindMissingLie {
    /// All requested blobs are missing.
    Everything,
    /// Nothing is missing.
    Nothing,
    /// A blob that was not requested is missing, in addition to the really missing ones.
    Foreign,
    /// Missing blobs are named twice.
    Twice,
}

/// How the response of a batch is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchLie {
    /// The last entry is absent.
    Omitted,
    /// The entries are in reverse order. The protocol allows it.
    Reversed,
    /// The first entry is for a blob that was not requested.
    Foreign,
    /// The first entry is repeated.
    Twice,
    /// The first blob's data ends one byte early.
    ShortByOne,
    /// The first entry has this status, and no work is done for it.
    FailFirst(GrpcStatus),
    /// The first blob is answered for twice: well, and with this status.
    Disputed {
        /// What the other answer says.
        status: GrpcStatus,
        /// It comes after the good one.
        is_last: bool,
    },
}
