//! The peers' harnesses in `peers/`, built with their own tools into the target folder.
//!
//! If a harness cannot be built (no compiler, no registry), the report leaves it out and gives the
//! reason. This is not an error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The sources of one harness.
pub(crate) fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// Cargo's target folder: the parent of this program's own profile folder.
pub(crate) fn target_folder() -> Result<PathBuf> {
    if cfg!(debug_assertions) {
        bail!("an unoptimised build measures nothing: cargo run --release -p tidegate-bench");
    }
    let this = std::env::current_exe().context("finding this program")?;
    let folder = this.parent().and_then(Path::parent);
    Ok(folder.context("this program lies in no target folder")?.to_owned())
}

/// The build folder of one harness; it is kept from run to run.
pub(crate) fn build_folder(name: &str) -> Result<PathBuf> {
    let folder = target_folder()?.join("bench-peers").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// The cargo that started this program, or the one on the `PATH`.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a build tool; shows its output if it fails.
pub(crate) fn build(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name} is not installed"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    ensure!(
        output.status.success(),
        "{name} failed: {} {}",
        text(&output.stdout),
        text(&output.stderr)
    );
    Ok(text(&output.stdout))
}
