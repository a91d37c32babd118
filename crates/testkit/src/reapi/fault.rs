//! Everything that can go wrong with one call.
//!
//! Faults are data: a [`ReapiScript`](super::ReapiScript) picks them, and the call does them.

use super::{hostile::Lie, status::GrpcStatus};
use crate::gate::Gate;

/// One way to misbehave.
#[derive(Debug, Clone)]
pub enum ReapiFault {
    /// This many milliseconds later than otherwise.
    Delay(u64),
    /// Nothing is done before the gate opens.
    Hold(Gate),
    /// Nothing is done, and no answer ever comes.
    Lost,
    /// All is done, and no answer ever comes.
    AnswerLost,
    /// Nothing is done, and this is the answer.
    Fail(GrpcStatus),
    /// All is done, and this is the answer.
    FailAfter(GrpcStatus),
    /// `RST_STREAM` with this HTTP/2 error code, and nothing is done.
    Reset(u32),
    /// The connection is closed, with all that is in flight on it, and nothing is done.
    Close,
    /// GOAWAY: calls in flight on this connection are answered, and it takes no more.
    GoAway,
    /// The connection goes silent: what is in flight on it is dropped without a word, nothing more is
    /// read from it or written to it, and it stays open. As when a firewall between has forgotten it.
    Silence,
    /// Blobs of these hashes are evicted before the call is looked at.
    EvictBefore(Vec<String>),
    /// Blobs of these hashes are evicted once the answer is made.
    EvictAfter(Vec<String>),
    /// Blobs of these hashes are evicted before the call is looked at, and `FindMissingBlobs` says
    /// that they are there until they are put again.
    HauntBefore(Vec<String>),
    /// A `Read` or `Write` ends after this many bytes of data. What a `Write` has brought by then
    /// is kept. Resets and closed connections may overtake bytes that were sent before them, so
    /// that fewer arrive.
    CutAfter {
        /// Bytes of data.
        bytes: u64,
        /// How it ends.
        cut: Cut,
    },
    /// A `Read` stops after this many bytes of data until the gate opens.
    HoldAfter {
        /// Bytes of data; a `Read` that has fewer never comes to the gate.
        bytes: u64,
        /// What the test opens.
        gate: Gate,
    },
    /// The lowest bit of this byte is flipped in what `Read` and `BatchReadBlobs` give, counted
    /// from the blob's beginning; in a batch, in every blob that has such a byte.
    FlipBit(u64),
    /// A `Read` gives this many zeros after the blob's end.
    Longer(u64),
    /// What `SplitBlob` says instead.
    Split(SplitLie),
    /// What `FindMissingBlobs` says instead.
    FindMissing(FindMissingLie),
    /// What `BatchReadBlobs` and `BatchUpdateBlobs` say instead.
    Batch(BatchLie),
    /// `Write`, `BatchUpdateBlobs` and `SpliceBlob` succeed and store nothing.
    Forget,
    /// `Write` and `QueryWriteStatus` say that this many bytes were committed.
    Committed(i64),
    /// `Write` says that this many bytes were committed once the first message has come, and stores
    /// nothing.
    AnswerFirst(i64),
    /// `QueryWriteStatus` says that the upload is complete, whatever has come.
    Complete,
    /// The response is built as a whole, and this lie is told of it. The faults that interrupt a
    /// `Read` at a byte do not apply then: lies end it.
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

/// How the answer of `SplitBlob` is wrong, or unexpected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitLie {
    /// There are no chunks.
    Empty,
    /// The first chunk has no bytes; the rest adds up to the blob.
    ZeroLength,
    /// The first chunk has less than no bytes; the rest adds up to the blob.
    NegativeLength,
    /// One chunk longer than the function allows, in place of all; it is there, and adds up.
    Oversized,
    /// The last chunk is missing.
    SumShort,
    /// The last chunk is there twice.
    SumLong,
    /// Two chunks of 2^63 - 1 bytes each.
    Overflow,
    /// The first chunk this often, and nothing else.
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
    /// The first hash leaves the folder: `../`.
    PathHash,
}

/// How the answer of `FindMissingBlobs` is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindMissingLie {
    /// All that was asked for is missing.
    Everything,
    /// Nothing is missing.
    Nothing,
    /// A blob is missing that was not asked for, besides those that are.
    Foreign,
    /// What is missing is named twice.
    Twice,
}

/// How the answer of a batch is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchLie {
    /// The last answer is left out.
    Omitted,
    /// The answers come in the opposite order. The protocol allows it.
    Reversed,
    /// The first answer is for a blob that was not asked for.
    Foreign,
    /// The first answer is there twice.
    Twice,
    /// The first blob's data ends one byte early.
    ShortByOne,
    /// The first answer is this, and nothing is done for it.
    FailFirst(GrpcStatus),
    /// The first blob is answered for twice: well, and with this status.
    Disputed {
        /// What the other answer says.
        status: GrpcStatus,
        /// It comes after the good one.
        is_last: bool,
    },
}
