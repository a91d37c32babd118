//! The primitives of synchronisation that the buffer stands on: the standard library's, or the
//! model checker's with `--cfg tidegate_loom`.

pub(super) use crate::sync::{Mutex, MutexGuard, lock};

#[cfg(not(tidegate_loom))]
pub(super) use std::sync::{
    Arc, TryLockError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(tidegate_loom)]
pub(super) use loom::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
#[cfg(tidegate_loom)]
pub(super) use std::sync::TryLockError;

/// Locks where nobody else does.
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
