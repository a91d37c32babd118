//! Idle connections, kept for the next request to the same origin.
//!
//! `take` returns the youngest connection first: the server is least likely to have closed it, and
//! surplus connections reach their age limit. The pool does not poll its connections; see [`Link`].
//!
//! One sweeper task closes connections that have been idle too long. It runs in the runtime that
//! first gave back a connection. It ends with the pool, or when the pool is empty. If that runtime
//! has ended or does not run, the next use of the pool closes the expired connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::link::{Link, Origin};

/// Idle connections are kept this long: below the 60 s after which common load balancers close
/// them, so that no request is sent into a closing connection.
const IDLE_MAX: Duration = Duration::from_secs(55);

/// Idle connections kept for one origin: the default budget's number of requests in flight.
const IDLE_OF_AN_ORIGIN_MAX: usize = 64;

/// Idle connections kept in total: a quarter of a process's usual limit of open files. At this
/// count a linear search is cheap.
const IDLE_CONNECTIONS_MAX: usize = 256;

/// The idle connections; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// In order of arrival.
    idle: VecDeque<Idle>,
    sweeper: Option<AbortHandle>,
}

#[derive(Debug)]
struct Idle {
    link: Box<Link>,
    until: Instant,
}

impl Kept {
    /// Removes the expired connections. The caller drops them after it releases the lock.
    fn expired(&mut self) -> Vec<Idle> {
        let now = Instant::now();
        let count = self.idle.iter().take_while(|idle| idle.until <= now).count();
        self.idle.drain(..count).collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the expired connections. Returns when the next one expires, or `None` if the pool is
    /// empty.
    fn sweep(&self) -> Option<Instant> {
        let mut kept = self.lock();
        let expired = kept.expired();
        let next = kept.idle.front().map(|idle| idle.until);
        if next.is_none() {
            kept.sweeper = None;
        }
        drop(kept);
        drop(expired);
        next
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.lock().sweeper {
            sweeper.abort();
        }
    }
}

impl Pool {
    /// Equal for clones.
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The connection to `origin` that was given back last.
    pub(super) fn take(&self, origin: &Origin) -> Option<Box<Link>> {
        let mut kept = self.0.lock();
        let expired = kept.expired();
        let found = kept.idle.iter().rposition(|idle| idle.link.origin() == origin);
        let idle = found.and_then(|at| kept.idle.remove(at));
        drop(kept);
        drop(expired);
        idle.map(|idle| idle.link)
    }

    /// Keeps a connection, or closes it if the origin already has its maximum.
    pub(super) fn put(&self, link: Box<Link>) {
        let mut kept = self.0.lock();
        let mut closed = kept.expired();
        let alike = kept.idle.iter().filter(|idle| idle.link.origin() == link.origin());
        if alike.count() < IDLE_OF_AN_ORIGIN_MAX {
            if kept.idle.len() >= IDLE_CONNECTIONS_MAX {
                closed.extend(kept.idle.pop_front());
            }
            kept.idle.push_back(Idle { link, until: Instant::now() + IDLE_MAX });
            self.watch(&mut kept);
        }
        drop(kept);
        drop(closed);
    }

    /// Starts the sweeper if it does not run.
    fn watch(&self, kept: &mut Kept) {
        if kept.sweeper.as_ref().is_none_or(AbortHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            let sweeper = runtime.spawn(sweep(Arc::downgrade(&self.0)));
            kept.sweeper = Some(sweeper.abort_handle());
        }
    }
}

async fn sweep(shared: Weak<Shared>) {
    while let Some(next) = shared.upgrade().and_then(|shared| shared.sweep()) {
        sleep_until(next).await;
    }
}
