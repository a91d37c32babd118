//! Moving live records out of a pack, so that it can be used again.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Core;
use crate::store::error::{StoreError, StoreResult};
use crate::store::files::FileDescription;
use crate::store::index::{Entry, Location};
use crate::store::key::Fingerprint;
use crate::store::log::AppendMode;
use crate::store::pack::{
    Draft, PackState, RecordKind, SavedPack, Scanner, generation_bits, verify_payload,
};

/// Bytes that are moved under one lock of the log, so that commits wait for little.
const BATCH_BYTES: usize = 1 << 20;

/// A live record on its way to another pack.
#[derive(Debug)]
struct Moving {
    fingerprint: Fingerprint,
    from: Location,
    draft: Draft,
}

impl Core {
    /// Moves the live records of a pack and frees it. The pack must lie before the last
    /// checkpoint, so that no replay reads it.
    ///
    /// Values that were not used since `cutoff` are evicted: they would go soon, and moving them first
    /// doubles what cleaning writes.
    pub(super) fn clean(&self, slot: u32, cutoff: u32) -> StoreResult<()> {
        // Survivors are durable when this returns, so their old places can be overwritten.
        self.move_records(slot, cutoff, AppendMode::Normal)?;
        let pack = self.packs.get(slot);
        let generation = pack.generation.wrapping_add(1);
        self.packs.set(slot, SavedPack { state: PackState::Free, generation, end: 0, seq_last: 0 });
        self.packs.set_live(slot, 0);
        Ok(())
    }

    /// Moves the live records of a pack, but not those of values without a file that were not used since
    /// `cutoff`.
    pub(super) fn move_records(&self, slot: u32, cutoff: u32, mode: AppendMode) -> StoreResult<()> {
        let file = self.packs.file(slot).map_err(StoreError::disk("open a pack"))?;
        let pack = self.packs.get(slot);
        let generation = generation_bits(pack.generation);
        let mut scanner = Scanner::new(&*file, 0, pack.end);
        let mut batch = Vec::new();
        let mut batch_bytes = 0;
        while scanner.offset() < pack.end {
            let peeked = scanner.peek(true).map_err(StoreError::disk("read a pack"))?;
            let Some(found) = peeked.filter(|found| {
                found.header.slot == slot && found.header.generation == pack.generation
            }) else {
                // A damaged record. The next one begins somewhere behind it.
                scanner.step();
                continue;
            };
            let header = found.header.clone();
            let from = Location::new(slot, generation, found.offset);
            let is_value = matches!(header.kind, RecordKind::Put | RecordKind::File);
            if is_value && let Some(key) = header.whole_key(found.record) {
                let fingerprint = self.fingerprint(&key);
                let live = self.index.find(&fingerprint).filter(|entry| entry.location() == from);
                if let Some(entry) = live {
                    if entry.last_use() < cutoff && header.kind == RecordKind::Put {
                        self.count_eviction(&entry);
                        self.index.remove_at(&fingerprint, from);
                    } else if verify_payload(&header, found.record) {
                        let start = header.payload_start();
                        let payload = &found.record[start..start + header.payload_len];
                        let mut draft = Draft::control(header.kind, 0, header.size);
                        (draft.space, draft.form, draft.time) =
                            (header.space, header.form, entry.last_use());
                        draft.key = Bytes::copy_from_slice(key.bytes());
                        draft.payload = Bytes::copy_from_slice(payload);
                        if header.kind == RecordKind::File {
                            draft.number = header.number;
                            // The file that this one replaced went long ago.
                            let file = FileDescription::from_payload(header.number, payload);
                            let file = file.map(|file| FileDescription { replaced: 0, ..file });
                            draft.payload = file.map_or(draft.payload, FileDescription::to_payload);
                        }
                        draft.is_durable = header.is_durable;
                        batch_bytes += draft.len();
                        batch.push(Moving { fingerprint, from, draft });
                    } else {
                        self.discard(&fingerprint, &entry);
                    }
                }
            }
            scanner.advance(header.len());
            if batch_bytes >= BATCH_BYTES {
                self.move_batch(std::mem::take(&mut batch), mode)?;
                batch_bytes = 0;
            }
        }
        self.move_batch(batch, mode)
    }

    fn move_batch(&self, mut batch: Vec<Moving>, mode: AppendMode) -> StoreResult<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut log = self.log();
        // Under the log's lock, no commit changes the entry.
        batch.retain(|moving| {
            let now = self.index.find(&moving.fingerprint);
            now.is_some_and(|entry| entry.location() == moving.from)
        });
        let drafts: Vec<Draft> = batch.iter().map(|moving| moving.draft.clone()).collect();
        let places = self.append_moved(&mut log, &drafts, mode)?;
        // The old places are durable, so an entry leaves them only for durable ones.
        log.sync(mode)?;
        for (moving, to) in batch.into_iter().zip(places) {
            let bytes = moving.draft.len() as u64;
            self.written.moved.fetch_add(bytes, Ordering::Relaxed);
            let Some(before) = self.index.find(&moving.fingerprint) else { continue };
            let file_bytes = before.is_file().then_some(before.file_bytes());
            let entry = Entry::new(moving.fingerprint, to, bytes, file_bytes, moving.draft.time);
            self.index.move_record(&moving.fingerprint, moving.from, entry);
        }
        Ok(())
    }

    /// Packs whose records no replay needs, with their live bytes.
    pub(super) fn packs_before(&self, seq: u64) -> Vec<(u32, u64)> {
        let head = self.log().head().slot;
        let packs = self.packs.all().into_iter();
        let packs = packs.filter(|(slot, pack)| {
            pack.state == PackState::Used && *slot != head && pack.seq_last < seq
        });
        packs.map(|(slot, _)| (slot, self.packs.live(slot))).collect()
    }
}
