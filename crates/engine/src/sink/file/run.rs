//! [`Run`]: one download into a part file, known to the whole process from the file's lock to its
//! end.
//!
//! Why: a download whose future is dropped has its file until the threads that write for it have
//! ended, a moment later. Whoever begins the same download anew right then finds the file locked.
//! This tells them apart: a run that goes on, on which the new one is refused, as it is on one of
//! another process; and one that was abandoned, which is waited for.
//!
//! Invariant: a run is in the table while its file is locked, but for a moment at either end.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An abandoned run writes what is queued, some MiB, and ends. One that takes longer hangs in its
/// disk, and may do so for ever.
const ENDING_MAX: Duration = Duration::from_secs(30);

/// What names a file of this machine: its device, and its inode.
type FileId = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has it yet, or any more: it ends, or is about to be owned.
    Loose,
    /// Somebody wants its outcome.
    Owned,
    Ended,
}

#[derive(Debug)]
struct Entry {
    state: Mutex<State>,
    changed: Condvar,
}

type Table = HashMap<FileId, Arc<Entry>>;

fn table() -> MutexGuard<'static, Table> {
    static RUNS: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn id(file: &File) -> io::Result<FileId> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A run into a part file; it ends when this is dropped, which is when the file is unlocked.
#[derive(Debug)]
pub(super) struct Run {
    id: FileId,
    entry: Arc<Entry>,
}

/// Whoever wants the outcome of a run; dropped, it does not any more.
#[derive(Debug)]
pub(crate) struct RunOwner(Arc<Entry>);

impl Run {
    /// A run into `file`, which has been locked.
    pub(super) fn begin(file: &File) -> io::Result<Self> {
        let id = id(file)?;
        let entry = Entry { state: Mutex::new(State::Loose), changed: Condvar::new() };
        let entry = Arc::new(entry);
        table().insert(id, Arc::clone(&entry));
        Ok(Self { id, entry })
    }

    /// Who owns it from here on.
    pub(super) fn owner(&self) -> RunOwner {
        self.entry.change(State::Owned);
        RunOwner(Arc::clone(&self.entry))
    }

    /// Waits for the end of the run into `file` that has it locked; `false` where that goes on, or
    /// is none of this process. Blocks.
    pub(super) fn await_end(file: &File) -> io::Result<bool> {
        let entry = table().get(&id(file)?).cloned();
        Ok(entry.is_some_and(|entry| entry.await_end()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        {
            let mut table = table();
            // The file may be another run's by now.
            if table.get(&self.id).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) {
                table.remove(&self.id);
            }
        }
        self.entry.change(State::Ended);
    }
}

impl Drop for RunOwner {
    fn drop(&mut self) {
        self.0.change(State::Loose);
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, state: State) {
        let mut now = self.lock();
        if *now != State::Ended {
            *now = state;
        }
        drop(now);
        self.changed.notify_all();
    }

    fn await_end(&self) -> bool {
        let late = Instant::now() + ENDING_MAX;
        let mut state = self.lock();
        while *state == State::Loose {
            let left = late.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *state == State::Ended
    }
}
