//! [`Outcome`]: how a request ended, as one of a closed set: a code of gRPC, a status of HTTP, or a cut.

use http::{HeaderMap, Response, StatusCode};
use tonic::Code;

use super::call::{CallName, ValueKind};

/// The names of gRPC's codes, in their order.
const CODES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// The statuses of HTTP that the server answers with. Others count as the last one.
const STATUSES: [(u16, &str); 28] = [
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (206, "206"),
    (207, "207"),
    (302, "302"),
    (304, "304"),
    (307, "307"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (409, "409"),
    (412, "412"),
    (413, "413"),
    (414, "414"),
    (415, "415"),
    (416, "416"),
    (429, "429"),
    (500, "500"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (507, "507"),
    (0, "other"),
];

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome(u8);

impl Outcome {
    /// How many there are.
    pub(super) const COUNT: usize = CODES.len() + STATUSES.len() + 1;

    /// The response was not sent to its end: the client left, or the store failed meanwhile.
    pub(super) const CUT: Self = Self(45);

    /// The code of gRPC for what is not there.
    pub(super) const NOT_FOUND: Self = Self(5);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The outcome with this number.
    pub(super) fn at(index: usize) -> Self {
        Self(u8::try_from(index).unwrap_or(Self::CUT.0).min(Self::CUT.0))
    }

    /// The name of the outcome with this number.
    pub(super) fn name(index: usize) -> &'static str {
        let status = index.wrapping_sub(CODES.len());
        CODES.get(index).copied().unwrap_or_else(|| STATUSES.get(status).map_or("cut", |one| one.1))
    }

    /// The outcome that the head of a response says; `None` if its trailers will say it.
    pub(super) fn of_head<B>(response: &Response<B>, is_grpc: bool) -> Option<Self> {
        if is_grpc {
            return Self::of_trailers(response.headers());
        }
        Some(Self::of_status(response.status()))
    }

    /// The outcome in the trailers of gRPC.
    pub(super) fn of_trailers(trailers: &HeaderMap) -> Option<Self> {
        let code = Code::from_bytes(trailers.get("grpc-status")?.as_bytes());
        u8::try_from(code as i32).ok().map(Self)
    }

    fn of_status(status: StatusCode) -> Self {
        let at = STATUSES.iter().position(|(number, _)| *number == status.as_u16());
        let at = CODES.len() + at.unwrap_or(STATUSES.len() - 1);
        Self(u8::try_from(at).unwrap_or(Self::CUT.0))
    }

    /// Whether only the operator can help: gRPC's unknown, internal and data loss, and the status 500.
    pub(super) fn is_failure(self) -> bool {
        matches!(self.0, 2 | 13 | 15) || Self::name(self.index()) == "500"
    }

    /// Whether the server failed or refused, and an operator should know why. A miss is no error, nor is
    /// a client that leaves, nor what Nx asks for with a record that exists.
    pub(super) fn is_error(self, name: CallName) -> bool {
        let Some(status) = self.index().checked_sub(CODES.len()) else {
            return !matches!(self.0, 0 | 1 | 5);
        };
        match STATUSES.get(status).map_or(0, |one| one.0) {
            404 => false,
            409 => !matches!(name, CallName::Http(ValueKind::Nx, _)),
            number => number >= 400,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::HttpAction;
    use super::*;

    #[test]
    fn every_outcome_has_a_name_of_its_own() {
        let mut names: Vec<&str> = (0..Outcome::COUNT).map(Outcome::name).collect();
        assert_eq!(names[Outcome::CUT.index()], "cut");
        assert_eq!(Outcome::CUT.index() + 1, Outcome::COUNT);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Outcome::COUNT);
    }

    #[test]
    fn misses_and_leaving_clients_are_no_errors() {
        let of = |status: u16| Outcome::of_status(StatusCode::from_u16(status).unwrap());
        for (status, name, is_error) in [
            (200, "200", false),
            (304, "304", false),
            (400, "400", true),
            (404, "404", false),
            (418, "other", false),
            (507, "507", true),
        ] {
            assert_eq!(Outcome::name(of(status).index()), name);
            assert_eq!(of(status).is_error(CallName::Unknown), is_error, "{status}");
        }
        assert!(!Outcome::CUT.is_error(CallName::Unknown));
        let nx = CallName::Http(ValueKind::Nx, HttpAction::Write);
        let ac = CallName::Http(ValueKind::Ac, HttpAction::Write);
        assert!(!of(409).is_error(nx) && of(409).is_error(ac));
        let mut trailers = HeaderMap::new();
        assert_eq!(Outcome::of_trailers(&trailers), None);
        for (code, name, is_error) in
            [("0", "ok", false), ("5", "not_found", false), ("8", "resource_exhausted", true)]
        {
            trailers.insert("grpc-status", code.parse().unwrap());
            let outcome = Outcome::of_trailers(&trailers).unwrap();
            let found = outcome.is_error(CallName::Unknown);
            assert_eq!((Outcome::name(outcome.index()), found), (name, is_error));
        }
    }
}
