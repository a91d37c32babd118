//! The errors of the store: Tidegate's error, under the word that `object_store` has for it.

use object_store::Error;
use object_store::path::Path;
use tidegate::{ErrorKind, Operation};

/// The name of the store in errors without a kind.
const STORE: &str = "Tidegate";

/// Tidegate's error below an error of this store.
///
/// ```
/// let error = object_store::Error::NotImplemented {
///     operation: "an update".to_owned(),
///     implementer: "a store".to_owned(),
/// };
/// assert!(tidegate_object_store::cause(&error).is_none());
/// ```
pub fn cause(error: &Error) -> Option<&tidegate::Error> {
    let mut level = std::error::Error::source(error);
    while let Some(error) = level {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        level = error.source();
    }
    None
}

/// The error of an operation on one blob.
pub(crate) fn of(path: &Path, error: tidegate::Error) -> Error {
    let (kind, operation) = (error.kind(), error.operation());
    let path = path.to_string();
    let source = Box::new(error);
    match kind {
        ErrorKind::NotFound => Error::NotFound { path, source },
        ErrorKind::AlreadyExists => Error::AlreadyExists { path, source },
        ErrorKind::Changed => Error::Precondition { path, source },
        ErrorKind::Unsupported => Error::NotSupported { source },
        // No credentials were found, or others were not: the request was not even judged.
        ErrorKind::NoAccess if matches!(operation, Operation::Connect | Operation::Locate) => {
            Error::Unauthenticated { path, source }
        }
        ErrorKind::NoAccess => Error::PermissionDenied { path, source },
        _ => Error::Generic { store: STORE, source },
    }
}

/// The error of a read. A folder of the local file system is no blob.
pub(crate) fn of_read(is_local: bool, path: &Path, error: tidegate::Error) -> Error {
    if is_local && error.kind() == ErrorKind::Invalid {
        return Error::NotFound { path: path.to_string(), source: Box::new(error) };
    }
    of(path, error)
}

/// The error of something that no remote of this kind can do.
pub(crate) fn not_implemented(operation: impl Into<String>) -> Error {
    Error::NotImplemented { operation: operation.into(), implementer: STORE.to_owned() }
}

/// An error without a kind.
pub(crate) fn generic(
    source: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
) -> Error {
    Error::Generic { store: STORE, source: source.into() }
}
