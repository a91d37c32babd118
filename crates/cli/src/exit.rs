//! The exit codes of the process: one number for each kind of ending.
//!
//! The numbers are an interface: scripts branch on them. They are listed in `--help` and in
//! `docs/command.md`, and never change their meaning.

use std::io;
use std::process::ExitCode;

use tidegate::{Error, ErrorKind, Operation};

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// Any failure without a number of its own: the disk, the network, the remote.
    Failure,
    /// The command line or a URL in it is wrong; nothing was done.
    Usage,
    NotFound,
    Changed,
    Integrity,
    NoAccess,
    Exhausted,
    Cancelled,
    /// The reader of standard output closed the pipe. This is not an error, and not a success
    /// either, because not everything was delivered. The number is the one that a shell reports for
    /// a tool that SIGPIPE ends.
    ClosedPipe,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Changed => 4,
            Self::Integrity => 5,
            Self::NoAccess => 6,
            Self::Exhausted => 7,
            Self::Cancelled => 8,
            Self::ClosedPipe => 141,
        }
    }
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Changed => Self::Changed,
            ErrorKind::Integrity => Self::Integrity,
            ErrorKind::NoAccess => Self::NoAccess,
            ErrorKind::Exhausted => Self::Exhausted,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Invalid => Self::Usage,
            ErrorKind::Unsupported if error.operation() == Operation::Locate => Self::Usage,
            _ if is_closed_pipe(error) => Self::ClosedPipe,
            _ => Self::Failure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Whether a write failed because the reader of a pipe has closed it.
fn is_closed_pipe(error: &Error) -> bool {
    if error.operation() != Operation::Write {
        return false;
    }
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(kind: ErrorKind, operation: Operation) -> Exit {
        Exit::from(&Error::new(kind, operation, "x", "y"))
    }

    #[test]
    fn kinds_have_their_codes() {
        assert_eq!(exit(ErrorKind::Unsupported, Operation::Locate), Exit::Usage);
        assert_eq!(exit(ErrorKind::Unsupported, Operation::Read), Exit::Failure);
        assert_eq!(exit(ErrorKind::Invalid, Operation::Connect), Exit::Usage);
        assert_eq!(exit(ErrorKind::Storage, Operation::Write), Exit::Failure);
        assert_eq!(exit(ErrorKind::Exhausted, Operation::Read).code(), 7);
    }

    #[test]
    fn only_a_broken_write_is_a_closed_pipe() {
        let broken = |operation| {
            let error = Error::new(ErrorKind::Storage, operation, "x", "y");
            Exit::from(&error.caused_by(io::Error::from(io::ErrorKind::BrokenPipe)))
        };
        assert_eq!(broken(Operation::Write), Exit::ClosedPipe);
        assert_eq!(broken(Operation::Read), Exit::Failure);
    }
}
