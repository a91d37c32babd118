//! Standard error, shared by all code that writes messages for people. Lines never break a progress
//! bar, and no control character in them reaches a terminal. If a message that is only for people
//! cannot be written, it is dropped.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use serde::Serialize;
use tidegate::Result;
use tidegate_core::printable::escaped_lines;

use crate::json;
use crate::standard;

/// A handle on standard error; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Console {
    bar: Arc<Mutex<Option<ProgressBar>>>,
    is_json: bool,
}

/// A message for people, where every line is an object.
#[derive(Debug, Serialize)]
struct Message<'a> {
    event: &'static str,
    text: &'a str,
}

impl Console {
    /// Standard error, whose lines are JSON objects, all of them, if `is_json`.
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json, ..Self::default() }
    }

    /// Whether every line is a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether standard error is a terminal.
    pub(crate) fn is_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// Whether standard error is a terminal that moves its cursor and shows colours.
    pub(crate) fn has_escapes() -> bool {
        Self::is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
    }

    /// Writes a line, above the progress bar if there is one.
    pub(crate) fn line(&self, text: &str) {
        let _ = if self.is_json {
            self.write(&json::text(&Message { event: "message", text }))
        } else {
            self.write(text)
        };
    }

    /// Writes a line as it is. Fails if it cannot be written.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || standard::tell(&escaped_lines(text));
        match bar.as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// From now on lines go above this bar.
    pub(crate) fn show(&self, bar: &ProgressBar) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

/// Writes to standard output, with control characters escaped.
pub(crate) fn print(text: &str) -> Result<()> {
    standard::print(escaped_lines(text).as_bytes())
}
