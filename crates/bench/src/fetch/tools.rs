//! The tools, and the command line of each for a given condition.
//!
//! Tools run with their defaults, unless a default would only slow them here; a comment says so
//! where it is changed. They run without the user's settings: an empty home and a bare environment.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::case::{Case, Link, Sink};
use super::server::Server;
use crate::measure::Run;
use crate::object::Object;
use crate::program::Program;

/// With 100 MiB/s each, this many streams fill every link of the benchmark. They are the physical
/// reference for the capped conditions.
const REFERENCE_STREAMS: u64 = 32;

/// One row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tool {
    /// `tidegate cp` without fsync, as no peer does one.
    Tidegate,
    /// `tidegate cp` as users run it: with fsync before the rename.
    TidegateFsync,
    /// `tidegate cp` with one request in flight.
    TidegateOneStream,
    /// `tidegate cp` from S3: the stored CRC64-NVME is verified.
    TidegateS3,
    /// `tidegate cp` from GCS: the stored CRC32C is verified.
    TidegateGcs,
    /// curl, one stream.
    Curl,
    /// s5cmd, from S3.
    S5cmd,
    /// aria2c with eight connections.
    Aria2c,
    /// rclone, from S3.
    Rclone,
    /// 32 curls in parallel, each for a range: the maximum rate of the capped link.
    CurlX32,
    /// cp of the local file: the fastest possible copy to disk.
    Cp,
}

/// Why a row is in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// The measured program.
    Ours,
    /// An alternative that people use.
    Peer,
    /// A limit of the machine; not a way that people fetch.
    Reference,
}

impl Tool {
    pub(crate) fn role(self) -> Role {
        match self {
            Self::Tidegate
            | Self::TidegateFsync
            | Self::TidegateOneStream
            | Self::TidegateS3
            | Self::TidegateGcs => Role::Ours,
            Self::Curl | Self::S5cmd | Self::Aria2c | Self::Rclone => Role::Peer,
            Self::CurlX32 | Self::Cp => Role::Reference,
        }
    }

    /// The program to run.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Tidegate
            | Self::TidegateFsync
            | Self::TidegateOneStream
            | Self::TidegateS3
            | Self::TidegateGcs => "tidegate",
            Self::Curl | Self::CurlX32 => "curl",
            Self::S5cmd => "s5cmd",
            Self::Aria2c => "aria2c",
            Self::Rclone => "rclone",
            Self::Cp => "cp",
        }
    }

    /// Its name in tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::TidegateFsync => "tidegate, fsync",
            Self::TidegateOneStream => "tidegate --window 1",
            Self::TidegateS3 => "tidegate s3://, verified",
            Self::TidegateGcs => "tidegate gs://, verified",
            Self::Curl => "curl",
            Self::S5cmd => "s5cmd",
            Self::Aria2c => "aria2c -x8",
            Self::Rclone => "rclone",
            Self::CurlX32 => "32 curls",
            Self::Cp => "cp of the local file",
        }
    }

    /// Why it has no row in this case, if it has none.
    pub(crate) fn left_out(self, case: Case) -> Option<&'static str> {
        match (self, case.sink(), case.link()) {
            (Self::TidegateFsync, Sink::Null | Sink::Tmpfs, _) => Some("there is nothing to sync"),
            (Self::Aria2c, Sink::Null, _) => Some("it writes to regular files only"),
            (Self::CurlX32, _, Link::Plain | Link::Delay) => {
                Some("it is the reference for the capped link")
            }
            (Self::Cp, Sink::Null, _) | (Self::Cp, _, Link::Delay | Link::Capped) => {
                Some("it is the floor for the plain link to a file")
            }
            _ => None,
        }
    }
}

/// One fetch to measure.
#[derive(Debug)]
pub(crate) struct Fetch<'a> {
    pub(crate) case: Case,
    pub(crate) server: &'a Server,
    pub(crate) object: &'a Object,
    /// The file to write; `/dev/null` for [`Sink::Null`].
    pub(crate) target: &'a Path,
    /// An empty folder as the user's home.
    pub(crate) home: &'a Path,
}

impl Fetch<'_> {
    /// The command line of `tool`, whose program is `program`.
    pub(crate) fn run(&self, tool: Tool, program: &Program) -> Result<Run> {
        let url = self.server.url(self.case.link());
        let mut command = self.command(program);
        match tool {
            Tool::Tidegate => command.args(["cp", "--quiet", "--durability", "none", &url]),
            Tool::TidegateFsync => command.args(["cp", "--quiet", &url]),
            Tool::TidegateOneStream => {
                command.args(["cp", "--quiet", "--durability", "none", "--window", "1", &url])
            }
            Tool::TidegateS3 => self.tidegate_bucket(&mut command, "s3"),
            Tool::TidegateGcs => self.tidegate_bucket(&mut command, "gs"),
            Tool::Curl => command.args(["--silent", "--show-error", "--fail", &url, "--output"]),
            Tool::S5cmd => self.s5cmd(&mut command),
            Tool::Rclone => self.rclone(&mut command),
            Tool::Cp => command.arg(&self.object.path),
            Tool::Aria2c => {
                self.aria2c(&mut command)?;
                return Ok(Run { commands: vec![command] });
            }
            Tool::CurlX32 => return Ok(Run { commands: self.parallel_curls(program, &url) }),
        };
        // Peers that cannot write to /dev/null write to their standard output, which is /dev/null.
        let to_output = matches!(tool, Tool::S5cmd | Tool::Rclone);
        if !(to_output && self.case.sink() == Sink::Null) {
            command.arg(self.target);
        }
        Ok(Run { commands: vec![command] })
    }

    fn command(&self, program: &Program) -> Command {
        let mut command = Command::new(&program.path);
        command.env_clear().env("HOME", self.home).env("AWS_REGION", "us-east-1");
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    fn tidegate_bucket<'c>(&self, command: &'c mut Command, scheme: &str) -> &'c mut Command {
        let endpoint = self.server.endpoint(self.case.link());
        let url = format!("{scheme}://{}", self.server.bucket_and_key());
        command.args(["cp", "--quiet", "--durability", "none", "--anonymous", "--endpoint"]);
        command.args([endpoint, url])
    }

    fn s5cmd<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let endpoint = self.server.endpoint(self.case.link());
        // `cp` would replace /dev/null by a file.
        let verb = if self.case.sink() == Sink::Null { "cat" } else { "cp" };
        let url = format!("s3://{}", self.server.bucket_and_key());
        command.args(["--no-sign-request", "--log", "error", "--endpoint-url", &endpoint]);
        command.args([verb, &url])
    }

    fn rclone<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("RCLONE_CONFIG_PEER_TYPE", "s3")
            .env("RCLONE_CONFIG_PEER_PROVIDER", "Other")
            .env("RCLONE_CONFIG_PEER_ENDPOINT", self.server.endpoint(self.case.link()));
        let verb = if self.case.sink() == Sink::Null { "cat" } else { "copyto" };
        let url = format!("peer:{}", self.server.bucket_and_key());
        command.args(["--config=", "--log-level", "ERROR", verb, &url])
    }

    fn aria2c(&self, command: &mut Command) -> Result<()> {
        let folder = self.target.parent().context("the target has no folder")?;
        let name = self.target.file_name().context("the target has no name")?;
        // Its default first writes zeros, which would only slow it here.
        command.args(["-x8", "-s8", "--quiet", "--file-allocation=falloc", "--dir"]);
        command.arg(folder).arg("--out").arg(name).arg(self.server.url(self.case.link()));
        Ok(())
    }

    fn parallel_curls(&self, program: &Program, url: &str) -> Vec<Command> {
        ranges(self.object.len_bytes, REFERENCE_STREAMS)
            .enumerate()
            .map(|(index, (first, last))| {
                let mut command = self.command(program);
                let range = format!("{first}-{last}");
                command.args(["--silent", "--show-error", "--fail", "--range", &range, url]);
                command.arg("--output").arg(match self.case.sink() {
                    Sink::Null => self.target.to_owned(),
                    Sink::Disk | Sink::Tmpfs => self.target.with_extension(index.to_string()),
                });
                command
            })
            .collect()
    }
}

/// Cuts `len_bytes` into at most `count` ranges of almost equal length: first and last byte.
fn ranges(len_bytes: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
    let share = len_bytes.div_ceil(count).max(1);
    (0..count)
        .map(move |index| (index * share, len_bytes.min((index + 1) * share)))
        .take_while(|(first, end)| first < end)
        .map(|(first, end)| (first, end - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_every_byte_once() {
        for len_bytes in [1, 31, 32, 33, 1000, 4096] {
            let mut next = 0;
            for (first, last) in ranges(len_bytes, 32) {
                assert_eq!(first, next, "of {len_bytes}");
                assert!(last >= first, "of {len_bytes}");
                next = last + 1;
            }
            assert_eq!(next, len_bytes);
        }
        assert_eq!(ranges(0, 32).count(), 0);
    }

    #[test]
    fn every_case_has_ours_and_a_peer_to_compare_with() {
        for case in Case::value_variants() {
            let rows = Tool::value_variants().iter().filter(|tool| tool.left_out(*case).is_none());
            let roles: Vec<Role> = rows.map(|tool| tool.role()).collect();
            assert!(roles.contains(&Role::Ours) && roles.contains(&Role::Peer), "{case:?}");
        }
    }
}
