//! Futures for code without a runtime.
//!
//! One thread of the process, `tidegate-blocking`, drives the connections and timers of all blocking
//! calls. The calling thread polls the future itself, and sleeps until that thread wakes it.
//!
//! Why not one runtime for each call: connections are pooled in the client, and each belongs to the
//! runtime that made it. A runtime that runs only during one call would leave its connections dead
//! in the pool, where other calls would find them.

use std::io;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::task::coop;

use crate::error::{Error, ErrorKind, Operation, Result};

/// More polls than tokio lets a task make without a break: see [`refuse_inside_tasks`].
const POLLS_OF_A_TASK: usize = 256;

/// The right to wait on this thread.
pub(crate) struct Waiting<'a>(EnterGuard<'a>);

impl<'a> Waiting<'a> {
    /// Connections are driven by `handle`, or by the shared thread.
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

    /// Waits for `future`. Unlike a runtime's `block_on` it never panics.
    pub(crate) fn wait<F: Future>(self, future: F) -> F::Output {
        let output = parked(future);
        drop(self.0);
        output
    }
}

/// The runtime of all blocking calls. It lives as long as the process, because connections that it
/// drives are pooled.
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

/// Fails on a thread that is running a task, where waiting would keep all its other tasks from
/// running.
///
/// Threads of `spawn_blocking` may wait, although they have a runtime, too. Tokio tells them apart
/// only by a panic. But a task has a budget of polls between breaks, and these threads have none: if
/// any number of polls proceeds, this thread runs no task.
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
    // Each gives back what was left before it, so the first must be the last.
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

/// Polls `future` on this thread, which sleeps in between.
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
