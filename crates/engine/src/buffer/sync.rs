//! The synchronisation primitives of the buffer: those of the standard library, or those of the
//! model checker with `--cfg tidegate_loom`.

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

/// Locks only if the lock is free.
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
