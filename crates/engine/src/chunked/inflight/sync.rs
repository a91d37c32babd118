//! The lock that the table stands on: the standard library's, or the model checker's with
//! `--cfg tidegate_loom`.

#[cfg(tidegate_loom)]
pub(super) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(tidegate_loom))]
pub(super) use std::sync::{Mutex, MutexGuard};

/// Locks; nothing that is done under these locks leaves their data half changed by a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
