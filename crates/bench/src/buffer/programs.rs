//! The two harnesses: built once, run for one subject and condition at a time.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::condition::{Condition, Subject};
use super::figure::Sample;
use crate::measure::capture;
use crate::peers;

/// The harnesses that are available.
#[derive(Debug)]
pub(crate) struct Programs {
    ours: PathBuf,
    kraken: Option<PathBuf>,
    /// The version that Go reports.
    pub(crate) go_version: Option<String>,
    /// Why Kraken's buffers cannot be measured.
    pub(crate) kraken_missing: Option<String>,
}

impl Programs {
    /// Builds both; without Go, ours alone.
    pub(crate) fn build() -> Result<Self> {
        let ours = build_ours()?;
        let (kraken, go_version, kraken_missing) = match build_kraken() {
            Ok((binary, version)) => (Some(binary), Some(version), None),
            Err(error) => (None, None, Some(format!("{error:#}"))),
        };
        Ok(Self { ours, kraken, go_version, kraken_missing })
    }

    /// Whether Kraken's harness is available.
    pub(crate) fn has_kraken(&self) -> bool {
        self.kraken.is_some()
    }

    /// One run of about `ms` milliseconds.
    pub(crate) fn run(&self, subject: Subject, condition: Condition, ms: u32) -> Result<Sample> {
        if let Some(pattern) = subject.kraken_pattern(condition) {
            let binary = self.kraken.as_ref().context("Kraken's buffers were not built")?;
            let mut command = Command::new(binary);
            command.args(["-test.run", "^$", "-test.benchmem", "-test.bench", &pattern]);
            command.arg("-test.benchtime").arg(format!("{ms}ms"));
            return Sample::from_go(&capture(&mut command)?.0);
        }
        let Some(case) = subject.case_name(condition) else {
            bail!("{subject:?} is in neither harness")
        };
        let mut command = Command::new(&self.ours);
        command.args(["--json", "--case", &case, "--ms", &ms.to_string()]);
        let (output, _) = capture(&mut command)?;
        serde_json::from_str(&output).with_context(|| format!("reading the result of {case}"))
    }
}

/// The engine's benchmark, as `cargo bench` would build it.
fn build_ours() -> Result<PathBuf> {
    let messages = peers::build(
        peers::cargo()
            .args(["bench", "--no-run", "--quiet", "--package", "tidegate"])
            .args(["--bench", "shard_buffer", "--message-format", "json"])
            .arg("--manifest-path")
            .arg(peers::sources("../../../Cargo.toml"))
            .arg("--target-dir")
            .arg(peers::target_folder()?),
    )?;
    let executable = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let named = message["target"]["name"] == "shard_buffer";
        Some(PathBuf::from(message["executable"].as_str().filter(|_| named)?))
    });
    executable.context("cargo did not say where the benchmark shard_buffer is")
}

/// The Go harness, and the version of Go.
fn build_kraken() -> Result<(PathBuf, String)> {
    let version = peers::build(Command::new("go").arg("version"))?;
    let binary = peers::build_folder("kraken-buffer")?.join("kraken-buffer.test");
    peers::build(
        Command::new("go")
            .args(["test", "-c", "-o"])
            .arg(&binary)
            .arg(".")
            .current_dir(peers::sources("kraken-buffer")),
    )?;
    Ok((binary, version.trim_start_matches("go version ").to_owned()))
}
