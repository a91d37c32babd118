//! [`Snapshots`]: the runs of each shard, in segment files.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, PoisonError};

use super::{MASTER_FOLDER, Run};
use crate::store::disk::{Disk, DiskFile, OpenMode};
use crate::store::index::{Entry, Loader};
use crate::store::pack::crc32c;

const PREFIX: &str = "segment-";
/// Attempts to read a run from a disk that fails. Damaged bytes are read once.
const ATTEMPTS_MAX: usize = 4;
const WRITE_BYTES: usize = 1 << 20;

fn path(segment: u64) -> String {
    format!("{MASTER_FOLDER}/{PREFIX}{segment:016x}")
}

/// Shards whose snapshot was damaged. Their values are missing.
#[derive(Debug, Default)]
pub(crate) struct DamagedShards(Mutex<BTreeSet<u16>>);

impl DamagedShards {
    pub(crate) fn add(&self, shard: u16) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard);
    }

    pub(crate) fn all(&self) -> BTreeSet<u16> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the snapshots that a master named when the store opened.
#[derive(Debug)]
pub(crate) struct Snapshots {
    disk: Arc<dyn Disk>,
    runs: Vec<Vec<Run>>,
    /// The file that was used last: shards of one segment follow one another.
    open: Mutex<Option<(u64, Arc<dyn DiskFile>)>>,
    damaged: Arc<DamagedShards>,
}

impl Snapshots {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        runs: Vec<Vec<Run>>,
        damaged: Arc<DamagedShards>,
    ) -> Self {
        Self { disk, runs, open: Mutex::new(None), damaged }
    }

    fn read(&self, run: &Run) -> io::Result<Option<Vec<Entry>>> {
        let file = self.file(run.segment)?;
        let mut bytes = vec![0; run.entries as usize * Entry::BYTES];
        if file.read_at(&mut bytes, run.offset)? != bytes.len() || crc32c(&bytes) != run.crc {
            return Ok(None);
        }
        let (entries, _) = bytes.as_chunks::<{ Entry::BYTES }>();
        Ok(Some(entries.iter().map(Entry::from_bytes).collect()))
    }

    fn file(&self, segment: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, file)) = &*open
            && *number == segment
        {
            return Ok(Arc::clone(file));
        }
        let file = self.disk.open(&path(segment), OpenMode::Read)?;
        *open = Some((segment, Arc::clone(&file)));
        Ok(file)
    }
}

impl Loader for Snapshots {
    fn load(&self, shard: u16) -> Vec<Entry> {
        let runs = self.runs.get(usize::from(shard)).map(Vec::as_slice).unwrap_or_default();
        let mut all = Vec::new();
        for run in runs {
            let mut attempts = (0..ATTEMPTS_MAX).map(|_| self.read(run));
            if let Some(Ok(Some(entries))) = attempts.find(Result::is_ok) {
                all.extend(entries);
            } else {
                // A later run says what is gone. Without it, a purged value could come back.
                self.damaged.add(shard);
                return Vec::new();
            }
        }
        all
    }
}

/// Writes one segment.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    number: u64,
    file: Arc<dyn DiskFile>,
    written: u64,
    pending: Vec<u8>,
}

impl SegmentWriter {
    pub(crate) fn create(disk: &dyn Disk, number: u64) -> io::Result<Self> {
        let file = disk.open(&path(number), OpenMode::Create)?;
        Ok(Self { number, file, written: 0, pending: Vec::new() })
    }

    /// Appends a run.
    pub(crate) fn write(&mut self, entries: &[Entry]) -> io::Result<Run> {
        let offset = self.written + self.pending.len() as u64;
        let start = self.pending.len();
        for entry in entries {
            self.pending.extend_from_slice(&entry.to_bytes());
        }
        let crc = crc32c(&self.pending[start..]);
        if self.pending.len() >= WRITE_BYTES {
            self.flush()?;
        }
        let entries = u32::try_from(entries.len()).map_err(io::Error::other)?;
        Ok(Run { segment: self.number, offset, entries, crc })
    }

    /// Makes the segment durable. Returns its length.
    pub(crate) fn finish(mut self, disk: &dyn Disk) -> io::Result<u64> {
        self.flush()?;
        self.file.sync()?;
        disk.sync_folder(MASTER_FOLDER)?;
        Ok(self.written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&[IoSlice::new(&self.pending)], self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Removes a segment that no master names. If that fails, the next checkpoint removes it.
pub(crate) fn remove_segment(disk: &dyn Disk, segment: u64) {
    let _ = disk.unlink(&path(segment));
}

/// Removes the segments that no run is in. Returns the bytes of the other files, the master's too.
pub(crate) fn remove_unused(disk: &dyn Disk, runs: &[Vec<Run>]) -> io::Result<u64> {
    let used: BTreeSet<String> =
        (runs.iter().flatten()).map(|run| format!("{PREFIX}{:016x}", run.segment)).collect();
    let mut bytes = 0;
    for name in disk.list(MASTER_FOLDER)? {
        let path = format!("{MASTER_FOLDER}/{name}");
        let is_unused = name.starts_with(PREFIX) && !used.contains(&name);
        // A file that cannot be removed now still takes space. The next checkpoint tries again.
        if !is_unused || disk.unlink(&path).is_err() {
            bytes += disk.open(&path, OpenMode::Read)?.byte_len()?;
        }
    }
    Ok(bytes)
}
