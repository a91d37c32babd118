//! The command line of each tool.
//!
//! Tools run with their defaults, without the user's settings: an empty home and a bare environment.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::case::Tool;
use super::server::{ACCESS_KEY, BUCKET, SECRET_KEY, Server};
use crate::measure::Run;
use crate::object::Object;
use crate::program::Program;

/// With 100 MiB/s each, this many streams fill every link of the benchmark.
const CURLS: u64 = 32;

/// The key of the uploaded object.
pub(super) const KEY: &str = "object";

/// A tool and its program.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) tool: Tool,
    pub(super) program: Program,
}

/// The file, and its pieces for the curls.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) object: Object,
    pieces: Vec<PathBuf>,
}

impl Source {
    /// Cuts the file. The pieces are files of their own, because curl sends whole files only.
    pub(super) fn cut(object: Object, folder: &Path) -> Result<Self> {
        let mut file = File::open(&object.path).context("opening the file")?;
        let share = object.len_bytes.div_ceil(CURLS).max(1);
        let mut pieces = Vec::new();
        for start in (0..object.len_bytes).step_by(usize::try_from(share)?) {
            let path = folder.join(format!("piece-{}", pieces.len()));
            file.seek(SeekFrom::Start(start))?;
            let mut piece = File::create_new(&path).context("creating a piece")?;
            std::io::copy(&mut (&mut file).take(share), &mut piece).context("writing a piece")?;
            pieces.push(path);
        }
        Ok(Self { object, pieces })
    }

    /// The keys and lengths of the objects that a tool makes.
    pub(super) fn made(&self, tool: Tool) -> Result<Vec<(String, u64)>> {
        if tool != Tool::CurlX32 {
            return Ok(vec![(KEY.to_owned(), self.object.len_bytes)]);
        }
        let made = self.pieces.iter().enumerate().map(|(index, path)| {
            let len_bytes = path.metadata().context("reading a piece")?.len();
            Ok((format!("{KEY}-{index}"), len_bytes))
        });
        made.collect()
    }
}

impl Installed {
    /// The commands that upload the file.
    pub(super) fn upload(&self, source: &Source, server: &Server, home: &Path) -> Run {
        let file = &source.object.path;
        let (target, endpoint) = (format!("{BUCKET}/{KEY}"), &server.endpoint);
        let mut command = command(&self.program, home);
        match self.tool {
            Tool::Tidegate => return tidegate(&self.program, &[], file, server, home),
            Tool::S5cmd => {
                command.args(["--log", "error", "--endpoint-url", endpoint, "cp"]);
                command.arg(file).arg(format!("s3://{target}"));
            }
            Tool::Rclone => {
                command
                    .env("RCLONE_CONFIG_PEER_TYPE", "s3")
                    .env("RCLONE_CONFIG_PEER_PROVIDER", "Other")
                    .env("RCLONE_CONFIG_PEER_ENV_AUTH", "true")
                    .env("RCLONE_CONFIG_PEER_ENDPOINT", endpoint);
                // It would ask for the bucket, and make it. And it would skip an object that the run before has stored.
                command.args(["--config=", "--log-level", "ERROR", "--s3-no-check-bucket"]);
                command.arg("--ignore-times");
                command.arg("copyto").arg(file).arg(format!("peer:{target}"));
            }
            Tool::CurlX32 => {
                let piece = |(index, path): (usize, &PathBuf)| {
                    let mut command = self::command(&self.program, home);
                    // Otherwise curl waits for the server's consent, for up to a second.
                    command.args(["--header", "Expect:"]);
                    command.args(["--silent", "--show-error", "--fail", "--upload-file"]);
                    command.arg(path).arg(format!("{endpoint}/{target}-{index}"));
                    command
                };
                return Run { commands: source.pieces.iter().enumerate().map(piece).collect() };
            }
        }
        Run { commands: vec![command] }
    }
}

/// `tidegate cp` of a file, with these flags.
pub(super) fn tidegate(
    program: &Program,
    flags: &[&str],
    file: &Path,
    server: &Server,
    home: &Path,
) -> Run {
    let mut command = command(program, home);
    command.args(["cp", "--quiet", "--endpoint", &server.endpoint]).args(flags);
    command.arg(file).arg(format!("s3://{BUCKET}/{KEY}"));
    Run { commands: vec![command] }
}

fn command(program: &Program, home: &Path) -> Command {
    let mut command = Command::new(&program.path);
    command.env_clear().env("HOME", home).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}
