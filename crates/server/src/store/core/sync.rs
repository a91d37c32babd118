//! Background sync, and what follows a failed one.

use std::sync::atomic::Ordering;

use super::Core;
use super::append::Packs;
use crate::store::error::{StoreError, StoreResult};
use crate::store::log::{AppendMode, PackSource as _};

impl Core {
    /// Makes everything durable that was acknowledged before. Commits go on meanwhile.
    pub fn sync(&self) -> StoreResult<()> {
        self.sync_as(AppendMode::Normal)
    }

    pub(super) fn sync_as(&self, mode: AppendMode) -> StoreResult<()> {
        let log = self.log();
        if log.is_broken() && mode == AppendMode::Normal {
            return Err(StoreError::LogBroken);
        }
        let (files, removable) = self.files.begin_sync();
        let head = log.head();
        let has_unsynced = log.has_unsynced();
        let file = log.file();
        drop(log);
        let failed = self.files.sync(&files);
        for file in &failed {
            // The kernel may have dropped its bytes, so nothing may claim them.
            if let Some(entry) = self.index.find(&file.fingerprint)
                && entry.location() == file.location
            {
                self.discard(&file.fingerprint, &entry);
            }
        }
        let synced = match (has_unsynced, file) {
            (false, _) => Ok(()),
            (true, Ok(file)) => file.sync().map_err(StoreError::disk("sync the log")),
            (true, Err(error)) => Err(error),
        };
        self.log().note_sync(head, synced.is_ok());
        self.files.end_sync(removable, synced.is_ok());
        if synced.is_ok() && !files.is_empty() {
            self.synced_seq.fetch_max(head.seq.saturating_sub(1), Ordering::AcqRel);
        }
        synced
    }

    /// Mends the log after a failed sync: what its pack has is written again elsewhere, and a
    /// checkpoint makes the log go on there.
    pub(super) fn repair(&self) -> StoreResult<()> {
        let mut log = self.log();
        if !log.is_broken() {
            return Ok(());
        }
        let broken = log.head().slot;
        let next = Packs { core: self, kept: 0 }.next_pack()?;
        log.abandon_pack(next);
        drop(log);
        self.move_records(broken, 0, AppendMode::Repair)?;
        self.checkpoint_as(AppendMode::Repair)?;
        self.log().mend();
        Ok(())
    }
}
