//! The lock of model-checked code: the standard library's, or the model checker's with `--cfg
//! tidegate_loom`.

#[cfg(tidegate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks and ignores poisoning: no panic under these locks leaves their data inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
