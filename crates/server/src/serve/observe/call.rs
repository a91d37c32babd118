//! [`CallName`]: which call a request is; [`CallNotes`]: what its handler says of it; [`MissReason`] and
//! [`RefusalReason`]: why it found nothing, or was refused.
//!
//! The set of names is closed, so the counters have a fixed size, whatever clients send.

use std::fmt;
use std::sync::Arc;

use http::Response;
use tonic::Status;

use crate::serve::grpc::Method;
use crate::store::Loss;

/// What a client looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Cas,
    Ac,
    Ccache,
    Gradle,
    Nx,
    Turborepo,
    WebDav,
    /// A blob of an origin.
    Origin,
}

impl ValueKind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Cas,
        Self::Ac,
        Self::Ccache,
        Self::Gradle,
        Self::Nx,
        Self::Turborepo,
        Self::WebDav,
        Self::Origin,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cas => "cas",
            Self::Ac => "ac",
            Self::Ccache => "ccache",
            Self::Gradle => "gradle",
            Self::Nx => "nx",
            Self::Turborepo => "turborepo",
            Self::WebDav => "webdav",
            Self::Origin => "origin",
        }
    }
}

/// What a request over HTTP does with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpAction {
    Read,
    Write,
    /// It asks for the state of a value, removes it, or does anything else.
    Other,
}

const ACTIONS: [HttpAction; 3] = [HttpAction::Read, HttpAction::Write, HttpAction::Other];

/// Which call a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallName {
    Grpc(Method),
    Http(ValueKind, HttpAction),
    /// What an operator asks of the server: metrics, status, health.
    Operator,
    /// A path or a call that the server does not have.
    Unknown,
}

impl CallName {
    /// How many there are.
    pub(crate) const COUNT: usize = Method::ALL.len() + ValueKind::ALL.len() * ACTIONS.len() + 2;

    /// A number below [`Self::COUNT`].
    pub(crate) const fn index(self) -> usize {
        let http = Method::ALL.len();
        let operator = http + ValueKind::ALL.len() * ACTIONS.len();
        match self {
            Self::Grpc(method) => method as usize,
            Self::Http(kind, action) => http + kind as usize * ACTIONS.len() + action as usize,
            Self::Operator => operator,
            Self::Unknown => operator + 1,
        }
    }

    /// All calls, in the order of their numbers.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let grpc = Method::ALL.into_iter().map(Self::Grpc);
        let http = ValueKind::ALL.into_iter();
        let http = http.flat_map(|kind| ACTIONS.map(|action| Self::Http(kind, action)));
        grpc.chain(http).chain([Self::Operator, Self::Unknown])
    }

    pub(crate) const fn protocol(self) -> &'static str {
        match self {
            Self::Grpc(_) => "grpc",
            _ => "http",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Grpc(method) => method.name(),
            Self::Http(kind, action) => http_name(kind, action),
            Self::Operator => "operator",
            Self::Unknown => "unknown",
        }
    }

    /// What its look-ups look for.
    pub(crate) const fn kind(self) -> Option<ValueKind> {
        match self {
            Self::Grpc(Method::GetActionResult | Method::UpdateActionResult) => Some(ValueKind::Ac),
            Self::Grpc(Method::GetCapabilities) | Self::Operator | Self::Unknown => None,
            Self::Grpc(_) => Some(ValueKind::Cas),
            Self::Http(kind, _) => Some(kind),
        }
    }

    /// Whether it looks for one value to read: success is a hit.
    pub(crate) const fn reads_one(self) -> bool {
        matches!(
            self,
            Self::Grpc(
                Method::Read | Method::GetTree | Method::SplitBlob | Method::GetActionResult
            ) | Self::Http(_, HttpAction::Read)
        )
    }

    /// Whether its look-ups only ask for presence: what to upload, not what to read.
    pub(crate) const fn only_asks(self) -> bool {
        matches!(
            self,
            Self::Grpc(Method::FindMissing | Method::QueryWriteStatus)
                | Self::Http(_, HttpAction::Other)
        )
    }
}

const fn http_name(kind: ValueKind, action: HttpAction) -> &'static str {
    use HttpAction::{Other, Read, Write};
    match (kind, action) {
        (ValueKind::Cas, Read) => "cas.read",
        (ValueKind::Cas, Write) => "cas.write",
        (ValueKind::Cas, Other) => "cas.other",
        (ValueKind::Ac, Read) => "ac.read",
        (ValueKind::Ac, Write) => "ac.write",
        (ValueKind::Ac, Other) => "ac.other",
        (ValueKind::Ccache, Read) => "ccache.read",
        (ValueKind::Ccache, Write) => "ccache.write",
        (ValueKind::Ccache, Other) => "ccache.other",
        (ValueKind::Gradle, Read) => "gradle.read",
        (ValueKind::Gradle, Write) => "gradle.write",
        (ValueKind::Gradle, Other) => "gradle.other",
        (ValueKind::Nx, Read) => "nx.read",
        (ValueKind::Nx, Write) => "nx.write",
        (ValueKind::Nx, Other) => "nx.other",
        (ValueKind::Turborepo, Read) => "turborepo.read",
        (ValueKind::Turborepo, Write) => "turborepo.write",
        (ValueKind::Turborepo, Other) => "turborepo.other",
        (ValueKind::WebDav, Read) => "webdav.read",
        (ValueKind::WebDav, Write) => "webdav.write",
        (ValueKind::WebDav, Other) => "webdav.other",
        (ValueKind::Origin, Read) => "origin.read",
        (ValueKind::Origin, Write) => "origin.write",
        (ValueKind::Origin, Other) => "origin.other",
    }
}

/// Why a look-up found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MissReason {
    /// It was never stored, or it was evicted.
    #[default]
    Absent,
    /// An action result lacks a blob that it needs.
    Incomplete,
    /// The stored bytes are damaged.
    Damaged,
}

impl MissReason {
    pub(crate) const ALL: [Self; 3] = [Self::Absent, Self::Incomplete, Self::Damaged];

    /// The reason of the store, if it has one.
    pub(crate) const fn of_loss(loss: Option<Loss>) -> Self {
        match loss {
            None => Self::Absent,
            Some(Loss::Incomplete) => Self::Incomplete,
            Some(_) => Self::Damaged,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Incomplete => "incomplete",
            Self::Damaged => "damaged",
        }
    }
}

/// Why a request was refused that the client may send again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// The memory of the server is in use.
    Memory,
    /// The store is full, or its disk.
    Full,
    /// Its client has too many requests in flight.
    Client,
}

impl RefusalReason {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Full, Self::Client];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Full => "full",
            Self::Client => "client",
        }
    }
}

/// A mark on a status of gRPC, as its source. It is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusMark {
    Miss(MissReason),
    Refusal(RefusalReason),
}

impl fmt::Display for StatusMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Miss(reason) => reason.name(),
            Self::Refusal(reason) => reason.name(),
        })
    }
}

impl std::error::Error for StatusMark {}

impl StatusMark {
    /// The status with this mark.
    pub(crate) fn on(self, mut status: Status) -> Status {
        status.set_source(Arc::new(self));
        status
    }

    /// The mark of a status.
    pub(crate) fn of(status: &Status) -> Option<Self> {
        std::error::Error::source(status)?.downcast_ref().copied()
    }
}

/// What the look-ups of a request found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lookups {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Why, if there are misses.
    pub(crate) reason: MissReason,
}

impl Lookups {
    pub(crate) const HIT: Self = Self { hits: 1, misses: 0, reason: MissReason::Absent };

    pub(crate) const fn miss(reason: MissReason) -> Self {
        Self { hits: 0, misses: 1, reason }
    }
}

/// What the handler of a request says of it, as an extension of the response.
#[derive(Clone, Debug)]
pub(crate) struct CallNotes {
    pub(crate) name: CallName,
    pub(crate) lookups: Lookups,
    pub(crate) refusal: Option<RefusalReason>,
    /// The message of a failure.
    pub(crate) message: Option<String>,
}

impl CallNotes {
    pub(crate) const fn new(name: CallName) -> Self {
        Self { name, lookups: NOTHING, refusal: None, message: None }
    }

    /// The response with these notes.
    pub(crate) fn on<B>(self, mut response: Response<B>) -> Response<B> {
        response.extensions_mut().insert(self);
        response
    }
}

const NOTHING: Lookups = Lookups { hits: 0, misses: 0, reason: MissReason::Absent };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_a_number_and_a_name_of_its_own() {
        let all: Vec<CallName> = CallName::all().collect();
        assert_eq!(all.len(), CallName::COUNT);
        let mut names = Vec::new();
        for (index, call) in all.into_iter().enumerate() {
            assert_eq!(call.index(), index, "{call:?}");
            names.push(call.name());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CallName::COUNT);
    }

    #[test]
    fn a_mark_stays_on_its_status() {
        let mark = StatusMark::Miss(MissReason::Damaged);
        let status = mark.on(Status::not_found("x"));
        assert_eq!(StatusMark::of(&status), Some(mark));
        assert_eq!(StatusMark::of(&Status::not_found("x")), None);
    }
}
