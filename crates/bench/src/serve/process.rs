//! [`ServerProcess`]: a server's process: its address, its processor time, its memory.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;

/// The slowest server is a Python program.
const START_LIMIT: Duration = Duration::from_mins(1);
/// A server that takes longer to end is killed.
const END_LIMIT: Duration = Duration::from_mins(1);

/// A running server, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: String,
    pub(crate) store: PathBuf,
    /// From the spawn to the first connection that was accepted.
    pub(crate) listening: Duration,
    pub(crate) started: Instant,
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessUse {
    pub(crate) cpu_s: f64,
    pub(crate) rss_kib: u64,
    pub(crate) rss_kib_max: u64,
}

impl ServerProcess {
    /// Starts a server; returns when it accepts connections.
    pub(crate) async fn start(
        mut command: Command,
        address: String,
        store: PathBuf,
    ) -> Result<Self> {
        let started = Instant::now();
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("starting {program}"))?;
        let mut server = Self { child, address, store, listening: Duration::ZERO, started };
        while TcpStream::connect(&server.address).await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{program} ended with {status}");
            }
            ensure!(started.elapsed() < START_LIMIT, "{program} does not listen");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.listening = started.elapsed();
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process and its children.
    pub(crate) fn used(&self) -> Result<ProcessUse> {
        let mut sum = used(self.pid()).context("the server is gone")?;
        for child in children(self.pid()).into_iter().filter_map(used) {
            sum.cpu_s += child.cpu_s;
            sum.rss_kib += child.rss_kib;
            sum.rss_kib_max += child.rss_kib_max;
        }
        Ok(sum)
    }

    /// Ends the server and removes its store.
    pub(crate) fn end(self) -> Result<()> {
        let store = self.stop()?;
        let removed =
            if store.is_dir() { fs::remove_dir_all(&store) } else { fs::remove_file(&store) };
        removed.with_context(|| format!("removing {}", store.display()))
    }

    /// Ends the server; returns its store.
    pub(crate) fn stop(mut self) -> Result<PathBuf> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no process id")?, Signal::TERM).context("ending the server")?;
        let deadline = Instant::now() + END_LIMIT;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(std::mem::take(&mut self.store))
    }

    /// Kills the server; returns its store.
    pub(crate) fn kill(mut self) -> Result<PathBuf> {
        self.child.kill().context("killing the server")?;
        self.child.wait().context("killing the server")?;
        Ok(std::mem::take(&mut self.store))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It has ended already, or a measurement failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    tasks.unwrap_or_default().split_whitespace().filter_map(|one| one.parse().ok()).collect()
}

/// `None` if the process is gone.
fn used(pid: u32) -> Option<ProcessUse> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    #[expect(clippy::cast_precision_loss, reason = "it is 100")]
    let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
    Some(ProcessUse {
        cpu_s: ticks / ticks_per_s,
        rss_kib: kib("VmRSS:")?,
        rss_kib_max: kib("VmHWM:")?,
    })
}

/// The processor time of this process, in seconds.
pub(crate) fn own_cpu_s() -> f64 {
    used(std::process::id()).map_or(0.0, |used| used.cpu_s)
}
