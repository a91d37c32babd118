//! [`Run`]: one download into a part file, in a table of the process, from the file's lock to its
//! end.
//!
//! A download whose future is dropped keeps its file until its writing threads have ended, a moment
//! later. A caller that starts the same download again in that moment finds the file locked. The
//! table distinguishes two cases. If the run continues, the new run is refused, as it is for a run
//! of another process. If the run was abandoned, the new run waits for its end.
//!
//! Invariant: a run is in the table while its file is locked, except for a moment at the start and
//! at the end.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An abandoned run writes its queued bytes, some MiB, and ends. A run that takes longer hangs in
/// its disk, possibly forever.
const ENDING_MAX: Duration = Duration::from_secs(30);

/// Identifies a file of this machine: its device and its inode.
type FileId = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No caller owns the run: its owner is not set yet, or was dropped and the run ends.
    Loose,
    /// A caller wants its outcome.
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

/// A run into a part file. It ends when this is dropped, after the file was unlocked.
#[derive(Debug)]
pub(super) struct Run {
    id: FileId,
    entry: Arc<Entry>,
}

/// Held by the caller that wants the outcome of a run. Dropping it abandons the run.
#[derive(Debug)]
pub(crate) struct RunOwner(Arc<Entry>);

impl Run {
    /// Starts a run into `file`, which the caller has locked.
    pub(super) fn begin(file: &File) -> io::Result<Self> {
        let id = id(file)?;
        let entry = Entry { state: Mutex::new(State::Loose), changed: Condvar::new() };
        let entry = Arc::new(entry);
        table().insert(id, Arc::clone(&entry));
        Ok(Self { id, entry })
    }

    /// Marks the run as owned, and returns the owner's handle.
    pub(super) fn owner(&self) -> RunOwner {
        self.entry.change(State::Owned);
        RunOwner(Arc::clone(&self.entry))
    }

    /// Waits for the end of the abandoned run that has `file` locked. Returns `false` if that run
    /// is still owned, does not end in time, or is not of this process. Blocks.
    pub(super) fn await_end(file: &File) -> io::Result<bool> {
        let entry = table().get(&id(file)?).cloned();
        Ok(entry.is_some_and(|entry| entry.await_end()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        {
            let mut table = table();
            // The file may belong to a newer run by now.
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
