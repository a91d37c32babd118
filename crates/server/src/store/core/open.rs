//! Opens a store: a new one, or by recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use super::checkpoint::Checkpoints;
use super::{Core, StoreClock, TICKS_PER_SECOND, WrittenBytes};
use crate::store::activity::Activity;
use crate::store::checkpoint::{
    DamagedShards, MASTER_FOLDER, Master, Snapshots, read_master, remove_unused, write_master,
};
use crate::store::disk::{Disk, OpenMode};
use crate::store::error::{StoreError, StoreResult};
use crate::store::files::{self, Files, ReadBuffers, SavedFiles, Unsynced};
use crate::store::index::Index;
use crate::store::log::{Log, LogHead};
use crate::store::losses::Losses;
use crate::store::options::{Level, StoreOptions};
use crate::store::pack::{PACK_FOLDER, PackState, PackTable, SavedPack};
use crate::store::recovery::{Recovered, replay};
use crate::store::space::{FILE_BLOCK_BYTES, Space};

impl Core {
    /// Opens the store on a disk. `clock_ms` is the time in milliseconds.
    ///
    /// It reads the last checkpoint's list and replays the log behind it. It reads no snapshot and
    /// lists no files.
    pub fn open(
        disk: Arc<dyn Disk>,
        mut options: StoreOptions,
        clock_ms: u64,
    ) -> StoreResult<Self> {
        for folder in [PACK_FOLDER, files::FOLDER, MASTER_FOLDER] {
            disk.create_folder(folder).map_err(StoreError::disk("create a folder"))?;
        }
        // The last process may have died between a change of a name and the sync of its folder. What is
        // found must not vanish with the power: not the master whose predecessor's segments are removed
        // below, and no pack that the log enters.
        for folder in [PACK_FOLDER, MASTER_FOLDER] {
            disk.sync_folder(folder).map_err(StoreError::disk("sync a folder"))?;
        }
        let master = read_master(&*disk).map_err(StoreError::disk("read the checkpoint"))?;
        let master = match master {
            Some(master) => master,
            None => begin(&*disk, &options, clock_ms)?,
        };
        if options.keeps_limit {
            options.bytes_max = master.bytes_max;
        }
        let packs = Arc::new(PackTable::new(Arc::clone(&disk), &master.packs));
        let space = Arc::new(Space::new(options.bytes_max, 0, master.file_bytes));
        let damaged = Arc::new(DamagedShards::default());
        let snapshots =
            Snapshots::new(Arc::clone(&disk), master.runs.clone(), Arc::clone(&damaged));
        let index = Index::new(
            master.shard_bits,
            Arc::new(snapshots),
            Arc::clone(&packs),
            Arc::clone(&space),
        );
        find_packs(&*disk, &packs)?;
        let boot_id = disk.boot_id();
        let is_same_boot = !boot_id.is_empty() && boot_id == master.boot_id;
        let recovered = replay(&*disk, &master, &packs, &index, is_same_boot)?;
        for _ in packs.all().iter().filter(|(_, pack)| pack.state != PackState::Absent) {
            // The limit may have become smaller than the packs. Eviction will mend that.
            space.add_pack(master.pack_bytes);
        }
        let segments = remove_unused(&*disk, &master.runs);
        space.set_checkpoints(segments.map_err(StoreError::disk("list the snapshots"))?);
        Self::assemble(disk, options, clock_ms, master, recovered, (space, packs, index, damaged))
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        options: StoreOptions,
        clock_ms: u64,
        master: Master,
        recovered: Recovered,
        parts: (Arc<Space>, Arc<PackTable>, Index, Arc<DamagedShards>),
    ) -> StoreResult<Self> {
        let (space, packs, index, damaged) = parts;
        let files = Files::new(
            Arc::clone(&disk),
            Arc::clone(&space),
            recovered.next_number,
            find_loose(&*disk, &recovered.loose),
        );
        for recent in &recovered.unsynced {
            let number = recent.description.number;
            let opened = disk.open(&files::path(number), OpenMode::Read);
            if let Ok(file) = opened {
                let (fingerprint, location) = (recent.fingerprint, recent.location);
                files.note_unsynced(Unsynced { fingerprint, location, number, file });
            }
        }
        space.add_files_saved(recovered.file_bytes);
        let ticks = master.ticks.max(recovered.ticks);
        let mut clock = StoreClock {
            clock_ms: master.clock_ms,
            elapsed_ms: u64::from(ticks) * 1000 / TICKS_PER_SECOND,
        };
        let now = clock.step(clock_ms);
        let session = session(&master, &recovered.head, &disk.boot_id(), clock_ms);
        let pack_bytes = master.pack_bytes;
        let log =
            Log::new(Arc::clone(&packs), pack_bytes, recovered.head, session, recovered.replayed);
        let level = options.level;
        let pins = Self::new_pins(options.bytes_max);
        let core = Self {
            disk,
            options,
            salt: master.salt,
            pack_bytes,
            space,
            packs,
            index,
            files: Arc::new(files),
            log: Mutex::new(log),
            checkpoints: Mutex::new(Checkpoints::new(master, now)),
            clock: Mutex::new(clock),
            pins: Mutex::new(pins),
            now: AtomicU32::new(now),
            next_load: AtomicU32::new(0),
            synced_seq: AtomicU64::new(0),
            lost: Mutex::new(recovered.lost),
            damaged,
            orphans: AtomicBool::new(false),
            written: WrittenBytes::default(),
            activity: Activity::default(),
            losses: Losses::default(),
            read_buffers: ReadBuffers::default(),
        };
        if level == Level::Power {
            // An earlier process may have run at the other level.
            core.sync()?;
        }
        Ok(core)
    }
}

/// Writes the first checkpoint of a store without one. What other files there are cannot be
/// believed without a checkpoint, and goes.
fn begin(disk: &dyn Disk, options: &StoreOptions, clock_ms: u64) -> StoreResult<Master> {
    remove_all(disk).map_err(StoreError::disk("empty a store without a checkpoint"))?;
    let salt = match options.salt {
        Some(salt) => salt,
        None => random_salt()?,
    };
    let pack_bytes = options.pack_bytes_chosen();
    let shard_bits = options.shard_bits_chosen();
    let first = SavedPack { state: PackState::Used, generation: 1, end: 0, seq_last: 0 };
    let master = Master {
        salt,
        boot_id: disk.boot_id(),
        shard_bits,
        pack_bytes,
        bytes_max: options.bytes_max,
        ticks: 0,
        clock_ms,
        head: LogHead { slot: 1, generation: 1, offset: 0, seq: 1, session: 0 },
        packs: vec![first],
        files: SavedFiles { next: 1, end: 1, loose: Vec::new() },
        file_bytes: 0,
        next_segment: 1,
        runs: vec![Vec::new(); 1 << shard_bits],
    };
    let create = |path: &str| -> io::Result<()> {
        let file = disk.open(path, OpenMode::Create)?;
        file.allocate(pack_bytes)?;
        file.sync()?;
        disk.sync_folder(PACK_FOLDER)?;
        disk.sync_folder("")?;
        write_master(disk, &master)?;
        Ok(())
    };
    create(&format!("{PACK_FOLDER}/{:06}", 1)).map_err(StoreError::disk("create the store"))?;
    Ok(master)
}

fn remove_all(disk: &dyn Disk) -> io::Result<()> {
    for folder in [PACK_FOLDER, MASTER_FOLDER] {
        for name in disk.list(folder)? {
            disk.unlink(&format!("{folder}/{name}"))?;
        }
    }
    for folder in disk.list(files::FOLDER)? {
        let folder = format!("{}/{folder}", files::FOLDER);
        for name in disk.list(&folder)? {
            disk.unlink(&format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}

fn random_salt() -> StoreResult<[u8; 32]> {
    let mut salt = [0; 32];
    let filled = getrandom::fill(&mut salt);
    filled.map_err(|error| StoreError::disk("get random bytes")(io::Error::other(error)))?;
    Ok(salt)
}

/// Compares the checkpoint's packs with the files. Files can have come and gone since.
fn find_packs(disk: &dyn Disk, packs: &PackTable) -> StoreResult<()> {
    let names = disk.list(PACK_FOLDER).map_err(StoreError::disk("list the packs"))?;
    let there: BTreeSet<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    for (slot, pack) in packs.all() {
        if pack.state != PackState::Absent && !there.contains(&slot) {
            // A free pack's generation is not in use yet.
            let generation = pack.generation + u32::from(pack.state == PackState::Used);
            packs.set(slot, SavedPack { state: PackState::Absent, generation, ..pack });
            packs.block(slot);
        }
    }
    for slot in there {
        let pack = packs.get(slot);
        if pack.state == PackState::Absent {
            let generation = pack.generation.max(1);
            packs.set(slot, SavedPack { state: PackState::Free, generation, ..pack });
        }
    }
    Ok(())
}

/// The files without a value, and the bytes of those that exist.
fn find_loose(disk: &dyn Disk, numbers: &BTreeSet<u64>) -> BTreeMap<u64, Option<u64>> {
    let bytes = |number: &u64| match disk.open(&files::path(*number), OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => (*number, None),
        opened => {
            let len = opened.and_then(|file| file.byte_len()).unwrap_or_default();
            (*number, Some(len.next_multiple_of(FILE_BLOCK_BYTES)))
        }
    };
    numbers.iter().map(bytes).collect()
}

/// A number that no earlier session at the same head had.
fn session(master: &Master, head: &LogHead, boot_id: &str, clock_ms: u64) -> u32 {
    let text = format!("{head:?} {boot_id} {clock_ms}");
    let hash = blake3::keyed_hash(&master.salt, text.as_bytes());
    u32::from_le_bytes(hash.as_bytes()[..4].try_into().unwrap_or_default())
}
