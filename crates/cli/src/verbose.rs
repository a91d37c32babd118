//! The output of `-v`: the engine's own events, such as each restart and its cause, one line each.
//!
//! This is a subscriber of a few lines instead of a framework, because there is one format, one
//! filter and one output. Spans are ignored: the engine's events already name their blob.

use std::fmt::{self, Write as _};

use tidegate_core::printable::escaped;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::console::Console;

/// Events of these crates are shown.
const CRATES: &str = "tidegate";

/// From now on the engine's events are written to standard error.
pub(crate) fn listen(console: &Console) {
    // It fails only if there is a subscriber already, and this is called once.
    let _ = tracing::subscriber::set_global_default(Verbose(console.clone()));
}

#[derive(Debug)]
struct Verbose(Console);

impl Subscriber for Verbose {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::DEBUG
            && metadata.target().starts_with(CRATES)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        // One line for each event.
        self.0.line(&escaped(&line.text()));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An event as text: its message, then its fields.
#[derive(Debug, Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn text(&self) -> String {
        format!("debug: {}{}", self.message, self.fields)
    }

    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = if field.name() == "message" {
            self.message.write_fmt(value)
        } else {
            write!(self.fields, " {}={value}", field.name())
        };
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}
