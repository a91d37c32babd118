//! A command line that was not understood, told without what may be secret in it.

use std::io::{self, IsTerminal, Write};

use clap::error::ErrorKind;

use crate::console;
use crate::exit::Exit;
use crate::redact;
use crate::report::Failure;

/// Shows help and version on standard output, and errors on standard error, or in JSON where that
/// was asked for.
pub(crate) fn report(error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Colours where they are seen; clap has its own rules for that.
        return if error.print().is_ok() { Exit::Success } else { Exit::ClosedPipe };
    }
    let arguments = || std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned());
    if arguments().take_while(|text| text != "--").any(|text| text == "--json") {
        let text = redact::arguments(&error.render().to_string(), arguments());
        let failure = failure(&text);
        let json = serde_json::to_string(&failure.alone()).unwrap_or_default();
        let _ = console::print(&format!("{json}\n"));
        return Exit::Usage;
    }
    let rendered = error.render();
    let coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = if coloured { rendered.ansi().to_string() } else { rendered.to_string() };
    let _ = write!(io::stderr(), "{}", redact::arguments(&text, arguments()));
    Exit::Usage
}

/// The parser's text, without its prefix and its hints.
fn failure(text: &str) -> Failure {
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Failure {
        kind: tidegate::ErrorKind::Invalid.name(),
        message,
        hint: Some("see tidegate --help".to_owned()),
        attempts: None,
    }
}
