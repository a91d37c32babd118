//! One run of the command against a server of its own.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions, pseudo_random};

/// Five shards, the last one shorter.
pub(crate) const LEN: usize = 300_000;
pub(crate) const SHARD_BYTES: u64 = 64 << 10;
pub(crate) const SHARDS: usize = 5;

const PATH: &str = "/bucket/blob";

/// `--memory` of every run.
const MEMORY_BYTES: u64 = 16 << 20;

/// The content of the target's name before the run.
const OLD: &[u8] = b"what was there before";

/// Far longer than any run takes. Only a hang reaches it.
const HANG: Duration = Duration::from_secs(50);

/// The command under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// `cp` into a file.
    Cp,
    /// `cp` into nothing.
    Null,
    /// `cat` into a pipe.
    Cat,
}

pub(crate) const VERBS: [Verb; 3] = [Verb::Cp, Verb::Null, Verb::Cat];

/// A server with one blob.
pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) bytes: Vec<u8>,
    flavour: Flavour,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// The object that `--json` prints; nothing for `cat`, whose output is the blob.
    pub(crate) json: Value,
    /// The target's content. Nothing if the target keeps nothing.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) left_part: bool,
    pub(crate) requests: usize,
    pub(crate) stderr: String,
}

impl Bed {
    pub(crate) async fn new(options: ServerOptions) -> Self {
        let bytes = pseudo_random(LEN, 7).to_vec();
        let flavour = options.flavour;
        let server = Server::start(options).await.unwrap();
        let bed = Self { server, bytes, flavour };
        bed.server.put(PATH, Blob::new(bed.bytes.clone()));
        bed
    }

    fn source(&self) -> String {
        match self.flavour {
            Flavour::Gcs => "gs://bucket/blob".to_owned(),
            Flavour::S3 => "s3://bucket/blob".to_owned(),
            _ => self.server.url(PATH),
        }
    }

    /// Runs the command in its own folder, and asserts what must hold however it ends.
    pub(crate) async fn run(&self, verb: Verb, extra: &[&str]) -> Ended {
        let folder = tempfile::tempdir().unwrap();
        let ended = self.run_in(&folder, verb, extra).await;
        assert!(ended.code.is_some(), "{verb:?}: ended by a signal");
        if ended.code != Some(0) && verb == Verb::Cp {
            assert_eq!(ended.content.as_deref(), Some(OLD), "{verb:?}: the target was touched");
        }
        if verb != Verb::Cat {
            let object = ended.json.as_object().unwrap_or_else(|| panic!("{verb:?}: {ended:?}"));
            assert_eq!(object.contains_key("error"), ended.code != Some(0), "{ended:?}");
        }
        if verb != Verb::Cat && ended.code == Some(0) {
            let peak = ended.json["held_bytes_peak"].as_u64().unwrap();
            assert!((1..=MEMORY_BYTES).contains(&peak), "{ended:?}");
        }
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        ended
    }

    async fn run_in(&self, folder: &TempDir, verb: Verb, extra: &[&str]) -> Ended {
        let before = self.server.requests();
        let target = folder.path().join("target");
        if verb == Verb::Cp {
            std::fs::write(&target, OLD).unwrap();
        }
        let mut command = self.command(folder, verb, &target, extra);
        let child = command.spawn().unwrap();
        let output = tokio::task::spawn_blocking(move || child.wait_with_output());
        let output: Output =
            tokio::time::timeout(HANG, output).await.expect("it hangs").unwrap().unwrap();
        tokio::time::timeout(HANG, self.server.idle()).await.expect("a request outlived it");
        let (json, content) = match verb {
            Verb::Cat => (Value::Null, Some(output.stdout)),
            Verb::Cp => (parse(&output.stdout), Some(std::fs::read(&target).unwrap())),
            Verb::Null => (parse(&output.stdout), None),
        };
        Ended {
            code: output.status.code(),
            json,
            content,
            left_part: left_part(folder),
            requests: self.server.requests() - before,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn command(&self, folder: &TempDir, verb: Verb, target: &PathBuf, extra: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        // Nothing of the tester's environment: no credentials, no endpoint, no proxy.
        command.env_clear().env("HOME", folder.path()).current_dir(folder.path());
        match verb {
            Verb::Cp => command.args(["cp", "--json"]).arg(self.source()).arg(target),
            Verb::Null => command.args(["cp", "--json"]).arg(self.source()).arg("/dev/null"),
            Verb::Cat => command.args(["cat", "--quiet"]).arg(self.source()),
        };
        command.args(["--endpoint", &self.server.endpoint(), "--anonymous"]);
        command.args(["--shard-size", "64KiB", "--memory", "16MiB"]);
        for default in [["--retries", "3"], ["--stall", "0.5"]] {
            if !extra.contains(&default[0]) {
                command.args(default);
            }
        }
        command.args(extra);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Ended {
    /// The blob arrived whole, after this many requests.
    #[track_caller]
    pub(crate) fn assert_whole(&self, bed: &Bed, requests: usize, label: &str) {
        assert_eq!(self.code, Some(0), "{label}: {self:?}");
        if let Some(content) = &self.content {
            assert!(*content == bed.bytes, "{label}: other content");
        }
        if !self.json.is_null() {
            assert_eq!(self.json["bytes"], LEN, "{label}");
        }
        assert_eq!(self.requests, requests, "{label}: requests");
        assert!(!self.left_part, "{label}: left its part file");
    }

    /// The command failed with this exit code and kind.
    #[track_caller]
    pub(crate) fn assert_fails(&self, verb: Verb, code: i32, kind: &str, label: &str) {
        assert_eq!(self.code, Some(code), "{label}: {self:?}");
        if verb != Verb::Cat {
            let error = &self.json["error"];
            assert_eq!(error["kind"], kind, "{label}: {self:?}");
            assert!(!error["message"].as_str().unwrap().is_empty(), "{label}");
        }
        let worthless = kind == "integrity" || kind == "changed";
        assert!(!worthless || !self.left_part, "{label}: a worthless part file");
    }
}

/// The one object on standard output.
fn parse(stdout: &[u8]) -> Value {
    let text = std::str::from_utf8(stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "one object, one line: {text:?}");
    serde_json::from_str(text).unwrap()
}

/// Whether a part file lies next to the target. Asserts that nothing else does, except the state
/// folder.
fn left_part(folder: &TempDir) -> bool {
    let mut left = false;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        match entry.unwrap().file_name().to_str().unwrap() {
            // `.local` holds the user's key.
            "target" | ".local" => {}
            ".target.tidegate-part" => left = true,
            other => panic!("left behind: {other}"),
        }
    }
    left
}
