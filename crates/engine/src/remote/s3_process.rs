//! The `credential_process` of an AWS profile: a program that prints temporary keys. The aws CLI
//! can be this program, for single sign-on and assumed roles.
//!
//! The program runs without a shell and without standard input. Its output, its time and the text
//! that an error shows of it have limits. It stays in the process group of its caller: so Ctrl-C
//! also stops it, and it can ask for a code on the terminal.
//!
//! Keys are kept in a [`CredentialCache`].
//!
//! Invariants: one run at a time serves all requests. No message quotes the standard output, which
//! holds secrets. Only the first line of standard error is shown.

mod output;
mod words;

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::credential_cache::{CredentialCache, Expiring};
use super::credentials::NoCredentials;

/// The AWS SDKs also wait for one minute. A new login takes longer, but it needs standard input.
const TIME_MAX: Duration = Duration::from_mins(1);

/// A token of AWS has at most a few KiB. This limit only stops a program that prints forever.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// Enough for the first line of standard error; the rest is read and dropped.
const STDERR_BYTES_MAX: u64 = 4096;

/// One line on a terminal, or a few.
const SHOWN_CHARS_MAX: usize = 300;

const HINT: &str = "check the credential_process by running it; it may ask for a new login \
     (such as by `aws sso login`)";

/// See the module docs.
pub(super) struct CredentialProcess {
    /// What names the program, such as `AWS profile work`.
    owner: String,
    program: String,
    arguments: Vec<String>,
    time_max: Duration,
    cache: CredentialCache<AwsCredential>,
}

impl fmt::Debug for CredentialProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command may hold secrets.
        f.debug_struct("CredentialProcess").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl CredentialProcess {
    /// The process that `command` starts; an error says why it cannot be one. `owner` names the
    /// command's origin in errors.
    pub(super) fn new(owner: &str, command: &str) -> Result<Self, &'static str> {
        let mut words = words::words(command)?.into_iter();
        let program = words.next().ok_or("it is empty")?;
        Ok(Self {
            owner: owner.to_owned(),
            program,
            arguments: words.collect(),
            time_max: TIME_MAX,
            cache: CredentialCache::default(),
        })
    }

    fn failure(&self, reason: &str) -> NoCredentials {
        let message = format!("credential_process of {} failed: {reason}", self.owner);
        NoCredentials::new(&message, HINT)
    }

    /// CANCEL: the program is killed.
    async fn run(&self) -> Result<Expiring<AwsCredential>, String> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let finished = tokio::time::timeout(self.time_max, finish(child));
        let output = finished
            .await
            .map_err(|_elapsed| format!("it did not end within {} s", self.time_max.as_secs()))??;
        let expiring = output::parse(&output)?;
        if expiring.expires.is_some_and(|expires| expires <= SystemTime::now()) {
            return Err("it gave credentials that have already expired".to_owned());
        }
        Ok(expiring)
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

#[async_trait]
impl CredentialProvider for CredentialProcess {
    type Credential = AwsCredential;

    // CANCEL: the program is killed; the next caller in line runs it again.
    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let run = || async {
            self.run().await.map_err(|reason| {
                let failure = self.failure(&reason);
                tracing::debug!(owner = self.owner, "{failure}");
                failure
            })
        };
        self.cache.get(run).await.map_err(NoCredentials::into)
    }
}

#[cfg(test)]
mod tests;
