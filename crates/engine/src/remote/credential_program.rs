//! A program of the user that prints credentials: [`Program`].
//!
//! It runs without a shell and without standard input. Its output, its time and the text that an
//! error shows of it have limits. It stays in the process group of its caller: so Ctrl-C also stops
//! it, and it can ask for a code on the terminal.
//!
//! Invariant: no message quotes the standard output, which holds secrets. Only the first line of
//! standard error is shown.

mod words;

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// The AWS SDKs also wait for one minute. A new login takes longer, but it needs standard input.
const TIME_MAX: Duration = Duration::from_mins(1);

/// A token has at most a few KiB. This limit only stops a program that prints forever.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// Enough for the first line of standard error; the rest is read and dropped.
const STDERR_BYTES_MAX: u64 = 4096;

/// One line on a terminal, or a few.
pub(super) const SHOWN_CHARS_MAX: usize = 300;

/// See the module docs.
pub(super) struct Program {
    name: String,
    arguments: Vec<String>,
    /// Variables in addition to those of this process.
    variables: Vec<(&'static str, String)>,
    pub(super) time_max: Duration,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command may hold secrets.
        f.write_str("Program(..)")
    }
}

impl Program {
    /// The program that `command` starts; an error says why it cannot be one.
    pub(super) fn new(command: &str) -> Result<Self, &'static str> {
        let mut words = words::words(command)?.into_iter();
        let name = words.next().ok_or("it is empty")?;
        let (arguments, variables) = (words.collect(), Vec::new());
        Ok(Self { name, arguments, variables, time_max: TIME_MAX })
    }

    /// The same with this variable.
    #[cfg(feature = "gcs")]
    pub(super) fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Runs it to its end. Returns its standard output.
    // CANCEL: the program is killed.
    pub(super) async fn run(&self) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.name);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let finished = tokio::time::timeout(self.time_max, finish(child)).await;
        finished
            .map_err(|_elapsed| format!("it did not end within {} s", self.time_max.as_secs()))?
    }
}

/// Waits for the program's end. Returns its standard output.
async fn finish(mut child: Child) -> Result<Vec<u8>, String> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = async { tokio::try_join!(whole(stdout), first_line(stderr)) };
    let (output, line) = read.await?;
    let status = child.wait().await.map_err(|error| format!("waiting for it failed: {error}"))?;
    match (status.success(), line) {
        (true, _) => Ok(output),
        (false, None) => Err(status.to_string()),
        (false, Some(line)) => Err(format!("{status}: {line}")),
    }
}

async fn whole(stdout: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let mut output = Vec::new();
    if let Some(stdout) = stdout {
        let mut limited = stdout.take(OUTPUT_BYTES_MAX + 1);
        let read = limited.read_to_end(&mut output).await;
        read.map_err(|error| format!("reading its output failed: {error}"))?;
    }
    if output.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(format!("its output has more than {OUTPUT_BYTES_MAX} bytes"));
    }
    Ok(output)
}

/// The first line with text; the aws CLI prints an empty line before a message.
async fn first_line(stderr: Option<impl AsyncRead + Unpin>) -> Result<Option<String>, String> {
    let Some(mut stderr) = stderr else { return Ok(None) };
    let mut start = Vec::new();
    let failed = |error| format!("reading its standard error failed: {error}");
    (&mut stderr).take(STDERR_BYTES_MAX).read_to_end(&mut start).await.map_err(failed)?;
    // The program must not wait for a full pipe.
    tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await.map_err(failed)?;
    let text = String::from_utf8_lossy(&start);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(line.map(|line| line.chars().take(SHOWN_CHARS_MAX).collect()))
}
