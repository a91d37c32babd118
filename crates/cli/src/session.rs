//! State that all commands share while the process runs: the output, and cancellation.

use serde::Serialize;
use tidegate::{Error, Result};
use tokio_util::sync::CancellationToken;

use crate::args::{OutputArgs, ProgressArg};
use crate::console::{self, Console};
use crate::exit::Exit;
use crate::json;
use crate::report::Failure;
use crate::standard;

/// One run of the command.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) console: Console,
    pub(crate) output: OutputArgs,
    /// Cancelled by the first Ctrl-C.
    pub(crate) cancel: CancellationToken,
    /// Standard output carries a blob, so JSON goes to standard error.
    pub(crate) data_on_stdout: bool,
    /// Blobs in flight at once.
    pub(crate) blobs_at_once: usize,
}

impl Session {
    pub(crate) fn new(output: OutputArgs) -> Self {
        Self {
            console: Console::new(output.progress == ProgressArg::Json),
            output,
            cancel: CancellationToken::new(),
            data_on_stdout: false,
            blobs_at_once: 1,
        }
    }

    /// Writes the one JSON object.
    pub(crate) fn json(&self, value: &impl Serialize) -> Exit {
        self.written(self.write_json(value))
    }

    fn write_json(&self, value: &impl Serialize) -> Result<()> {
        let text = json::text(value);
        if self.data_on_stdout {
            return self.console.write(&text);
        }
        console::print(&format!("{text}\n"))
    }

    /// Writes a result to standard output.
    pub(crate) fn print(&self, text: &str) -> Exit {
        self.written(console::print(text))
    }

    /// The exit code of writing a result. A failure is reported as text, because the stream for
    /// JSON cannot be written.
    fn written(&self, outcome: Result<()>) -> Exit {
        match outcome {
            Ok(()) => Exit::Success,
            Err(error) => {
                let exit = Exit::from(&error);
                if exit != Exit::ClosedPipe {
                    self.console.line(&Failure::new(&error).text());
                }
                exit
            }
        }
    }

    /// Whether there is no progress: only the outcome is shown. The one object of `--json` on
    /// standard error must be the only output there, unless progress is asked for.
    pub(crate) fn is_silent(&self) -> bool {
        match self.output.progress {
            ProgressArg::Auto => {
                self.output.quiet || (self.output.json && self.data_on_stdout) || self.is_shown()
            }
            ProgressArg::Json => false,
            ProgressArg::None => true,
        }
    }

    /// Whether the blob is shown on the terminal that messages go to. There a bar would overwrite
    /// it, and a summary would look like its last line.
    fn is_shown(&self) -> bool {
        self.data_on_stdout && standard::output_is_terminal() && Console::is_terminal()
    }

    /// Writes a message for people that is no error.
    pub(crate) fn say(&self, text: &str) {
        if !self.output.quiet && !self.output.json {
            self.console.line(text);
        }
    }

    /// Writes the result of a transfer, unless the blob itself is shown there.
    pub(crate) fn say_result(&self, text: &str) {
        if self.output.verbose || !self.is_shown() {
            self.say(text);
        }
    }

    /// Reports the failure of the whole command.
    pub(crate) fn fail(&self, error: &Error) -> Exit {
        let exit = Exit::from(error);
        let failure = Failure::new(error);
        // A closed pipe on standard output is no error for people.
        let is_quiet = exit == Exit::ClosedPipe;
        if self.output.json && (self.data_on_stdout || !is_quiet) {
            if let Err(unwritten) = self.write_json(&failure.alone()) {
                self.console.line(&failure.text());
                self.written(Err(unwritten));
            }
        } else if !is_quiet && self.console.is_json() {
            let _ = self.console.write(&json::text(&failure.as_event()));
        } else if !is_quiet {
            self.console.line(&failure.text());
        }
        exit
    }

    /// The same for an outcome: returns the exit code or reports the failure.
    pub(crate) fn end(&self, outcome: Result<Exit>) -> Exit {
        outcome.unwrap_or_else(|error| self.fail(&error))
    }
}
