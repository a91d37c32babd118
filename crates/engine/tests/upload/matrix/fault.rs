//! The faults, and the errors that each may end in.

use tidegate::ErrorKind::{
    self, AlreadyExists, Changed, Integrity, Invalid, NoAccess, NotFound, Remote, Storage,
    Unsupported,
};
use tidegate_testkit::{Fault, Flavour, Gate};

/// The request that has the fault.
#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) flavour: Flavour,
    pub(crate) body_bytes: u64,
    /// Where it waits, if it hangs.
    pub(crate) gate: Gate,
}

/// A fault of one request.
#[derive(Debug)]
pub(crate) struct FaultRow {
    pub(crate) name: &'static str,
    pub(crate) fault: fn(&Faulty) -> Fault,
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

const fn row(name: &'static str, fault: fn(&Faulty) -> Fault) -> FaultRow {
    FaultRow { name, fault, has_effect: false, hangs: false, kinds: &[] }
}

const fn effective(name: &'static str, fault: fn(&Faulty) -> Fault) -> FaultRow {
    FaultRow { has_effect: true, ..row(name, fault) }
}

const fn refusal(
    name: &'static str,
    fault: fn(&Faulty) -> Fault,
    kinds: &'static [ErrorKind],
) -> FaultRow {
    FaultRow { kinds, ..row(name, fault) }
}

pub(crate) const ROWS: &[FaultRow] = &[
    row("cut before it is read", |_| Fault::CutRequestAfter(0)),
    row("cut in the body", |to| Fault::CutRequestAfter(to.body_bytes / 2)),
    row("cut before the last byte", |to| Fault::CutRequestAfter(to.body_bytes.saturating_sub(1))),
    effective("lost, reset", |_| Fault::LoseResponse),
    effective("lost, closed", |_| Fault::CloseBeforeFirstByte),
    effective("half a head", |_| Fault::TruncatedHead),
    effective("garbage", |_| Fault::GarbageHead),
    effective("a response cut in its body", |_| Fault::CutAfter(3)),
    effective("a response short by a byte", |_| Fault::BodyShortByOne),
    row("429", |_| Fault::status_retry_after(429, "0")),
    row("503", |_| Fault::Coded { status: 503, code: "SlowDown" }),
    row("500", |_| Fault::status(500)),
    row("502 after the body", |_| Fault::AfterBody(Box::new(Fault::status(502)))),
    effective("504 after the effect", |_| Fault::AfterEffect(Box::new(Fault::status(504)))),
    FaultRow {
        hangs: true,
        ..row("hangs before it is read", |to| Fault::HoldRequest(to.gate.clone()))
    },
    FaultRow {
        hangs: true,
        ..effective("hangs after the effect", |to| Fault::HoldAnswer(to.gate.clone()))
    },
    row("200 with an error", |_| Fault::ErrorInBody { code: "InternalError", has_effect: false }),
    effective("200 with an error after the effect", |_| Fault::ErrorInBody {
        code: "InternalError",
        has_effect: true,
    }),
    refusal("a wrong checksum", wrong_checksum, &[Integrity, Invalid, Remote]),
    refusal("403", |_| Fault::Coded { status: 403, code: "AccessDenied" }, &[NoAccess]),
    refusal("404", unknown_upload, &[NotFound, Integrity]),
    refusal("409", raced, &[Remote, NotFound, AlreadyExists]),
    refusal("412", |_| Fault::status(412), &[Changed, AlreadyExists, Remote]),
    refusal("413", too_long, &[Invalid, Remote]),
    refusal("507", |_| Fault::status(507), &[Storage, Remote]),
    refusal("a wrong redirect", |_| Fault::status(302), &[Unsupported]),
    refusal("an unknown status", |_| Fault::status(418), &[Remote]),
];

fn wrong_checksum(to: &Faulty) -> Fault {
    match to.flavour {
        Flavour::S3 | Flavour::Gcs => Fault::Coded { status: 400, code: "BadDigest" },
        Flavour::Azure => Fault::Coded { status: 400, code: "Md5Mismatch" },
        Flavour::Http => Fault::status(400),
    }
}

fn unknown_upload(to: &Faulty) -> Fault {
    let code = if to.flavour == Flavour::Azure { "BlobNotFound" } else { "NoSuchUpload" };
    Fault::Coded { status: 404, code }
}

fn raced(to: &Faulty) -> Fault {
    let code = match to.flavour {
        Flavour::Azure => "BlobAlreadyExists",
        _ => "ConditionalRequestConflict",
    };
    Fault::Coded { status: 409, code }
}

fn too_long(to: &Faulty) -> Fault {
    match to.flavour {
        Flavour::S3 | Flavour::Gcs => Fault::Coded { status: 400, code: "EntityTooLarge" },
        _ => Fault::status(413),
    }
}
