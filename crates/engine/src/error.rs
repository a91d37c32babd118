//! The error of the engine: the operation, its target, what went wrong, whether a retry can help,
//! and what the user can do.
//!
//! `Display` prints one level; the chain below it is in [`std::error::Error::source`]. The code
//! that creates an error sets its retry class, because only this code knows the remote's response.
//! Targets are shown without secrets. The code that creates an error passes a name without user
//! info and query (see [`crate::remote::Location::display`]).
//!
//! Every text that an error shows passes through [`tidegate_core::printable`] here. So no name and
//! no message of a server can send control sequences to a terminal.

#[cfg(test)]
mod flags;
mod kind;
mod operation;
mod setting;

pub use kind::ErrorKind;
pub use operation::Operation;
pub use setting::{Hint, Setting};

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;

use tidegate_core::printable::escaped;
use tidegate_core::retry::RetryClass;

/// The result of every fallible operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The text in hints that promise, or may promise, that a transfer is resumed.
const AGAIN: &str = "run the same command again";

/// What is left of a failed transfer to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// A part file that the next run resumes.
    Kept,
    /// Bytes had arrived, and none are kept.
    Lost,
    /// No bytes had arrived, and none are kept.
    Nothing,
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
    hint: Option<Hint>,
    retry: RetryClass,
    source: Option<Source>,
    leaves_upload: bool,
}

impl Error {
    /// An error about `target` (a display name without secrets). `message` says what went wrong, in
    /// lower case and without a full stop. Never retried unless [`Self::retryable`] is called.
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
            leaves_upload: false,
        }))
    }

    /// The system could not start a thread.
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

    /// The same error with the retry class `class`.
    #[must_use]
    pub fn retryable(mut self, class: RetryClass) -> Self {
        self.0.retry = class;
        self
    }

    /// The same error, about these bytes of the blob.
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

    /// The same error with another name of the same target, without secrets: the name that the user
    /// knows.
    #[must_use]
    pub fn with_target(mut self, target: impl Into<String>) -> Self {
        self.0.target = printable(target);
        self
    }

    /// The same error, about the part of its target with this name.
    #[must_use]
    pub(crate) fn of_part(mut self, name: &str) -> Self {
        self.0.message = printable(format!("{name}: {}", self.0.message));
        self
    }

    /// The same error with the number of requests that were sent.
    #[must_use]
    pub fn after_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// The same error with its own hint instead of the hint of its kind: a text, or a [`Setting`]
    /// of the caller.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same error with the hint of `other`, if that has its own hint.
    #[must_use]
    pub(crate) fn with_hint_of(mut self, other: &Self) -> Self {
        self.0.hint = other.0.hint.clone().or(self.0.hint);
        self
    }

    /// The same error of a transfer to a file, with a hint that is correct about the next run.
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

    /// The same error with another kind. Only code that knows the context calls this: for example,
    /// a blob that existed a moment ago and is now missing has changed.
    #[must_use]
    pub(crate) fn into_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// An error of the same kind and text, without its cause. For errors that came through a library
    /// that keeps the original.
    #[must_use]
    #[cfg(any(feature = "http", feature = "gcs", feature = "s3", feature = "azure"))]
    pub(crate) fn without_cause(&self) -> Self {
        let Inner { kind, operation, target, message, .. } = &*self.0;
        let mut error = Self::new(*kind, *operation, target.clone(), message.clone());
        error.0.range.clone_from(&self.0.range);
        error.0.hint.clone_from(&self.0.hint);
        error.0.retry = self.0.retry;
        error
    }

    /// The same error of an upload whose stored parts stay at the remote.
    #[must_use]
    pub(crate) fn leaving_upload(mut self) -> Self {
        self.0.leaves_upload = true;
        self
    }

    /// Whether parts of an upload stay at the remote: for the next run, or until the upload is
    /// aborted.
    pub fn leaves_upload(&self) -> bool {
        self.0.leaves_upload
    }

    /// The kind of this failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The blob or file of the operation, without secrets.
    pub fn target(&self) -> &str {
        &self.0.target
    }

    /// The bytes of the blob that the failure is about, if known.
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// Requests that were sent before giving up; 0 if the failure is not about attempts.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether, and when, a retry can help.
    pub fn retry(&self) -> &RetryClass {
        &self.0.retry
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        let kind = self.0.kind;
        self.0.hint.as_ref().map(|hint| hint.text(kind)).or_else(|| kind.hint())
    }

    /// The setting that [`Self::hint`] is about. A program with its own name for the setting, such
    /// as a flag, can show a hint with that name instead.
    pub fn setting(&self) -> Option<Setting> {
        match &self.0.hint {
            Some(hint) => hint.setting(),
            None => self.0.kind.setting(),
        }
    }

    /// The message and those of its causes on one line, without their targets and without the causes
    /// of other libraries: `gave up after 4 attempts: the connection was refused`.
    pub(crate) fn reason(&self) -> String {
        let mut text = self.0.message.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let own = error.downcast_ref::<Self>();
            if let Some(own) = own.filter(|own| !text.ends_with(&own.0.message)) {
                text.push_str(": ");
                text.push_str(&own.0.message);
            }
            cause = error.source();
        }
        text
    }

    /// The error and all its causes on one line, outermost first.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// An error and all its causes on one line, outermost first.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = printable(error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let level = printable(error.to_string());
        // Some libraries repeat their source in their own text.
        if !text.ends_with(&level) {
            text.push_str(": ");
            text.push_str(&level);
        }
        cause = error.source();
    }
    text
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
    fn a_reason_names_no_target_and_no_library() {
        let of = |message| Error::new(ErrorKind::Transport, Operation::Read, "http://h/x", message);
        let refused = of("the connection was refused").caused_by(io::Error::other("tcp: os error"));
        let error = of("gave up after 4 attempts").caused_by(refused);
        assert_eq!(error.reason(), "gave up after 4 attempts: the connection was refused");
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
