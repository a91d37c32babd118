//! The one error of the engine: what was being done, to what, what went wrong, whether asking
//! again can help, and what the user can do.
//!
//! `Display` prints one level; the chain below it is in [`std::error::Error::source`]. The retry
//! class is decided where the error is born, because only there it is known what the remote said.
//! Targets are shown without secrets: whoever builds an error passes a name that has already been
//! stripped of user info and query (see [`crate::remote::Location::display`]).
//!
//! Every text that an error shows passes through [`tidegate_core::printable`] here, so that no name
//! and no message of a server reaches a terminal as a command to it.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;

use tidegate_core::printable::escaped;
use tidegate_core::retry::RetryClass;

/// The result of every fallible operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What kind of failure this is; callers match on it, and the command derives its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The remote has no such blob, bucket or host path.
    NotFound,
    /// The blob's content at the remote is no longer the version that the operation is pinned to.
    Changed,
    /// Bytes do not match their checksum, or a remote contradicts itself about a blob.
    Integrity,
    /// The remote refuses these credentials, or asks for some.
    NoAccess,
    /// The remote asks for fewer requests.
    Throttled,
    /// Nothing arrived in the time allowed.
    Timeout,
    /// The connection could not be made, broke, or carried something that is not HTTP.
    Transport,
    /// The remote answered with a failure of its own (5xx), or refuses the request for a reason
    /// that has no kind here.
    Remote,
    /// Attempts without progress were used up, or the deadline passed; the last one is the source.
    Exhausted,
    /// The caller cancelled.
    Cancelled,
    /// The input is wrong: a URL, an option.
    Invalid,
    /// The range begins beyond the end of the blob.
    OutOfRange,
    /// The input is right, but this build or this remote cannot do it.
    Unsupported,
    /// The local target cannot be written or read: full, read-only, missing folder.
    Storage,
}

impl ErrorKind {
    /// The name by which reports in JSON call this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Changed => "changed",
            Self::Integrity => "integrity",
            Self::NoAccess => "no_access",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::Transport => "transport",
            Self::Remote => "remote",
            Self::Exhausted => "retries_exhausted",
            Self::Cancelled => "cancelled",
            Self::Invalid => "invalid",
            Self::OutOfRange => "out_of_range",
            Self::Unsupported => "unsupported",
            Self::Storage => "storage",
        }
    }

    fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound => "check the spelling of the bucket and the blob",
            Self::Changed => "run the same command again to fetch the new version",
            Self::Integrity => {
                "run the same command again; if it repeats, the stored blob is damaged"
            }
            Self::NoAccess => "check the credentials, or pass --anonymous for a public blob",
            Self::Exhausted | Self::Throttled | Self::Timeout | Self::Transport | Self::Remote => {
                "run the same command again to go on where it stopped"
            }
            Self::Cancelled => "run the same command again to resume",
            Self::OutOfRange => "ask `tidegate stat` for the blob's length",
            Self::Invalid | Self::Unsupported | Self::Storage => return None,
        })
    }
}

/// What hints say that promise, or may promise, that a transfer goes on.
const AGAIN: &str = "run the same command again";

/// What is left of a transfer to a file that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// A part file that the next run goes on with.
    Kept,
    /// Nothing of what had arrived.
    Lost,
    /// Nothing, and nothing had arrived.
    Nothing,
}

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Understanding a URL or an option.
    Locate,
    /// Connecting a remote: endpoint, credentials, certificates.
    Connect,
    /// Asking for a blob's size, version and checksums.
    Stat,
    /// Reading a range of a blob.
    Read,
    /// Going on with a read that another process has begun.
    Restore,
    /// Preparing or writing the target.
    Write,
    /// Comparing checksums.
    Verify,
    /// Giving the finished target its name.
    Commit,
    /// A whole download.
    Download,
    /// A whole upload.
    Upload,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locate => "cannot use",
            Self::Connect => "cannot connect",
            Self::Stat => "cannot stat",
            Self::Read => "cannot read",
            Self::Restore => "cannot go on from the",
            Self::Write => "cannot write",
            Self::Verify => "cannot verify",
            Self::Commit => "cannot finish",
            Self::Download => "cannot download",
            Self::Upload => "cannot upload",
        })
    }
}

/// A failure of the engine. Cheap to move; see the module docs.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: Operation,
    target: String,
    message: String,
    range: Option<Range<u64>>,
    attempts: u32,
    hint: Option<String>,
    retry: RetryClass,
    source: Option<Source>,
}

impl Error {
    /// An error about `target` (a display name without secrets); `message` says what went wrong,
    /// in lower case and without a full stop. Never retried unless [`Self::retryable`] says so.
    pub fn new(
        kind: ErrorKind,
        operation: Operation,
        target: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self(Box::new(Inner {
            kind,
            operation,
            target: printable(target),
            message: printable(message),
            range: None,
            attempts: 0,
            hint: None,
            retry: RetryClass::Never,
            source: None,
        }))
    }

    /// The system gives no thread for something that needs one of its own.
    pub(crate) fn no_thread(
        operation: Operation,
        target: impl Into<String>,
        error: io::Error,
    ) -> Self {
        Self::new(ErrorKind::Storage, operation, target, "the system gives no thread")
            .caused_by(error)
            .with_hint(
                "raise the limit on processes and threads (ulimit -u, or that of the container)",
            )
    }

    /// The same error with its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error, to be retried as `class` says.
    #[must_use]
    pub fn retryable(mut self, class: RetryClass) -> Self {
        self.0.retry = class;
        self
    }

    /// The same error with the bytes of the blob that it is about.
    #[must_use]
    pub fn at(mut self, range: Range<u64>) -> Self {
        self.0.range = Some(range);
        self
    }

    /// The same error, about no part of its target.
    #[must_use]
    pub(crate) fn of_no_range(mut self) -> Self {
        self.0.range = None;
        self
    }

    /// The same error, with another name of the same target, without secrets: the one that the user
    /// knows it by.
    #[must_use]
    pub fn with_target(mut self, target: impl Into<String>) -> Self {
        self.0.target = printable(target);
        self
    }

    /// The same error, about a part of its target that has this name.
    #[must_use]
    pub(crate) fn of_part(mut self, name: &str) -> Self {
        self.0.message = printable(format!("{name}: {}", self.0.message));
        self
    }

    /// The same error with the number of requests that were tried.
    #[must_use]
    pub fn after_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// The same error with what the user can do, in place of what its kind suggests.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(printable(hint));
        self
    }

    /// The same error of a transfer to a file, with a hint that says what is true of the next run.
    #[must_use]
    pub(crate) fn with_rest(self, rest: Rest) -> Self {
        let hint = self.hint().unwrap_or_default();
        let says_all = matches!(self.kind(), ErrorKind::Changed | ErrorKind::Integrity);
        if says_all || !hint.contains(AGAIN) {
            return self;
        }
        let promises = hint.starts_with(AGAIN) && hint.len() > AGAIN.len();
        let hint = match (rest, hint.split_once(AGAIN)) {
            (Rest::Kept, Some((before, ""))) => {
                format!("{before}{AGAIN}: it goes on where it stopped")
            }
            (Rest::Lost, Some((before, after))) if after.is_empty() || promises => {
                format!("{before}{AGAIN}; it starts from the beginning")
            }
            _ => return self,
        };
        self.with_hint(hint)
    }

    /// The same error as another kind: only the place that knows the context may say, for
    /// instance, that a blob that was there a moment ago and is not now has changed.
    #[must_use]
    pub(crate) fn into_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was being done.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The blob or file that it was done to, without secrets.
    pub fn target(&self) -> &str {
        &self.0.target
    }

    /// The bytes of the blob that the failure is about, where that is known.
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// Requests that were tried before giving up; 0 where that is not what failed.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether, and when, asking again can help.
    pub fn retry(&self) -> &RetryClass {
        &self.0.retry
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref().or_else(|| self.0.kind.hint())
    }

    /// The error and all its causes on one line, outermost first.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let level = printable(error.to_string());
            // Libraries below often repeat their source in their own text.
            if !text.ends_with(&level) {
                text.push_str(": ");
                text.push_str(&level);
            }
            cause = error.source();
        }
        text
    }
}

/// The text with its control characters escaped.
fn printable(text: impl Into<String>) -> String {
    let text = text.into();
    match escaped(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => shown,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        write!(f, "{} {}", inner.operation, inner.target)?;
        if let Some(range) = &inner.range {
            write!(f, " at bytes {}..{}", range.start, range.end)?;
        }
        write!(f, ": {}", inner.message)?;
        if inner.attempts > 1 {
            write!(f, " ({} attempts)", inner.attempts)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("retry", &self.0.retry)
            .field("chain", &self.chain())
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(error: Error, rest: Rest) -> String {
        error.with_rest(rest).hint().unwrap_or_default().to_owned()
    }

    #[test]
    fn hints_promise_a_resume_where_there_is_one() {
        let of = |kind| Error::new(kind, Operation::Write, "t", "m");
        let full = || of(ErrorKind::Storage).with_hint(format!("free some space, then {AGAIN}"));
        assert!(hint(full(), Rest::Kept).ends_with("again: it goes on where it stopped"));
        assert!(hint(full(), Rest::Lost).ends_with("again; it starts from the beginning"));
        assert!(hint(full(), Rest::Nothing).ends_with("again"));
        for kind in [ErrorKind::Exhausted, ErrorKind::Cancelled] {
            let plain = of(kind).hint().unwrap().to_owned();
            assert_eq!(hint(of(kind), Rest::Kept), plain);
            assert_eq!(hint(of(kind), Rest::Nothing), plain);
            let lost = hint(of(kind), Rest::Lost);
            assert_eq!(lost, "run the same command again; it starts from the beginning");
        }
        for kind in [ErrorKind::Changed, ErrorKind::Integrity, ErrorKind::NotFound] {
            let plain = of(kind).hint().unwrap().to_owned();
            assert_eq!(hint(of(kind), Rest::Lost), plain);
        }
    }
}
