//! The message of an error: each level of its chain once, without repeated names, and without the
//! words of libraries that only a developer knows.

use std::error::Error as StdError;
use std::io;

use tidegate::{Error, ErrorKind};
use tidegate_core::printable::escaped;

/// The error and its causes on one line, outermost first. A level about the same target as the
/// level before does not repeat the target.
pub(crate) fn of(error: &Error) -> String {
    let mut text = error.to_string();
    let mut own = error;
    // Texts of other libraries below `own`.
    let mut foreign: Vec<String> = Vec::new();
    let mut level = StdError::source(error);
    while let Some(cause) = level {
        if let Some(inner) = cause.downcast_ref::<Error>() {
            append(&mut text, own, std::mem::take(&mut foreign));
            push(&mut text, &without_target(inner, own.target()));
            own = inner;
        } else if !(own.kind() == ErrorKind::NotFound && is_not_found(cause)) {
            foreign.push(plain(&cause.to_string()));
        }
        level = cause.source();
    }
    append(&mut text, own, foreign);
    text
}

/// Whether the last failure was a refused connection: nothing listens at that address.
pub(crate) fn is_refused(error: &Error) -> bool {
    let mut level: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = level {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        // An io::Error hides the error it wraps from `source`.
        level = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

/// Whether it is the system's error for a missing file, which repeats what an error of that kind
/// says.
fn is_not_found(cause: &(dyn StdError + 'static)) -> bool {
    let io = cause.downcast_ref::<io::Error>();
    io.is_some_and(|io| io.kind() == io::ErrorKind::NotFound)
}

/// Adds the causes of `own`. Of a failed connection only the innermost is of use, if it says more
/// than `own` does: the others name the layers between.
fn append(text: &mut String, own: &Error, mut foreign: Vec<String>) {
    if matches!(own.kind(), ErrorKind::Transport | ErrorKind::Timeout) {
        foreign.drain(..foreign.len().saturating_sub(1));
        let known = text.to_lowercase();
        let says_more = |cause: &String| {
            cause.to_lowercase().split_whitespace().any(|word| !known.contains(word))
        };
        foreign.retain(says_more);
    }
    for cause in &foreign {
        push(text, cause);
    }
}

/// Adds a level, unless the level before repeats it.
fn push(text: &mut String, level: &str) {
    if !text.ends_with(level) {
        text.push_str(": ");
        text.push_str(level);
    }
}

/// The text of `error` without its operation and target, if the target is named already.
fn without_target(error: &Error, named: &str) -> String {
    let text = error.to_string();
    let prefix = format!("{} {}", error.operation(), error.target());
    let rest = text.strip_prefix(&prefix).filter(|_| error.target() == named);
    let message = match rest {
        // The range, which the level before has too.
        Some(rest) if rest.starts_with(" at bytes ") => rest.split_once(": ").map(|(_, rest)| rest),
        Some(rest) => rest.strip_prefix(": "),
        None => None,
    };
    message.unwrap_or(&text).to_owned()
}

/// The text of another library, without the number of a system error, and without the prefix that
/// `object_store` gives all its errors.
fn plain(text: &str) -> String {
    let mut text = escaped(text).into_owned();
    if let Some((prefix, rest)) = text.split_once(" error: ")
        && prefix.starts_with("Generic ")
    {
        text = rest.to_owned();
    }
    while let Some(start) = text.find(" (os error ")
        && let Some(len) = text[start..].find(')')
    {
        text.replace_range(start..=start + len, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use tidegate::Operation;

    use super::*;

    fn error(kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, Operation::Read, "http://h/x", message)
    }

    #[test]
    fn a_target_is_named_once() {
        let refused = error(ErrorKind::Transport, "the connection was refused")
            .caused_by(io::Error::from_raw_os_error(111));
        let error = error(ErrorKind::Exhausted, "gave up after 4 attempts").caused_by(refused);
        let text = "cannot read http://h/x: gave up after 4 attempts: the connection was refused";
        assert_eq!(of(&error), text);
        assert!(is_refused(&error));
    }

    #[test]
    fn another_target_and_a_useful_cause_are_named() {
        let full = io::Error::from_raw_os_error(28);
        let inner = Error::new(ErrorKind::Storage, Operation::Write, "out", "it cannot be written")
            .caused_by(full);
        let error = error(ErrorKind::Storage, "a part of it failed").caused_by(inner);
        let text = "cannot read http://h/x: a part of it failed: cannot write out: it cannot be \
                    written: No space left on device";
        assert_eq!(of(&error), text);
        assert!(!is_refused(&error));
    }

    #[test]
    fn a_missing_file_is_said_to_be_missing_once() {
        let missing =
            Error::new(ErrorKind::NotFound, Operation::Read, "x", "there is no such file")
                .caused_by(io::Error::from_raw_os_error(2));
        assert_eq!(of(&missing), "cannot read x: there is no such file");
    }

    #[test]
    fn libraries_are_not_named() {
        assert_eq!(plain("Generic S3 error: no key"), "no key");
        assert_eq!(plain("a (os error 2), b (os error 3)"), "a, b");
    }
}
