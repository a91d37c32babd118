//! [`SimulatedDisk`]: a disk in memory whose faults come from a seed.
//!
//! It knows for each sector which contents were written since the last sync. A loss of power keeps,
//! for each sector and each name on its own, any one of them or the durable one. So writes are
//! lost, reordered and torn between sectors, and a renamed file can be found under both names or
//! neither. That is more than a real disk does.

mod inode;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::inode::Inode;
use super::{Disk, DiskFile, OpenMode};

/// Faults that calls meet, each with a probability in one of 65,536 calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Reads that fail.
    pub read: u32,
    /// Writes that fail after a part of their bytes.
    pub write: u32,
    /// Syncs that fail. The disk then forgets that the bytes were not durable, as Linux does.
    pub sync: u32,
    /// Creations, renames, removals and syncs of folders that fail.
    pub name: u32,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: u64,
    faults: Faults,
    capacity_bytes: u64,
    taken_by_others_bytes: u64,
    boot: u64,
    sync_ms_max: u64,
    slow_ms: u64,
    inodes: HashMap<u64, Inode>,
    next_inode: u64,
    /// What each path names now.
    names: BTreeMap<String, u64>,
    /// What each path with unsynced changes named before each of them, the durable one first.
    unsynced_names: BTreeMap<String, Vec<Option<u64>>>,
    folders: Vec<String>,
}

impl SimulatedDisk {
    /// An empty disk of `capacity_bytes`.
    pub fn new(seed: u64, capacity_bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: seed ^ 0x9e37_79b9_7f4a_7c15,
            faults: Faults::default(),
            capacity_bytes,
            taken_by_others_bytes: 0,
            boot: 1,
            sync_ms_max: 0,
            slow_ms: 0,
            inodes: HashMap::new(),
            next_inode: 1,
            names: BTreeMap::new(),
            unsynced_names: BTreeMap::new(),
            folders: vec![String::new()],
        })))
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Sets how long a sync takes at most, in simulated time.
    pub fn set_sync_ms_max(&self, sync_ms_max: u64) {
        self.state().sync_ms_max = sync_ms_max;
    }

    /// The simulated time that syncs took since the last call.
    pub fn take_slow_ms(&self) -> u64 {
        std::mem::take(&mut self.state().slow_ms)
    }

    /// Bytes that other programs take of the disk.
    pub fn set_taken_by_others(&self, bytes: u64) {
        self.state().taken_by_others_bytes = bytes;
    }

    /// Bytes of the files that have a name, in blocks of 4 KiB.
    pub fn named_bytes(&self) -> u64 {
        let state = self.state();
        let inodes = state.names.values().filter_map(|inode| state.inodes.get(inode));
        inodes.map(|inode| inode.bytes.len().next_multiple_of(4096) as u64).sum()
    }

    /// Loses power: every unsynced sector and name becomes any of its states since its sync. The
    /// disk's next boot begins.
    pub fn cut_power(&self) {
        let mut state = self.state();
        state.boot += 1;
        state.lose_names();
        state.lose_sectors();
    }

    /// All paths, in order.
    pub fn paths(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// The length of a file in bytes.
    pub fn file_len(&self, path: &str) -> usize {
        let state = self.state();
        let inode = state.names.get(path).and_then(|inode| state.inodes.get(inode));
        inode.map_or(0, |inode| inode.bytes.len())
    }

    /// Inverts bits of one byte of a file.
    pub fn flip(&self, path: &str, offset: usize, bits: u8) {
        let mut state = self.state();
        let Some(number) = state.names.get(path).copied() else { return };
        if let Some(byte) =
            state.inodes.get_mut(&number).and_then(|inode| inode.bytes.get_mut(offset))
        {
            *byte ^= bits;
        }
    }

    /// A copy of the whole disk, without faults.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state();
        let copy = Inode::clone;
        Self(Arc::new(Mutex::new(State {
            random: state.random,
            faults: Faults::default(),
            inodes: state.inodes.iter().map(|(number, inode)| (*number, copy(inode))).collect(),
            names: state.names.clone(),
            unsynced_names: state.unsynced_names.clone(),
            folders: state.folders.clone(),
            ..*state
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn random(&mut self) -> u64 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(1);
        usize::try_from(self.random() % end).unwrap_or(0)
    }

    fn fails(&mut self, of_65536: u32) -> io::Result<()> {
        if of_65536 > 0 && self.random() % 65_536 < u64::from(of_65536) {
            return Err(io::Error::other("simulated fault"));
        }
        Ok(())
    }

    fn used_bytes(&self) -> u64 {
        self.inodes.values().map(|inode| inode.bytes.len().next_multiple_of(4096) as u64).sum()
    }

    fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes() + self.taken_by_others_bytes)
    }

    fn bind(&mut self, path: &str, inode: Option<u64>) {
        let before = match inode {
            Some(inode) => self.names.insert(path.to_owned(), inode),
            None => self.names.remove(path),
        };
        self.unsynced_names.entry(path.to_owned()).or_default().push(before);
    }

    fn lose_names(&mut self) {
        for (path, before) in std::mem::take(&mut self.unsynced_names) {
            let kept = self.below(before.len() + 1);
            match before.get(kept) {
                None => {}
                Some(Some(inode)) => {
                    self.names.insert(path, *inode);
                }
                Some(None) => {
                    self.names.remove(&path);
                }
            }
        }
        self.drop_unnamed();
    }

    fn drop_unnamed(&mut self) {
        let mut named: Vec<u64> = self.names.values().copied().collect();
        named.extend(self.unsynced_names.values().flatten().flatten());
        named.sort_unstable();
        self.inodes.retain(|number, _| named.binary_search(number).is_ok());
    }

    fn lose_sectors(&mut self) {
        let mut numbers: Vec<u64> = self.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(mut inode) = self.inodes.remove(&number) else { continue };
            let mut sectors: Vec<_> = inode.unsynced.drain().collect();
            sectors.sort_unstable_by_key(|(sector, _)| *sector);
            for (sector, versions) in sectors {
                let kept = self.below(versions.len() + 1);
                if let Some(version) = versions.get(kept) {
                    inode.put_sector(sector, version);
                }
            }
            if inode.durable_len != inode.bytes.len() && self.below(2) == 0 {
                inode.bytes.resize(inode.durable_len, 0);
            }
            inode.durable_len = inode.bytes.len();
            self.inodes.insert(number, inode);
        }
    }
}

/// The folder of a path.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        let inode = if mode == OpenMode::Create {
            let fault = state.faults.name;
            state.fails(fault)?;
            if !state.folders.iter().any(|folder| folder == folder_of(path)) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let inode = state.next_inode;
            state.next_inode += 1;
            state.inodes.insert(inode, Inode::default());
            state.bind(path, Some(inode));
            inode
        } else {
            *state.names.get(path).ok_or(io::ErrorKind::NotFound)?
        };
        drop(state);
        Ok(Arc::new(SimulatedFile { disk: self.clone(), inode }))
    }

    fn create_folder(&self, path: &str) -> io::Result<()> {
        // Folders are durable at once: the store makes few, and only when it opens.
        let mut state = self.state();
        if !state.folders.iter().any(|folder| folder == path) {
            state.folders.push(path.to_owned());
        }
        Ok(())
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.faults.name;
        state.fails(fault)?;
        state.unsynced_names.retain(|name, _| folder_of(name) != path);
        state.drop_unnamed();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.faults.name;
        state.fails(fault)?;
        let inode = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.bind(to, Some(inode));
        state.bind(from, None);
        Ok(())
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.faults.name;
        state.fails(fault)?;
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.bind(path, None);
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let all = state.names.keys().chain(&state.folders);
        let inside = all.filter(|path| !path.is_empty() && folder_of(path) == folder);
        Ok(inside.map(|path| path[folder.len()..].trim_start_matches('/').to_owned()).collect())
    }

    fn boot_id(&self) -> String {
        format!("boot {}", self.state().boot)
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    inode: u64,
}

impl SimulatedFile {
    fn with<T>(&self, work: impl FnOnce(&mut State, &mut Inode) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        // A file that was removed while it is open is found no more: the store must expect that.
        let mut inode = state.inodes.remove(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        let outcome = work(&mut state, &mut inode);
        state.inodes.insert(self.inode, inode);
        outcome
    }
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|state, inode| {
            let fault = state.faults.read;
            state.fails(fault)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(inode.bytes.len());
            let len = buffer.len().min(inode.bytes.len() - start);
            buffer[..len].copy_from_slice(&inode.bytes[start..start + len]);
            Ok(len)
        })
    }

    fn write_at(&self, pieces: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.with(|state, inode| {
            let offset = usize::try_from(offset).map_err(io::Error::other)?;
            let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            let more = (offset + bytes.len()).saturating_sub(inode.bytes.len()) as u64;
            // The inode is not in the table now.
            let free = state.free_bytes().saturating_sub(inode.bytes.len() as u64);
            let fault = state.faults.write;
            let failed = state
                .fails(fault)
                .err()
                .or_else(|| (more > free).then(|| io::Error::from(io::ErrorKind::StorageFull)));
            match failed {
                None => inode.write(&bytes, offset),
                Some(error) => {
                    let len = state.below(bytes.len() + 1);
                    let room = (inode.bytes.len() + usize::try_from(free).unwrap_or(usize::MAX))
                        .saturating_sub(offset);
                    inode.write(&bytes[..len.min(room)], offset);
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.with(|state, inode| {
            let len = usize::try_from(len).map_err(io::Error::other)?;
            if len as u64 > state.free_bytes() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if inode.bytes.len() < len {
                inode.bytes.resize(len, 0);
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state, inode| {
            state.slow_ms += match state.sync_ms_max {
                0 => 0,
                most => state.random() % (most + 1),
            };
            let fault = state.faults.sync;
            let failed = state.fails(fault);
            if failed.is_err() {
                // The pages count as clean now, but some of them never reached the disk. The next
                // read may see either.
                let mut lost: Vec<_> = inode.unsynced.drain().collect();
                lost.sort_unstable_by_key(|(sector, _)| *sector);
                for (sector, versions) in lost {
                    if state.below(2) == 0
                        && let Some(durable) = versions.first()
                    {
                        inode.put_sector(sector, durable);
                    }
                }
            }
            inode.unsynced.clear();
            inode.durable_len = inode.bytes.len();
            failed
        })
    }

    fn byte_len(&self) -> io::Result<u64> {
        self.with(|_, inode| Ok(inode.bytes.len() as u64))
    }
}
