//! The bare programs: only what the kernel and the hash take.
//!
//! [`BareLog`] is a group commit of bytes: callers wait until a leader has written theirs. It keeps
//! no record, no index and no checksum.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use bytes::Bytes;
use rustix::fs::{Advice, fadvise, fdatasync};
use rustix::io::pwritev;
use tidegate_server::store::Level;

use crate::Outcome;

/// The most pieces that the kernel accepts in one call.
const PIECES_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Bytes>,
    /// Calls that joined the queue, and calls that are written.
    joined: u64,
    written: u64,
    has_leader: bool,
    has_failed: bool,
}

/// Writes over a file again and again.
#[derive(Debug)]
pub(crate) struct BareLog {
    file: File,
    len: u64,
    level: Level,
    queue: Mutex<Queue>,
    changed: Condvar,
    offset: Mutex<u64>,
}

impl BareLog {
    /// A file of `len` bytes that is written and durable: a recycled one.
    pub(crate) fn create(path: &Path, len: u64, level: Level) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        fill(&file, len)?;
        let (queue, changed, offset) = (Mutex::default(), Condvar::new(), Mutex::new(0));
        Ok(Self { file, len, level, queue, changed, offset })
    }

    /// Writes pieces together with those of other callers. They are synced at level `power`.
    pub(crate) fn write(&self, pieces: Vec<Bytes>) -> Outcome {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.extend(pieces);
        let ticket = queue.joined;
        queue.joined += 1;
        while queue.written <= ticket {
            if queue.has_failed {
                return Err("a write of another caller failed".into());
            }
            if queue.has_leader {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.has_leader = true;
            let (taken, upto) = (std::mem::take(&mut queue.waiting), queue.joined);
            drop(queue);
            let outcome = self.write_group(&taken);
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.has_leader = false;
            queue.has_failed |= outcome.is_err();
            queue.written = upto;
            self.changed.notify_all();
            outcome?;
        }
        Ok(())
    }

    fn write_group(&self, pieces: &[Bytes]) -> io::Result<()> {
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        for some in pieces.chunks(PIECES_MAX) {
            let len: u64 = some.iter().map(|piece| piece.len() as u64).sum();
            if *offset + len > self.len {
                *offset = 0;
            }
            let mut slices: Vec<IoSlice<'_>> =
                some.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut rest = slices.as_mut_slice();
            while !rest.is_empty() {
                let written = pwritev(&self.file, rest, *offset)?;
                *offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
        }
        if self.level == Level::Power {
            fdatasync(&self.file)?;
        }
        Ok(())
    }
}

/// Writes `len` bytes of noise and makes them durable.
pub(crate) fn fill(file: &File, len: u64) -> io::Result<()> {
    let mut noise = vec![0; 1 << 20];
    fastrand::Rng::with_seed(7).fill(&mut noise);
    let mut offset = 0;
    while offset < len {
        let wanted = usize::try_from((len - offset).min(1 << 20)).unwrap_or(1 << 20);
        file.write_all_at(&noise[..wanted], offset)?;
        offset += wanted as u64;
    }
    file.sync_all()
}

/// Drops the cached pages of all files below a folder. Cached names stay.
pub(crate) fn drop_cached(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            drop_cached(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            // Only written pages can be dropped.
            file.sync_data()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
