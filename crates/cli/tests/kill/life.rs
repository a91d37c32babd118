//! [`Life`]: one process of the server, from its start to its kill.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A server, and when it is killed.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) address: String,
    process: Mutex<Child>,
    events_left: AtomicUsize,
    is_killed: AtomicBool,
}

impl Drop for Life {
    /// A test that fails must leave no server.
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap();
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn spawn(folder: &Path, level: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().current_dir(folder).args(["serve", "--dir", "cache", "--json"]);
    command.args(["--max-size", "4GiB", "--listen", "127.0.0.1:0", "--level", level]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

impl Life {
    /// Starts a server that is killed at this event.
    pub(crate) async fn start(folder: &Path, level: &str, events: usize) -> Self {
        let mut process = spawn(folder, level);
        let stdout = process.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            line
        });
        let line = line.await.unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut messages = String::new();
            let _ = process.stderr.take().unwrap().read_to_string(&mut messages);
            panic!("the server did not start: {messages}")
        });
        let address = said["address"].as_str().unwrap().to_owned();
        Self {
            address,
            process: Mutex::new(process),
            events_left: AtomicUsize::new(events),
            is_killed: AtomicBool::new(false),
        }
    }

    /// Starts a server and kills it after a time: before, during or after its recovery.
    pub(crate) fn end_while_it_starts(folder: &Path, level: &str, micros: u64) {
        let mut process = spawn(folder, level);
        // The instant of the kill; nothing waits for a state.
        std::thread::sleep(Duration::from_micros(micros));
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// A message is being sent, or an answer arrived.
    pub(crate) fn event(&self) {
        let left = self
            .events_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if left == Ok(1) {
            self.kill();
        }
    }

    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.process.lock().unwrap().kill().unwrap();
    }

    /// Fails if a request failed while the server lived.
    #[track_caller]
    pub(crate) fn check_failure(&self, failure: &dyn std::fmt::Display) {
        assert!(self.is_killed.load(Ordering::Acquire), "a live server: {failure}");
    }

    /// Waits for the end of the process; it must have been killed.
    pub(crate) async fn wait(&self) {
        use std::os::unix::process::ExitStatusExt as _;

        let status = loop {
            if let Some(status) = self.process.lock().unwrap().try_wait().unwrap() {
                break status;
            }
            tokio::task::yield_now().await;
        };
        let mut messages = String::new();
        if let Some(mut stderr) = self.process.lock().unwrap().stderr.take() {
            let _ = stderr.read_to_string(&mut messages);
        }
        assert_eq!(status.signal(), Some(9), "{status}: {messages}");
    }
}
