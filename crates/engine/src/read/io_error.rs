//! Converts the engine's error into one of `std::io`, for the traits of `std::io` and tokio.

use std::io;

use crate::error::{Error, ErrorKind};

/// Keeps the error inside: `error.get_ref()` returns it, and a caller can downcast it to [`Error`].
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::NoAccess => io::ErrorKind::PermissionDenied,
            ErrorKind::Changed | ErrorKind::Integrity => io::ErrorKind::InvalidData,
            ErrorKind::Invalid | ErrorKind::OutOfRange => io::ErrorKind::InvalidInput,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::Timeout => io::ErrorKind::TimedOut,
            // Not `Interrupted`: callers would retry without end.
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;

    #[test]
    fn the_error_can_be_had_back() {
        let error = Error::new(ErrorKind::Changed, Operation::Read, "x", "it changed");
        let io = io::Error::from(error);
        assert_eq!(io.kind(), io::ErrorKind::InvalidData);
        let inner = io.get_ref().unwrap().downcast_ref::<Error>().unwrap();
        assert_eq!(inner.kind(), ErrorKind::Changed);
    }
}
