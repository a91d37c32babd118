//! Reports an invalid command line, without the parts that may be secret.

use std::io::{self, IsTerminal};

use clap::error::ErrorKind;
use tidegate_core::printable::is_control;

use crate::console::{self, Console};
use crate::exit::Exit;
use crate::json;
use crate::redact;
use crate::report::Failure;
use crate::standard;

/// Shows help and version on standard output. Shows errors on standard error, or in JSON if the
/// command line asks for JSON.
pub(crate) fn report(error: &clap::Error) -> Exit {
    let rendered = error.render();
    let is_plain = std::env::var_os("NO_COLOR").is_some()
        || std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // The whole text is our own, and may contain colours.
        let coloured = io::stdout().is_terminal() && !is_plain;
        let text = if coloured { rendered.ansi().to_string() } else { rendered.to_string() };
        return match standard::print(text.as_bytes()) {
            Ok(()) => Exit::Success,
            Err(error) => unwritten(&error),
        };
    }
    let arguments = || std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned());
    let text = redact::arguments(&rendered.to_string(), arguments());
    if arguments().take_while(|text| text != "--").any(|text| text == "--json") {
        let failure = failure(&text);
        if let Err(error) = console::print(&format!("{}\n", json::text(&failure.alone()))) {
            Console::default().line(&failure.text());
            unwritten(&error);
        }
        return Exit::Usage;
    }
    // Coloured text contains the parser's control characters, so the arguments must contain none.
    let is_harmless = !arguments().any(|text| text.contains(is_control));
    if io::stderr().is_terminal() && !is_plain && is_harmless {
        let text = redact::arguments(&rendered.ansi().to_string(), arguments());
        let _ = standard::tell(text.trim_end());
    } else {
        Console::default().line(text.trim_end());
    }
    Exit::Usage
}

/// Reports that standard output cannot be written, unless its reader has closed the pipe.
fn unwritten(error: &tidegate::Error) -> Exit {
    let exit = Exit::from(error);
    if exit != Exit::ClosedPipe {
        Console::default().line(&Failure::new(error).text());
    }
    exit
}

/// The parser's text, without its prefix. Its first tip is the hint.
fn failure(text: &str) -> Failure {
    let tip = text.lines().find_map(|line| line.trim_start().strip_prefix("tip: "));
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Failure {
        kind: tidegate::ErrorKind::Invalid.name(),
        message,
        hint: Some(tip.unwrap_or("see tidegate --help").to_owned()),
        attempts: None,
    }
}
