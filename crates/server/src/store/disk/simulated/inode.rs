//! [`Inode`]: a file's bytes, and for each sector what a loss of power may leave of it.

use std::collections::HashMap;

/// The unit that a disk writes entirely or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

/// Contents that one unsynced sector remembers. More of them would only take memory.
const VERSIONS_MAX: usize = 4;

pub(super) type Sector = [u8; SECTOR_BYTES];

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) bytes: Vec<u8>,
    pub(super) durable_len: usize,
    /// The contents of sectors before each unsynced write, the durable one first.
    pub(super) unsynced: HashMap<usize, Vec<Sector>>,
}

impl Inode {
    fn sector(&self, sector: usize) -> Sector {
        let mut copy = [0; SECTOR_BYTES];
        let start = (sector * SECTOR_BYTES).min(self.bytes.len());
        let end = (start + SECTOR_BYTES).min(self.bytes.len());
        copy[..end - start].copy_from_slice(&self.bytes[start..end]);
        copy
    }

    pub(super) fn put_sector(&mut self, sector: usize, content: &Sector) {
        let start = (sector * SECTOR_BYTES).min(self.bytes.len());
        let end = (start + SECTOR_BYTES).min(self.bytes.len());
        self.bytes[start..end].copy_from_slice(&content[..end - start]);
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let before = self.sector(sector);
            let versions = self.unsynced.entry(sector).or_default();
            if versions.len() < VERSIONS_MAX {
                versions.push(before);
            }
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
    }
}
