//! Signals: the first Ctrl-C, SIGTERM or SIGHUP asks the command to end in order, so that what was
//! fetched can be resumed; the second Ctrl-C or SIGTERM ends the process at once. A limit on the size
//! of files is an error of the write that meets it, as a full disk is.

use std::fs;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::session::Session;

/// From now on a write beyond the limit on the size of files (`ulimit -f`) fails with `EFBIG`, and
/// the signal that comes with it, which would end the process, does nothing. Where the system grants
/// no handler it stays as it was.
pub(crate) fn survive_file_limit() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
        return;
    };
    let _entered = runtime.enter();
    // A handler stays for as long as the process lives.
    let _ = signal(SignalKind::from_raw(Number::XFSZ.as_raw()));
}

/// Cancels the session on the first signal and exits on the second, for as long as the runtime
/// lives. Where the system grants no handler, signals keep ending the process at once.
pub(crate) fn watch(session: &Session) {
    let (Ok(interrupt), Ok(terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    // Under `nohup` it is ignored, and stays so.
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
        session.say("interrupted: ending in order; once more ends at once");
        // A terminal that is closed often tells of it twice: by its shell, and by the kernel.
        ends.next().await;
        session.console.clear();
        std::process::exit(i32::from(Exit::Cancelled.code()));
    });
}

/// What people and scripts end a process with.
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

/// Whether the process was started with this signal ignored. Where the system does not tell, it was
/// not.
fn is_ignored(number: Number) -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (number.as_raw() - 1)) & 1 == 1)
}
