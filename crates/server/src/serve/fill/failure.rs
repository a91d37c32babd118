//! [`FillError`]: why a fill failed, and which status a client gets.
//!
//! | failure | status |
//! |---|---|
//! | the remote has no such blob | 404 |
//! | the path cannot be a name there | 400 |
//! | the remote did not answer in time | 504 |
//! | the remote asks for fewer requests; too many fills; the server stops | 503 |
//! | the remote failed, refused, sent wrong bytes, or changed the blob meanwhile | 502 |
//! | the store is full | as for an upload |

use std::error::Error as _;

use http::StatusCode;
use tidegate::{Error, ErrorKind};

/// Why a fill failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FillError {
    /// The remote failed or refused.
    #[error("the remote failed")]
    Remote(#[source] Error),
    /// The store failed or refused.
    #[error("the store failed")]
    Store(#[source] Error),
    /// Too many fills run or wait.
    #[error("too many blobs are being fetched; retry later")]
    Busy,
    /// The server stops.
    #[error("the server is stopping")]
    Stopped,
}

impl FillError {
    /// The kind of the remote's failure, or of the last failure if attempts were used up.
    pub(in crate::serve) fn remote_kind(&self) -> Option<ErrorKind> {
        let Self::Remote(error) = self else { return None };
        let last = error.source().and_then(|cause| cause.downcast_ref::<Error>());
        Some(match (error.kind(), last) {
            (ErrorKind::Exhausted, Some(last)) => last.kind(),
            (kind, _) => kind,
        })
    }

    /// The error and its causes on one line, for the log.
    pub(in crate::serve) fn chain(&self) -> String {
        match self {
            Self::Remote(error) | Self::Store(error) => error.chain(),
            other => other.to_string(),
        }
    }

    /// Whether the remote may deliver the blob later, so that what is stored may still be right.
    pub(in crate::serve) fn is_temporary(&self) -> bool {
        matches!(
            self.remote_kind(),
            Some(
                ErrorKind::Throttled
                    | ErrorKind::Timeout
                    | ErrorKind::Transport
                    | ErrorKind::Remote
                    | ErrorKind::Exhausted
            )
        )
    }

    /// The status of a response over HTTP. For a failure of the store, the store's own error says
    /// more.
    pub(in crate::serve) fn status(&self) -> StatusCode {
        match self.remote_kind() {
            Some(ErrorKind::NotFound) => StatusCode::NOT_FOUND,
            Some(ErrorKind::Invalid | ErrorKind::Unsupported) => StatusCode::BAD_REQUEST,
            Some(ErrorKind::Timeout) => StatusCode::GATEWAY_TIMEOUT,
            Some(ErrorKind::Throttled) => StatusCode::SERVICE_UNAVAILABLE,
            Some(_) => StatusCode::BAD_GATEWAY,
            None if matches!(self, Self::Store(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            None => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The text of a response. It names no URL of the remote.
    pub(in crate::serve) fn message(&self) -> String {
        let Some(kind) = self.remote_kind() else { return self.to_string() };
        match kind {
            ErrorKind::NotFound => "the origin has no such blob",
            ErrorKind::Invalid | ErrorKind::Unsupported => "the path is no name at the origin",
            ErrorKind::NoAccess => "the origin refuses the credentials of this server",
            ErrorKind::Throttled => "the origin asks for fewer requests; retry later",
            ErrorKind::Timeout => "the origin did not answer in time",
            ErrorKind::Transport => "the connection to the origin failed",
            ErrorKind::Integrity => "the bytes of the origin differ from its checksum",
            ErrorKind::Changed => "the blob changed at the origin while it was fetched; retry",
            _ => "the origin failed; see the log of the server",
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Operation;

    use super::*;

    fn remote(kind: ErrorKind) -> Error {
        Error::new(kind, Operation::Read, "https://host/secret-path", "it failed")
    }

    #[test]
    fn failures_are_statuses() {
        let rows = [
            (ErrorKind::NotFound, 404, false),
            (ErrorKind::Invalid, 400, false),
            (ErrorKind::Timeout, 504, true),
            (ErrorKind::Throttled, 503, true),
            (ErrorKind::Transport, 502, true),
            (ErrorKind::Remote, 502, true),
            (ErrorKind::NoAccess, 502, false),
            (ErrorKind::Integrity, 502, false),
            (ErrorKind::Changed, 502, false),
        ];
        for (kind, status, is_temporary) in rows {
            let given_up = remote(ErrorKind::Exhausted).caused_by(remote(kind));
            for error in [FillError::Remote(remote(kind)), FillError::Remote(given_up)] {
                assert_eq!(error.status().as_u16(), status, "{kind:?}");
                assert_eq!(error.is_temporary(), is_temporary, "{kind:?}");
                assert!(!error.message().contains("secret"), "{kind:?}");
            }
        }
        for error in [FillError::Busy, FillError::Stopped] {
            assert_eq!((error.status().as_u16(), error.is_temporary()), (503, false));
        }
    }
}
