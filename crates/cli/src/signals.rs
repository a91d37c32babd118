//! Signals: the first Ctrl-C, SIGTERM or SIGHUP cancels the command, which saves its progress so
//! that the transfer can resume. The second Ctrl-C or SIGTERM ends the process at once. A limit on
//! file size makes the write fail with an error, as a full disk does.

use std::fs;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::session::Session;

/// From now on a write beyond the file size limit (`ulimit -f`) fails with `EFBIG`. The signal that
/// comes with it, which would end the process, has no effect. If the system grants no handler, the
/// signal still ends the process.
pub(crate) fn survive_file_limit() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
        return;
    };
    let _entered = runtime.enter();
    // A handler stays for as long as the process lives.
    let _ = signal(SignalKind::from_raw(Number::XFSZ.as_raw()));
}

/// Cancels the session on the first signal and exits on the second, for as long as the runtime
/// lives. `note` says what the first one does. If the system grants no handler, signals still end the
/// process at once.
pub(crate) fn watch(session: &Session, note: &'static str) {
    let (Ok(interrupt), Ok(terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    // `nohup` sets it to ignored, and it stays ignored.
    let hang_up = (!is_ignored(Number::HUP)).then(|| signal(SignalKind::hangup()).ok()).flatten();
    let session = session.clone();
    // Owned by the runtime, which ends it.
    tokio::spawn(async move {
        let mut ends = Ends { interrupt, terminate };
        tokio::select! {
            () = ends.next() => {}
            () = next(hang_up) => {}
        }
        session.cancel.cancel();
        session.say(&format!("{note} Press Ctrl-C again to quit now."));
        // A closed terminal often sends the signal twice: from its shell, and from the kernel.
        ends.next().await;
        session.console.clear();
        std::process::exit(i32::from(Exit::Cancelled.code()));
    });
}

/// The signals that people and scripts use to end a process.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
}

impl Ends {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

async fn next(signal: Option<Signal>) {
    match signal {
        Some(mut signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether the process was started with this signal ignored; false if the system does not report
/// it.
fn is_ignored(number: Number) -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (number.as_raw() - 1)) & 1 == 1)
}
