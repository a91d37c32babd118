//! Removes the files that no entry names. Only damage leaves such files: a snapshot or a record that
//! was damaged no longer says which file it named.

use std::sync::atomic::Ordering;

use super::Core;
use crate::store::disk::OpenMode;
use crate::store::error::{StoreError, StoreResult};
use crate::store::files;
use crate::store::index::Entry;
use crate::store::key::Fingerprint;
use crate::store::pack::RecordKind;
use crate::store::space::FILE_BLOCK_BYTES;

impl Core {
    /// Whether damage may have left files that no entry names.
    pub fn needs_sweep(&self) -> bool {
        self.orphans.load(Ordering::Acquire)
    }

    /// Looks for files that no entry names, and hands them to the remover. Returns how many there are.
    /// It reads the record of every file, and lists all folders.
    pub fn sweep(&self) -> StoreResult<usize> {
        self.orphans.store(false, Ordering::Release);
        let swept = self.sweep_all();
        if swept.is_err() {
            self.orphans.store(true, Ordering::Release);
        }
        swept
    }

    fn sweep_all(&self) -> StoreResult<usize> {
        if !self.damaged.all().is_empty() {
            // A damaged snapshot must not bring back entries whose files go now.
            self.checkpoint()?;
        }
        // A file that is younger than this point has a number from `next` on. An older one is loose
        // now, or an entry names it until the remover makes it loose.
        let (next, mut known) = self.files.known();
        for shard in 0..self.index.shards() {
            for (fingerprint, entry) in self.entries(shard) {
                if entry.is_file() {
                    known.extend(self.number_of(&fingerprint, entry)?);
                }
            }
        }
        let mut orphans = Vec::new();
        for name in self.list(files::FOLDER)? {
            let folder = format!("{}/{name}", files::FOLDER);
            orphans.extend(self.list(&folder)?.iter().filter_map(|name| {
                let number = u64::from_str_radix(name, 16).ok()?;
                let is_orphan = number < next && !known.contains(&number);
                is_orphan.then(|| (number, self.file_bytes(number)))
            }));
        }
        // While the log is locked, no file loses its entry.
        let _log = self.log();
        Ok(orphans.into_iter().filter(|(number, bytes)| self.files.adopt(*number, *bytes)).count())
    }

    /// The number of the file of an entry; `None` if the value is gone by now. Drops it if its record
    /// is damaged.
    fn number_of(&self, fingerprint: &Fingerprint, entry: Entry) -> StoreResult<Option<u64>> {
        let mut found = Some(entry);
        while let Some(entry) = found.filter(Entry::is_file) {
            let record = self.read_record(&entry)?;
            if let Some(record) = record.filter(|record| record.header.kind == RecordKind::File) {
                return Ok(Some(record.header.number));
            }
            if self.is_at_place(fingerprint, &entry) {
                self.discard(fingerprint, &entry);
                return Ok(None);
            }
            // It moved while it was read.
            found = self.index.find(fingerprint);
        }
        Ok(None)
    }

    fn list(&self, folder: &str) -> StoreResult<Vec<String>> {
        self.disk.list(folder).map_err(StoreError::disk("list a folder"))
    }

    fn file_bytes(&self, number: u64) -> u64 {
        let opened = self.disk.open(&files::path(number), OpenMode::Read);
        let len = opened.and_then(|file| file.byte_len()).unwrap_or_default();
        len.next_multiple_of(FILE_BLOCK_BYTES)
    }
}
