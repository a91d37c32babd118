//! All faults of one response.
//!
//! Faults are data: a [`Script`](crate::Script) picks them, `treatment` turns them into actions on
//! the wire, and the log names them.

use crate::{blob::Blob, gate::Gate};

/// One way to misbehave.
///
/// Byte counts are of the body, after the head. "FIN" is an orderly end of the TCP stream; under
/// TLS it comes without `close_notify`, as from a cut line.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The response is this many milliseconds late. Later rules still apply.
    Latency(u64),
    /// FIN after this many bytes.
    CutAfter(u64),
    /// RST once this many bytes were written; the kernel may discard those not yet delivered, so
    /// this many or fewer arrive.
    ResetAfter(u64),
    /// FIN without any response.
    CloseBeforeFirstByte,
    /// The head promises all requested bytes; one byte is sent, then FIN.
    OneByteBody,
    /// The head promises all requested bytes; one byte less is sent, then FIN.
    BodyShortByOne,
    /// A consistent response, `Content-Length` and `Content-Range` included, with at most this many
    /// of the requested bytes. A request without a range is not affected.
    ShortRange(u64),
    /// This status, and nothing of the blob.
    Status {
        /// Any status from 200 to 599.
        code: u16,
        /// Value of `Retry-After`: seconds or a date.
        retry_after: Option<String>,
        /// The body; if empty, the flavour's own error document.
        body: String,
    },
    /// An error of the flavour: this status, with this code in its error document.
    Coded {
        /// Any status from 300 to 599.
        status: u16,
        /// Such as `ExpiredToken`.
        code: &'static str,
    },
    /// A partial response with the right body and a wrong `Content-Range`.
    WrongContentRange(ContentRangeLie),
    /// The lowest bit of the byte at this offset of the blob is flipped, whenever it is sent.
    FlipBit(u64),
    /// The blob at the request's path is replaced before this request is processed. Later rules
    /// still apply.
    ChangedVersion(Blob),
    /// After this many bytes the blob is replaced, and the rest of the same body has the new
    /// content. Nothing in the head shows this.
    ChangeDuringBody {
        /// Bytes of the old content.
        after: u64,
        /// The new content.
        blob: Blob,
    },
    /// 416 for any request.
    NotSatisfiable,
    /// The range is ignored: 200 and the whole blob.
    NoRangeSupport,
    /// Silence after this many bytes, until the client or the server closes.
    Stall(u64),
    /// Silence after this many bytes until the gate opens; then the rest, unchanged. A shorter body
    /// never reaches the gate.
    HoldAfter {
        /// Bytes before the hold; 0 holds after the head.
        bytes: u64,
        /// The gate that the test opens.
        gate: Gate,
    },
    /// The response states a blob that is this many bytes longer (or shorter, if negative) than the
    /// real one. Bytes that do not exist are promised but not sent: FIN replaces them.
    LieAboutLength(i64),
    /// 302 to this location.
    Redirect(String),
    /// 302 to this location, with the SHA-256 of the file there in `X-Linked-Etag`, as Hugging Face
    /// sends it.
    LinkedRedirect {
        /// The location.
        location: String,
        /// The value of `X-Linked-Etag`.
        etag: String,
    },
    /// 307 to this location, as S3 sends it for a bucket that was just created.
    TemporaryRedirect(String),
    /// The request's body is read and has no effect; then comes this refusal: [`Fault::Status`] or
    /// [`Fault::Coded`]. On their own, these answer a write before its body is read. The refusal of
    /// a read is the same in both cases.
    AfterBody(Box<Fault>),
    /// The request has its effect; then comes this refusal instead of its answer:
    /// [`Fault::Status`] or [`Fault::Coded`].
    AfterEffect(Box<Fault>),
    /// The request has its effect; then RST instead of its answer.
    LoseResponse,
    /// The request waits at the gate before its body is read. A client that closed
    /// before it opens does not cancel a request without a body.
    HoldRequest(Gate),
    /// The request has its effect; then its answer waits at the gate.
    HoldAnswer(Gate),
    /// RST after this many bytes of the request's body. The request has no effect, except that a
    /// resumable session keeps what it received. A shorter body is not cut. After 0 bytes, a request
    /// without a body is cut, too.
    CutRequestAfter(u64),
    /// The server reads no more after this many bytes of the request's body, until the client or
    /// the server closes. The request has no effect. A shorter body does not stall.
    StallRequestAfter(u64),
    /// The lowest bit of the byte at this offset of the request's body is flipped before the body
    /// is verified.
    FlipRequestByte(u64),
    /// 200, white space, and an error document in the body, as S3 ends a long Complete or copy.
    ErrorInBody {
        /// Such as `InternalError`.
        code: &'static str,
        /// Whether the request has its effect nevertheless.
        has_effect: bool,
    },
    /// The checksums in the response have one bit wrong.
    LieChecksum,
    /// The list of an upload's parts is wrong about this part.
    WrongPartsList {
        /// The number of the part.
        part: u64,
        /// What is wrong.
        lie: PartLie,
    },
    /// Bytes that are not HTTP, then FIN.
    GarbageHead,
    /// Half a head, then FIN.
    TruncatedHead,
    /// The body is sent in small writes with pauses.
    SlowDrip {
        /// Bytes of each write; 0 counts as 1.
        bytes: u64,
        /// Milliseconds between writes.
        interval_ms: u64,
    },
}

/// How a list of parts is wrong about a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartLie {
    /// The size is one too high.
    Size,
    /// The `ETag` has one bit wrong.
    Etag,
    /// The checksum has one bit wrong.
    Checksum,
    /// The part is absent.
    Missing,
}

/// How a `Content-Range` is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRangeLie {
    /// First and last are one too high.
    Shifted,
    /// Last is one too high.
    Longer,
    /// The total is one too high.
    OtherTotal,
    /// The total is `*`. RFC 9110 allows it, but a client cannot plan with it.
    UnknownTotal,
    /// It cannot be parsed.
    Malformed,
    /// The field is absent.
    Missing,
}

impl Fault {
    /// A bare status with the flavour's error document.
    pub fn status(code: u16) -> Self {
        Self::Status { code, retry_after: None, body: String::new() }
    }

    /// A status with `Retry-After` in seconds or as a date.
    pub fn status_retry_after(code: u16, retry_after: impl Into<String>) -> Self {
        Self::Status { code, retry_after: Some(retry_after.into()), body: String::new() }
    }

    /// Whether the search for a rule continues after this fault was picked.
    pub(crate) fn lets_others_apply(&self) -> bool {
        matches!(self, Self::Latency(_) | Self::ChangedVersion(_))
    }
}
