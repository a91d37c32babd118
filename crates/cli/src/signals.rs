//! Ctrl-C and SIGTERM: the first asks the command to end in order, so that what was fetched can be
//! resumed; the second ends the process at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::session::Session;

/// Cancels the session on the first signal and exits on the second, for as long as the runtime
/// lives. Where the system grants no handler, signals keep ending the process at once.
pub(crate) fn watch(session: &Session) {
    let (Ok(interrupt), Ok(terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    let session = session.clone();
    // Owned by the runtime, which ends it.
    tokio::spawn(async move {
        let mut signals = (interrupt, terminate);
        next(&mut signals).await;
        session.cancel.cancel();
        session.say("interrupted: ending in order; once more ends at once");
        next(&mut signals).await;
        session.console.clear();
        std::process::exit(i32::from(Exit::Cancelled.code()));
    });
}

async fn next((interrupt, terminate): &mut (Signal, Signal)) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
