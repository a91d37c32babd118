//! Runs futures for code without a runtime.
//!
//! One thread of the process, `tidegate-blocking`, drives the connections and timers of all
//! blocking calls. The calling thread polls the future itself, and sleeps until that thread wakes
//! it.
//!
//! Why not one runtime for each call: the client pools connections, and each connection belongs to
//! the runtime that created it. A runtime that runs only during one call would leave dead
//! connections in the pool for later calls.

use std::io;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::task::coop;

use crate::error::{Error, ErrorKind, Operation, Result};

/// More polls than tokio allows a task before it must yield: see [`refuse_inside_tasks`].
const POLLS_OF_A_TASK: usize = 256;

/// Permission to block on this thread.
pub(crate) struct Waiting<'a>(EnterGuard<'a>);

impl<'a> Waiting<'a> {
    /// Enters `handle`, or the runtime of the shared thread, which then drives the connections.
    ///
    /// Fails with `Unsupported` on a thread that runs asynchronous tasks.
    pub(crate) fn begin(
        handle: Option<&'a Handle>,
        operation: Operation,
        target: &str,
    ) -> Result<Self> {
        refuse_inside_tasks(operation, target)?;
        let failed = |message| Error::new(ErrorKind::Unsupported, operation, target, message);
        let handle = match handle {
            Some(handle) => handle,
            None => driver().map_err(failed)?,
        };
        Ok(Self(handle.enter()))
    }

    /// Waits for `future`. Unlike a runtime's `block_on`, this never panics.
    pub(crate) fn wait<F: Future>(self, future: F) -> F::Output {
        let output = parked(future);
        drop(self.0);
        output
    }
}

/// The runtime of all blocking calls. It lives as long as the process, because the connections that
/// it drives are pooled.
fn driver() -> std::result::Result<&'static Handle, String> {
    static DRIVER: OnceLock<std::result::Result<Handle, String>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        let failed = |error: io::Error| format!("no thread for connections: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("tidegate-blocking".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .map_err(failed)?;
        Ok(handle)
    });
    driver.as_ref().map_err(Clone::clone)
}

/// Fails on a thread that is running a task, because waiting would block all other tasks of that
/// thread.
///
/// Threads of `spawn_blocking` may wait, although they have a runtime, too. Tokio distinguishes
/// them only by a panic. But tokio limits how often a task may poll before it yields, and does not
/// limit these threads. If 256 polls proceed, this thread runs no task.
fn refuse_inside_tasks(operation: Operation, target: &str) -> Result<()> {
    if Handle::try_current().is_err() {
        return Ok(());
    }
    let mut cx = Context::from_waker(Waker::noop());
    let mut polls = Vec::with_capacity(POLLS_OF_A_TASK);
    while polls.len() < POLLS_OF_A_TASK {
        match coop::poll_proceed(&mut cx) {
            Poll::Ready(poll) => polls.push(poll),
            Poll::Pending => break,
        }
    }
    let has_budget = polls.len() < POLLS_OF_A_TASK;
    // Each poll restores the budget from before it, so the first must be dropped last.
    while polls.pop().is_some() {}
    if has_budget {
        let message = "a blocking call inside an asynchronous task";
        return Err(Error::new(ErrorKind::Unsupported, operation, target, message)
            .with_hint("await the call there, or make it in spawn_blocking"));
    }
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` on this thread, which sleeps between polls.
fn parked<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
