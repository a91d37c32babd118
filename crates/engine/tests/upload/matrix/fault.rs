//! The faults, and the errors that each may end in.

use tidegate::ErrorKind::{
    self, AlreadyExists, Changed, Integrity, Invalid, NoAccess, NotFound, Remote, Storage,
    Unsupported,
};
use tidegate_testkit::{Fault, Flavour, Gate};

/// A fault of one request.
#[derive(Debug)]
pub(crate) struct FaultRow {
    pub(crate) name: &'static str,
    /// The fault of a request with a body of this many bytes.
    pub(crate) fault: fn(Flavour, u64) -> Fault,
    /// Whether the request has its effect nevertheless.
    pub(crate) has_effect: bool,
    /// Whether the client has to give up waiting.
    pub(crate) hangs: bool,
    /// The kinds of error that an upload may end in if the fault comes once. None: it succeeds.
    pub(crate) kinds: &'static [ErrorKind],
}

impl FaultRow {
    /// Whether a remote can send it.
    pub(crate) fn fits(&self, flavour: Flavour) -> bool {
        let is_xml = matches!(flavour, Flavour::S3 | Flavour::Gcs);
        is_xml || !self.name.starts_with("200 with an error")
    }

    /// Whether the remote claims not to know an upload or a blob that is there.
    pub(crate) fn denies(&self) -> bool {
        self.name == "404"
    }
}

const fn row(name: &'static str, fault: fn(Flavour, u64) -> Fault) -> FaultRow {
    FaultRow { name, fault, has_effect: false, hangs: false, kinds: &[] }
}

const fn effective(name: &'static str, fault: fn(Flavour, u64) -> Fault) -> FaultRow {
    FaultRow { has_effect: true, ..row(name, fault) }
}

const fn refusal(
    name: &'static str,
    fault: fn(Flavour, u64) -> Fault,
    kinds: &'static [ErrorKind],
) -> FaultRow {
    FaultRow { kinds, ..row(name, fault) }
}

pub(crate) const ROWS: &[FaultRow] = &[
    row("cut before it is read", |_, _| Fault::CutRequestAfter(0)),
    row("cut in the body", |_, len| Fault::CutRequestAfter(len / 2)),
    row("cut before the last byte", |_, len| Fault::CutRequestAfter(len.saturating_sub(1))),
    effective("lost, reset", |_, _| Fault::LoseResponse),
    effective("lost, closed", |_, _| Fault::CloseBeforeFirstByte),
    effective("half a head", |_, _| Fault::TruncatedHead),
    effective("garbage", |_, _| Fault::GarbageHead),
    effective("a response cut in its body", |_, _| Fault::CutAfter(3)),
    effective("a response short by a byte", |_, _| Fault::BodyShortByOne),
    row("429", |_, _| Fault::status_retry_after(429, "0")),
    row("503", |_, _| Fault::Coded { status: 503, code: "SlowDown" }),
    row("500", |_, _| Fault::status(500)),
    row("502 after the body", |_, _| Fault::AfterBody(Box::new(Fault::status(502)))),
    effective("504 after the effect", |_, _| Fault::AfterEffect(Box::new(Fault::status(504)))),
    FaultRow {
        hangs: true,
        ..row("hangs before it is read", |_, _| Fault::HoldRequest(Gate::new()))
    },
    FaultRow {
        hangs: true,
        ..effective("hangs after the effect", |_, _| Fault::HoldAnswer(Gate::new()))
    },
    row("200 with an error", |_, _| Fault::ErrorInBody {
        code: "InternalError",
        has_effect: false,
    }),
    effective("200 with an error after the effect", |_, _| Fault::ErrorInBody {
        code: "InternalError",
        has_effect: true,
    }),
    refusal("a wrong checksum", wrong_checksum, &[Integrity, Invalid, Remote]),
    refusal("403", |_, _| Fault::Coded { status: 403, code: "AccessDenied" }, &[NoAccess]),
    refusal("404", unknown_upload, &[NotFound, Integrity]),
    refusal("409", raced, &[Remote, NotFound, AlreadyExists]),
    refusal("412", |_, _| Fault::status(412), &[Changed, AlreadyExists, Remote]),
    refusal("413", too_long, &[Invalid, Remote]),
    refusal("507", |_, _| Fault::status(507), &[Storage, Remote]),
    refusal("a wrong redirect", |_, _| Fault::status(302), &[Unsupported]),
    refusal("an unknown status", |_, _| Fault::status(418), &[Remote]),
];

fn wrong_checksum(flavour: Flavour, _len: u64) -> Fault {
    match flavour {
        Flavour::S3 | Flavour::Gcs => Fault::Coded { status: 400, code: "BadDigest" },
        Flavour::Azure => Fault::Coded { status: 400, code: "Md5Mismatch" },
        Flavour::Http => Fault::status(400),
    }
}

fn unknown_upload(flavour: Flavour, _len: u64) -> Fault {
    let code = if flavour == Flavour::Azure { "BlobNotFound" } else { "NoSuchUpload" };
    Fault::Coded { status: 404, code }
}

fn raced(flavour: Flavour, _len: u64) -> Fault {
    let code = match flavour {
        Flavour::Azure => "BlobAlreadyExists",
        _ => "ConditionalRequestConflict",
    };
    Fault::Coded { status: 409, code }
}

fn too_long(flavour: Flavour, _len: u64) -> Fault {
    match flavour {
        Flavour::S3 | Flavour::Gcs => Fault::Coded { status: 400, code: "EntityTooLarge" },
        _ => Fault::status(413),
    }
}
