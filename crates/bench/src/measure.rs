//! Runs commands to their end and reads their time and memory from the kernel.
//!
//! Wall time is from the first spawn to the last end. Processor time and peak memory come from
//! `wait4`; its figures include the children that the child itself has waited for. The kernel
//! starts a child's peak at the peak of the process that spawned it, so this program must stay
//! small: it never holds more than some buffers.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

/// No tool takes minutes for some GiB over loopback; a tool that does has hung.
const RUN_LIMIT: Duration = Duration::from_mins(5);

/// Reports are some KiB. More would raise our own peak, and with it the peak of every later child.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The cost of one run. Several commands in parallel count as one: their processor times and peaks
/// are added.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// From the first spawn to the last end.
    pub(crate) wall_s: f64,
    /// User and system time.
    pub(crate) cpu_s: f64,
    /// Peak resident set, KiB.
    pub(crate) rss_kib_max: u64,
}

/// One command, or several that share the work. Their standard output is discarded.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) commands: Vec<Command>,
}

impl Run {
    /// Runs all commands in parallel. Fails when one of them fails, and ends the others.
    pub(crate) fn measure(&mut self) -> Result<Usage> {
        let started = Instant::now();
        let mut children = Vec::with_capacity(self.commands.len());
        for command in &mut self.commands {
            match spawn(command) {
                Ok(child) => children.push((child, describe(command))),
                Err(error) => {
                    end(children);
                    return Err(error);
                }
            }
        }
        let mut total = Usage { wall_s: 0.0, cpu_s: 0.0, rss_kib_max: 0 };
        let mut children = children.into_iter();
        while let Some((child, name)) = children.next() {
            match reap(child, &name, started + RUN_LIMIT) {
                Ok(usage) => {
                    total.cpu_s += usage.cpu_s;
                    total.rss_kib_max += usage.rss_kib_max;
                }
                Err(error) => {
                    end(children.collect());
                    return Err(error);
                }
            }
        }
        total.wall_s = started.elapsed().as_secs_f64();
        Ok(total)
    }
}

/// Runs one command to its end; returns its standard output and its cost.
pub(crate) fn capture(command: &mut Command) -> Result<(String, Usage)> {
    let name = describe(command);
    // Files, because no thread reads a pipe during the wait.
    let mut output = tempfile::tempfile().context("creating a temporary file")?;
    let mut complaints = tempfile::tempfile().context("creating a temporary file")?;
    let started = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("sharing a temporary file")?)
        .stderr(complaints.try_clone().context("sharing a temporary file")?)
        .spawn()
        .with_context(|| format!("starting {name}"))?;
    let reaped = reap(child, &name, started + RUN_LIMIT);
    let wall_s = started.elapsed().as_secs_f64();
    let usage = reaped.with_context(|| read_back(&mut complaints).unwrap_or_default())?;
    Ok((read_back(&mut output)?, Usage { wall_s, ..usage }))
}

/// Reads the output of a child, up to the limit.
fn read_back(file: &mut File) -> Result<String> {
    file.rewind().context("reading what a program wrote")?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).context("reading what a program wrote")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

fn spawn(command: &mut Command) -> Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", describe(command)))
}

fn end(children: Vec<(Child, String)>) {
    for (mut child, _) in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Waits for one child, at most until `deadline`, and reads its figures.
fn reap(mut child: Child, name: &str, deadline: Instant) -> Result<Usage> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
    let ended = pidfd_open(pid, PidfdFlags::empty()).context("watching a process")?;
    if !wait_readable(&ended, deadline)? {
        child.kill().ok();
        child.wait().ok();
        bail!("did not end within {RUN_LIMIT:?}: {name}");
    }
    let (status, usage) = wait_with_usage(pid).with_context(|| format!("waiting for {name}"))?;
    ensure!(status.success(), "{status}: {name}");
    Ok(usage)
}

fn wait_readable(ended: &OwnedFd, deadline: Instant) -> Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("a limit beyond reason")?;
        let mut watched = [PollFd::new(ended, PollFlags::IN)];
        match poll(&mut watched, Some(&left)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("watching a process"),
        }
    }
}

/// Calls `wait4`, which the standard library and rustix do not offer. The child must not have been
/// waited for.
fn wait_with_usage(pid: Pid) -> std::io::Result<(ExitStatus, Usage)> {
    use std::os::unix::process::ExitStatusExt;

    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let raw_pid = pid.as_raw_nonzero().get();
    #[expect(unsafe_code, reason = "no safe interface gives the usage of one child")]
    // SAFETY: both pointers are to live locals of the types that wait4 writes.
    let reaped = unsafe { libc::wait4(raw_pid, &raw mut status, 0, usage.as_mut_ptr()) };
    if reaped != raw_pid {
        return Err(std::io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "no safe interface gives the usage of one child")]
    // SAFETY: all zeros is a valid rusage, and wait4 has filled it in.
    let usage = unsafe { usage.assume_init() };
    let cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    let rss_kib_max = u64::try_from(usage.ru_maxrss).unwrap_or(0);
    Ok((ExitStatus::from_raw(status), Usage { wall_s: 0.0, cpu_s, rss_kib_max }))
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a run that lasts minutes at most")]
fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_run_adds_up_what_its_commands_took() {
        let busy = "i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done";
        let one = Run { commands: vec![shell(busy)] }.measure().unwrap();
        assert!(one.cpu_s > 0.0 && one.wall_s > 0.0, "{one:?}");
        assert!(one.rss_kib_max > 100, "{one:?}");
        let idle = Run { commands: vec![shell(":"), shell(":")] }.measure().unwrap();
        assert!(idle.rss_kib_max > one.rss_kib_max, "{idle:?} holds two shells, {one:?} one");
    }

    #[test]
    fn a_failed_command_fails_the_run_and_is_named() {
        let mut endless = Command::new("sleep");
        endless.arg("infinity");
        let mut run = Run { commands: vec![shell("exit 7"), endless] };
        let error = run.measure().unwrap_err().to_string();
        assert!(error.contains('7') && error.contains("sh -c exit 7"), "{error}");
    }

    #[test]
    fn what_a_program_says_is_handed_back() {
        let (output, usage) = capture(&mut shell("echo yes; echo no >&2")).unwrap();
        assert_eq!(output, "yes\n");
        assert!(usage.wall_s > 0.0, "{usage:?}");
        let error = format!("{:#}", capture(&mut shell("echo no >&2; exit 7")).unwrap_err());
        assert!(error.contains("no") && error.contains('7'), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let mut run = Run { commands: vec![Command::new("/nonexistent/tool")] };
        let error = run.measure().unwrap_err().to_string();
        assert!(error.contains("/nonexistent/tool"), "{error}");
    }
}
