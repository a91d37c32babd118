//! [`Master`]: the one file that says what counts.
//!
//! It holds its content twice, each with a CRC, so that one damaged byte costs nothing. It is
//! written aside, synced and renamed.

use std::io::{self, IoSlice};

use crate::store::disk::{Disk, OpenMode, read_file};
use crate::store::files::SavedFiles;
use crate::store::log::LogHead;
use crate::store::pack::{PackState, SavedPack, crc32c};

/// The folder of master and segments.
pub(crate) const MASTER_FOLDER: &str = "index";
const PATH: &str = "index/master";
const PATH_NEW: &str = "index/master.new";
/// `tdm2`: since version 2, fingerprints do not hash a blob's length.
const MAGIC: u32 = 0x7464_6d32;
/// A master of 4,096 shards with 8 runs each has less than 2 MiB.
const BYTES_MAX: u64 = 256 << 20;

/// Some entries of a shard in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) entries: u32,
    pub(crate) crc: u32,
}

/// What a checkpoint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) salt: [u8; 32],
    pub(crate) boot_id: String,
    pub(crate) shard_bits: u32,
    pub(crate) pack_bytes: u64,
    /// The limit in bytes that the store had.
    pub(crate) bytes_max: u64,
    /// The store's time in ticks, and the clock's in milliseconds.
    pub(crate) ticks: u32,
    pub(crate) clock_ms: u64,
    pub(crate) head: LogHead,
    pub(crate) packs: Vec<SavedPack>,
    pub(crate) files: SavedFiles,
    pub(crate) file_bytes: u64,
    pub(crate) next_segment: u64,
    /// The runs of each shard, the oldest first.
    pub(crate) runs: Vec<Vec<Run>>,
}

impl Master {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.salt);
        put(&mut out, self.boot_id.len() as u64);
        out.extend_from_slice(self.boot_id.as_bytes());
        let head = self.head;
        for number in [
            u64::from(self.shard_bits),
            self.pack_bytes,
            self.bytes_max,
            u64::from(self.ticks),
            self.clock_ms,
            u64::from(head.slot),
            u64::from(head.generation),
            head.offset,
            head.seq,
            u64::from(head.session),
            self.file_bytes,
            self.next_segment,
            self.packs.len() as u64,
        ] {
            put(&mut out, number);
        }
        for pack in &self.packs {
            for number in [pack.state as u64, u64::from(pack.generation), pack.end, pack.seq_last] {
                put(&mut out, number);
            }
        }
        put(&mut out, self.files.next);
        put(&mut out, self.files.end);
        put(&mut out, self.files.loose.len() as u64);
        self.files.loose.iter().for_each(|number| put(&mut out, *number));
        put(&mut out, self.runs.len() as u64);
        for runs in &self.runs {
            put(&mut out, runs.len() as u64);
            for run in runs {
                put(&mut out, run.segment);
                put(&mut out, run.offset);
                put(&mut out, (u64::from(run.entries) << 32) | u64::from(run.crc));
            }
        }
        out
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let salt = take(&mut rest, 32)?.try_into().ok()?;
        let boot_len = usize::try_from(number(&mut rest)?).ok()?;
        let boot_id = String::from_utf8(take(&mut rest, boot_len)?.to_vec()).ok()?;
        let mut next = || number(&mut rest);
        let shard_bits = u32::try_from(next()?).ok()?;
        let pack_bytes = next()?;
        let bytes_max = next()?;
        let ticks = u32::try_from(next()?).ok()?;
        let clock_ms = next()?;
        let head = LogHead {
            slot: u32::try_from(next()?).ok()?,
            generation: u32::try_from(next()?).ok()?,
            offset: next()?,
            seq: next()?,
            session: u32::try_from(next()?).ok()?,
        };
        let (file_bytes, next_segment, packs_count) = (next()?, next()?, next()?);
        let mut packs = Vec::new();
        for _ in 0..packs_count {
            let state = match next()? {
                0 => PackState::Absent,
                1 => PackState::Free,
                2 => PackState::Used,
                _ => return None,
            };
            let generation = u32::try_from(next()?).ok()?;
            packs.push(SavedPack { state, generation, end: next()?, seq_last: next()? });
        }
        let (next_number, end) = (next()?, next()?);
        let loose = (0..next()?).map(|_| next()).collect::<Option<Vec<u64>>>()?;
        let mut runs = Vec::new();
        for _ in 0..next()? {
            let mut of_shard = Vec::new();
            for _ in 0..next()? {
                let (segment, offset, both) = (next()?, next()?, next()?);
                let entries = u32::try_from(both >> 32).ok()?;
                let crc = u32::try_from(both & 0xffff_ffff).ok()?;
                of_shard.push(Run { segment, offset, entries, crc });
            }
            runs.push(of_shard);
        }
        let files = SavedFiles { next: next_number, end, loose };
        let is_whole = (6..=16).contains(&shard_bits) && runs.len() == 1 << shard_bits;
        is_whole.then_some(Self {
            salt,
            boot_id,
            shard_bits,
            pack_bytes,
            bytes_max,
            ticks,
            clock_ms,
            head,
            packs,
            files,
            file_bytes,
            next_segment,
            runs,
        })
    }
}

/// Reads the master; `None` if there is none or both its halves are damaged. Fails if another
/// version wrote it.
pub(crate) fn read_master(disk: &dyn Disk) -> io::Result<Option<Master>> {
    let Some(bytes) = read_file(disk, PATH, BYTES_MAX)? else { return Ok(None) };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    if [first, second].iter().all(|half| is_of_other_version(half)) {
        let message = "another version of the format wrote it";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    Ok([first, second].into_iter().find_map(|half| {
        let (head, body) = half.split_at_checked(8)?;
        let expected = [MAGIC.to_le_bytes(), crc32c(body).to_le_bytes()].concat();
        (head == expected).then(|| Master::from_bytes(body))?
    }))
}

fn is_of_other_version(half: &[u8]) -> bool {
    let magic = half.first_chunk().map(|magic| u32::from_le_bytes(*magic));
    magic.is_some_and(|magic| magic != MAGIC && magic >> 8 == MAGIC >> 8)
}

/// Replaces the master. Returns its length. It is durable when this returns.
pub(crate) fn write_master(disk: &dyn Disk, master: &Master) -> io::Result<u64> {
    let body = master.to_bytes();
    let head = [MAGIC.to_le_bytes(), crc32c(&body).to_le_bytes()].concat();
    let pieces = [&head, &body, &head, &body].map(|piece| IoSlice::new(piece));
    let file = disk.open(PATH_NEW, OpenMode::Create)?;
    file.write_at(&pieces, 0)?;
    file.sync()?;
    disk.rename(PATH_NEW, PATH)?;
    disk.sync_folder(MASTER_FOLDER)?;
    Ok(2 * (head.len() + body.len()) as u64)
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, later) = rest.split_at_checked(len)?;
    *rest = later;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))
}
