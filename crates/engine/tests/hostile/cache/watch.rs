//! Panics anywhere in the process. Without this, panics of tasks and threads would go unnoticed.

use std::sync::{Mutex, PoisonError};

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records panics from now on, and reports them as before.
pub(crate) fn begin() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
        before(info);
    }));
}

/// The panics since the last call.
pub(crate) fn panics() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner))
}
