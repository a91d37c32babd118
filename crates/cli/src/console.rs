//! Standard error, shared by everyone who says something to people: lines never tear a progress
//! bar, and what cannot be written is dropped, as there is nobody left to tell.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;

/// A handle on standard error; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Console(Arc<Mutex<Option<ProgressBar>>>);

impl Console {
    /// Whether people watch.
    pub(crate) fn is_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// Writes a line, above the progress bar where there is one.
    pub(crate) fn line(&self, text: &str) {
        let bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || {
            let _ = writeln!(io::stderr().lock(), "{text}");
        };
        match bar.as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// From now on lines go above this bar.
    pub(crate) fn show(&self, bar: &ProgressBar) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

/// Writes to standard output. A reader that has gone away is an error to tell by its kind.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
