//! What every test needs: a server with a blob, a folder, and the binary with an environment that
//! takes nothing from the machine.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions, pseudo_random};
use tokio::process::Command;

/// No test should take longer. A test that does is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Small, so that a test's blob has many shards.
pub(crate) const SHARD: &str = "64KiB";

/// A server and a folder.
pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
}

/// The outcome of one run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Bed {
    pub(crate) async fn new(options: ServerOptions) -> Self {
        let server = Server::start(options).await.unwrap();
        Self { server, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn http() -> Self {
        Self::new(ServerOptions::default()).await
    }

    pub(crate) async fn gcs() -> Self {
        Self::new(ServerOptions::of(Flavour::Gcs)).await
    }

    /// Puts a blob of `len_bytes` bytes and returns them.
    pub(crate) fn put(&self, path: &str, len_bytes: usize) -> Vec<u8> {
        let bytes = pseudo_random(len_bytes, 7);
        self.server.put(path, Blob::new(bytes.clone()));
        bytes.to_vec()
    }

    /// A name in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as an argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Everything in the folder, hidden part files included.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        run_in(self.folder.path(), args).await
    }

    /// `tidegate COMMAND` against this server as GCS.
    pub(crate) async fn gcs_run(&self, args: &[&str]) -> Ran {
        let endpoint = self.server.endpoint();
        self.run(&[args, &["--anonymous", "--endpoint", &endpoint]].concat()).await
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The binary, in this folder. Its environment only says where tools are.
pub(crate) fn command(folder: &Path) -> Command {
    isolated(env!("CARGO_BIN_EXE_tidegate"), folder)
}

/// `sh -c SCRIPT`, where `$0` is the binary.
pub(crate) fn shell(folder: &Path, script: &str, args: &[&str]) -> Command {
    let mut command = isolated("sh", folder);
    command.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]).args(args);
    command
}

/// Whether these tests were started with SIGHUP ignored, as by `nohup`. A child would inherit this.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first signal.
    mask.is_some_and(|mask| mask & 1 == 1)
}

fn isolated(program: &str, folder: &Path) -> Command {
    let mut command = if hangup_is_ignored() {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP", program]);
        command
    } else {
        Command::new(program)
    };
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        // The folder of the part files' key: one for all tests, outside of every folder that a test
        // checks.
        .env("XDG_STATE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub(crate) async fn run_in(folder: &Path, args: &[&str]) -> Ran {
    let mut command = command(folder);
    command.args(args);
    finish(command).await
}

pub(crate) async fn finish(mut command: Command) -> Ran {
    let output = within(command.output()).await.unwrap();
    Ran::new(output.status, output.stdout, &output.stderr)
}

/// Fails a test that hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the command hangs")
}

impl Ran {
    pub(crate) fn new(status: ExitStatus, stdout: Vec<u8>, stderr: &[u8]) -> Self {
        Self { code: status.code(), stdout, stderr: String::from_utf8_lossy(stderr).into_owned() }
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Asserts the exit code. On a mismatch it shows the output.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.out(), self.stderr);
        self
    }

    /// Asserts that standard error says this.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "expected {text:?} in: {}", self.stderr);
        self
    }

    /// The one JSON object on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        object(&self.out())
    }
}

/// The one JSON object that `text` is.
#[track_caller]
pub(crate) fn object(text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
    assert!(value.is_object() && text.trim_end().lines().count() == 1, "{text:?}");
    value
}
