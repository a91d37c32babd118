//! The library's events on standard error, one line each: `-v`, `--debug` and `RUST_LOG`; with
//! `--progress json`, each restart as an object.
//!
//! This is a subscriber of a few lines instead of a framework, because there is one format and one
//! output. Spans are ignored: the events already name their blob. The filter of `RUST_LOG` is
//! [`Targets`]. `EnvFilter` also reads fields of spans, but needs regular expressions: it adds 700
//! KiB to a small program, where `Targets` adds 18 KiB.

use std::fmt::{self, Write as _};
use std::str::FromStr as _;
use std::time::Instant;

use serde_json::{Map, Value};
use tidegate::events::{REQUEST, RESTART};
use tidegate_core::printable::escaped;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;

use crate::args::OutputArgs;
use crate::console::Console;
use crate::json;

/// Events of this crate and below are shown by `-v` and `--debug`.
const LIBRARY: &str = "tidegate";

/// The variable with a filter, as for other programs in Rust.
const VARIABLE: &str = "RUST_LOG";

/// From now on the events that the options and `RUST_LOG` ask for are written to standard error.
pub(crate) fn listen(console: &Console, output: &OutputArgs) {
    let given = std::env::var_os(VARIABLE).unwrap_or_default();
    let filter = filter(&given.to_string_lossy());
    if filter.is_none() && !given.is_empty() {
        console.line(&format!("note: {VARIABLE} is ignored: expected LEVEL or TARGET=LEVEL,..."));
    }
    let filter = filter.unwrap_or_default();
    let wanted = Wanted {
        verbose: output.verbose,
        debug: output.debug,
        restarts: console.is_json(),
        filter,
    };
    if wanted.is_anything() {
        let log = Log { console: console.clone(), wanted, start: Instant::now() };
        // It fails only if there is a subscriber already, and this is called once.
        let _ = tracing::subscriber::set_global_default(log);
    }
}

/// The filter of this text; an empty one shows nothing. `None` if the text is invalid.
fn filter(text: &str) -> Option<Targets> {
    let directives: Vec<&str> =
        text.split(',').map(str::trim).filter(|directive| !directive.is_empty()).collect();
    if directives.is_empty() {
        return Some(Targets::new());
    }
    Targets::from_str(&directives.join(",")).ok()
}

/// The events that are shown.
#[derive(Debug)]
struct Wanted {
    verbose: bool,
    debug: bool,
    /// Restarts as JSON.
    restarts: bool,
    filter: Targets,
}

impl Wanted {
    fn is_anything(&self) -> bool {
        let has_filter = self.filter.iter().next().is_some()
            || self.filter.default_level().is_some_and(|level| level != LevelFilter::OFF);
        self.verbose || self.debug || self.restarts || has_filter
    }

    /// Whether there is a line with time, level and target.
    fn in_full(&self, event: &Metadata<'_>) -> bool {
        (self.debug && is_of_library(event))
            || self.filter.would_enable(event.target(), event.level())
    }

    /// Whether `-v` alone shows it: everything of the library but requests.
    fn in_brief(&self, event: &Metadata<'_>) -> bool {
        self.verbose && is_of_library(event) && event.target() != REQUEST
    }

    fn as_json(&self, event: &Metadata<'_>) -> bool {
        self.restarts && event.target() == RESTART
    }
}

fn is_of_library(event: &Metadata<'_>) -> bool {
    *event.level() <= Level::DEBUG && event.target().starts_with(LIBRARY)
}

#[derive(Debug)]
struct Log {
    console: Console,
    wanted: Wanted,
    start: Instant,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let wanted = &self.wanted;
        metadata.is_event()
            && (wanted.in_full(metadata) || wanted.in_brief(metadata) || wanted.as_json(metadata))
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        if self.wanted.as_json(metadata) {
            let mut restart = Restart::default();
            event.record(&mut restart);
            let _ = self.console.write(&json::text(&restart.object()));
        }
        let mut line = Line::default();
        event.record(&mut line);
        let text = if self.wanted.in_full(metadata) {
            let seconds = self.start.elapsed().as_secs_f64();
            let (level, target) = (metadata.level(), metadata.target());
            format!("{seconds:>8.3} {level:>5} {target}: {}", line.text())
        } else if self.wanted.in_brief(metadata) {
            format!("debug: {}", line.text())
        } else {
            return;
        };
        // One line for each event.
        self.console.line(&escaped(&text));
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
        format!("{}{}", self.message, self.fields).trim_start().to_owned()
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
    /// The numbers are times in milliseconds; further digits mean nothing.
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, format_args!("{value:.1}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}

/// A restart as an object of `--progress json`.
#[derive(Debug, Default)]
struct Restart(Map<String, Value>);

impl Restart {
    fn object(mut self) -> Map<String, Value> {
        self.0.insert("event".to_owned(), "restart".into());
        self.0
    }

    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        // As in the events of the transfer.
        let name = if field.name() == "target" { "source" } else { field.name() };
        if name != "message" {
            self.0.insert(name.to_owned(), value.into());
        }
    }
}

impl Visit for Restart {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.add(field, u64::try_from(value).unwrap_or(u64::MAX));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_filters_are_understood() {
        for (text, target, shown) in [
            ("", "tidegate", false),
            (" , ", "tidegate", false),
            ("off", "tidegate", false),
            ("debug", "hyper_util", true),
            ("tidegate=trace", "tidegate::read", true),
            ("tidegate=trace", "h2", false),
            ("tidegate::request=debug,hyper=info", "tidegate::request", true),
            ("tidegate::request=debug,hyper=info", "hyper::client", false),
            ("warn,tidegate::restart=debug", "tidegate::restart", true),
            ("warn, tidegate::restart=debug", "tidegate::request", false),
            ("tidegate", "tidegate::request", true),
        ] {
            let filter = filter(text).unwrap();
            assert_eq!(filter.would_enable(target, &Level::DEBUG), shown, "{text:?} {target}");
        }
        assert!(filter("tidegate=loud").is_none());
    }
}
