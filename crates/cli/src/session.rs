//! What all commands share while the process runs: how to speak, and how to be stopped.

use serde::Serialize;
use tidegate::{Error, ErrorKind, Operation, Result};
use tokio_util::sync::CancellationToken;

use crate::args::OutputArgs;
use crate::console::{self, Console};
use crate::exit::Exit;
use crate::report::Failure;

/// One run of the command.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) console: Console,
    pub(crate) output: OutputArgs,
    /// Cancelled by the first Ctrl-C.
    pub(crate) cancel: CancellationToken,
    /// Standard output carries a blob, so JSON goes to standard error.
    pub(crate) data_on_stdout: bool,
}

impl Session {
    pub(crate) fn new(output: OutputArgs) -> Self {
        Self {
            console: Console::default(),
            output,
            cancel: CancellationToken::new(),
            data_on_stdout: false,
        }
    }

    /// Writes the one JSON object. Its shapes always serialise, so there is no error to show.
    pub(crate) fn json(&self, value: &impl Serialize) -> Exit {
        let text = serde_json::to_string(value).unwrap_or_default();
        if self.data_on_stdout {
            self.console.line(&text);
            return Exit::Success;
        }
        self.print(&format!("{text}\n"))
    }

    /// Writes a result to standard output.
    pub(crate) fn print(&self, text: &str) -> Exit {
        match console::print(text) {
            Ok(()) => Exit::Success,
            Err(error) => self.fail(
                &Error::new(
                    ErrorKind::Storage,
                    Operation::Write,
                    "standard output",
                    "it cannot be written",
                )
                .caused_by(error),
            ),
        }
    }

    /// Whether nothing but the outcome is to be seen. JSON on standard error stands there alone.
    pub(crate) fn is_silent(&self) -> bool {
        self.output.quiet || (self.output.json && self.data_on_stdout)
    }

    /// A line for people that is no error.
    pub(crate) fn say(&self, text: &str) {
        if !self.output.quiet && !self.output.json {
            self.console.line(text);
        }
    }

    /// Reports the failure of the whole command.
    pub(crate) fn fail(&self, error: &Error) -> Exit {
        let exit = Exit::from(error);
        let failure = Failure::new(error);
        if exit == Exit::ClosedPipe {
            // Nobody reads standard output any more, and this is no error to tell people.
            if self.output.json && self.data_on_stdout {
                self.json(&failure.alone());
            }
        } else if self.output.json {
            self.json(&failure.alone());
        } else {
            self.console.line(&failure.text());
        }
        exit
    }

    /// The same for an outcome.
    pub(crate) fn end(&self, outcome: Result<Exit>) -> Exit {
        outcome.unwrap_or_else(|error| self.fail(&error))
    }
}
