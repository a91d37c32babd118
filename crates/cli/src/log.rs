//! The library's events on standard error, one line each: `-v`, `--debug` and `RUST_LOG`; with
//! `--progress json`, each restart as an object.
//!
//! This is a layer of a few lines instead of the one of `tracing-subscriber`, because there is one format
//! and one output. Spans of the library are ignored: its events already name their blob. A full line
//! begins with the span of a request to the server, if the filter shows it. The filter of `RUST_LOG` is
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
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry, Scope};

use crate::args::OutputArgs;
use crate::console::Console;
use crate::json;

/// Events of this crate and below are shown by `-v` and `--debug`.
const LIBRARY: &str = "tidegate";

/// The spans of this crate are shown: those of requests.
const SERVER: &str = "tidegate_server";

/// The variable with a filter, as for other programs in Rust.
const VARIABLE: &str = "RUST_LOG";

/// What a server shows without any option: what its operator must know.
const OF_SERVER: (&str, LevelFilter) = (LIBRARY, LevelFilter::WARN);

/// From now on the events that the options and `RUST_LOG` ask for are written to standard error.
///
/// What it returns is dropped when the process ends: it sends the spans that wait.
pub(crate) fn listen(console: &Console, output: &OutputArgs, is_server: bool) -> Listening {
    let given = std::env::var_os(VARIABLE).unwrap_or_default();
    let filter = filter(&given.to_string_lossy());
    if filter.is_none() && !given.is_empty() {
        console.line(&format!("note: {VARIABLE} is ignored: expected LEVEL or TARGET=LEVEL,..."));
    }
    let filter = match filter {
        Some(filter) if !given.is_empty() => filter,
        _ if is_server && !output.quiet => Targets::new().with_target(OF_SERVER.0, OF_SERVER.1),
        _ => Targets::new(),
    };
    let listening = Listening::start(console, is_server);
    let wanted = Wanted {
        verbose: output.verbose,
        debug: output.debug,
        restarts: console.is_json(),
        filter,
    };
    if wanted.is_anything() || listening.has_spans() {
        let keeps_spans = listening.has_spans();
        let log = Log { console: console.clone(), wanted, keeps_spans, start: Instant::now() };
        // It fails only if there is a subscriber already, and this is called once.
        let _ = listening.set_default(log);
    }
    listening
}

/// What sends spans to a collector, if the command is built for it and the environment names one.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    #[cfg(feature = "otlp")]
    sender: Option<tidegate_server::otlp::SpanSender>,
}

type SetDefault = Result<(), tracing::subscriber::SetGlobalDefaultError>;

#[cfg(not(feature = "otlp"))]
impl Listening {
    fn start(_: &Console, _: bool) -> Self {
        Self::default()
    }

    #[expect(clippy::unused_self, reason = "as with the feature otlp")]
    fn has_spans(&self) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "as with the feature otlp")]
    fn set_default(&self, log: Log) -> SetDefault {
        tracing::subscriber::set_global_default(Registry::default().with(log))
    }
}

#[cfg(feature = "otlp")]
impl Listening {
    fn start(console: &Console, is_server: bool) -> Self {
        let started = if is_server { tidegate_server::otlp::SpanSender::start() } else { Ok(None) };
        let sender = started.unwrap_or_else(|error| {
            console.line(&format!("note: no spans are sent: {error}"));
            None
        });
        Self { sender }
    }

    fn has_spans(&self) -> bool {
        self.sender.is_some()
    }

    fn set_default(&self, log: Log) -> SetDefault {
        let spans = self.sender.as_ref().map(tidegate_server::otlp::SpanSender::layer);
        let subscriber = Registry::default().with(log).with(spans);
        tracing::subscriber::set_global_default(subscriber)
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
    /// All spans are enabled, for another layer than this one.
    keeps_spans: bool,
    start: Instant,
}

/// The fields of a span, as text.
#[derive(Debug, Default)]
struct SpanText(String);

impl SpanText {
    fn add(&mut self, record: impl FnOnce(&mut Line)) {
        let mut line = Line::default();
        record(&mut line);
        self.0.push_str(&line.fields);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let wanted = &self.wanted;
        if metadata.is_span() {
            let is_shown = metadata.target().starts_with(SERVER) && wanted.in_full(metadata);
            return self.keeps_spans || is_shown;
        }
        wanted.in_full(metadata) || wanted.in_brief(metadata) || wanted.as_json(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if !attributes.metadata().target().starts_with(SERVER) {
            return;
        }
        let mut text = SpanText::default();
        text.add(|line| attributes.record(line));
        span.extensions_mut().insert(text);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(text) = span.extensions_mut().get_mut::<SpanText>() {
            text.add(|line| values.record(line));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
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
            let spans = spans(event, &context);
            format!("{seconds:>8.3} {level:>5} {target}: {spans}{}", line.text())
        } else if self.wanted.in_brief(metadata) {
            format!("debug: {}", line.text())
        } else {
            return;
        };
        // One line for each event.
        self.console.line(&escaped(&text));
    }
}

/// The spans of an event, the outermost first: `request{id=5 tool=bazel}: `.
fn spans<S: Subscriber + for<'a> LookupSpan<'a>>(
    event: &Event<'_>,
    context: &Context<'_, S>,
) -> String {
    let mut text = String::new();
    for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
        let extensions = span.extensions();
        let Some(SpanText(fields)) = extensions.get() else { continue };
        let fields = fields.trim_start();
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{{{fields}}}: ", span.name());
    }
    text
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
