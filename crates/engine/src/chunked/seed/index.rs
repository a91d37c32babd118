//! The index next to a seed: a list of its chunks, so that the seed is not cut again.
//!
//! The file is named `.NAME.tidegate-chunks`. `docs/formats.md` describes the format for other
//! programs:
//!
//! ```text
//! 0    "TGCHNK01"
//! 8    length of the header, 4 bytes, little-endian
//! 12   header: JSON, what the index was made of and how
//!      number of chunks, 8 bytes, little-endian
//!      each chunk: 32 bytes of hash, 8 of length
//!      BLAKE3 of everything before
//! ```
//!
//! The header names the file's length, its modification and change times, its device and inode, the
//! chunking and the hash function. An index is stale if its header differs in any byte from the
//! header that would be written now. A stale or damaged index is ignored and replaced.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};

use crate::names::hidden_name;

pub(super) const SUFFIX: &str = ".tidegate-chunks";
pub(super) const MAGIC: [u8; 8] = *b"TGCHNK01";

/// The limit on the length of a header. A header holds only some numbers, so a longer one is not
/// from Tidegate.
const HEADER_BYTES_MAX: usize = 4096;

pub(super) const RECORD_BYTES: usize = 40;
const SEAL_BYTES: usize = 32;

/// Identifies one state of a file. It differs after every change of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Stamp {
    pub(super) len_bytes: u64,
    modified_s: i64,
    modified_ns: i64,
    // The file system updates it on every change, even if the modification time is set back.
    changed_s: i64,
    changed_ns: i64,
    device: u64,
    inode: u64,
}

impl Stamp {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            len_bytes: found.len(),
            modified_s: found.mtime(),
            modified_ns: found.mtime_nsec(),
            changed_s: found.ctime(),
            changed_ns: found.ctime_nsec(),
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

#[derive(Serialize)]
struct Header<'a> {
    file: &'a Stamp,
    function: &'static str,
    #[serde(flatten)]
    chunking: ChunkingHeader,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ChunkingHeader {
    FastCdc2020 { min: u64, avg: u64, max: u64, normalization: u32, seed: u32 },
    RepMaxCdc { min: u64, horizon: u64 },
}

/// The header for a file with this stamp, chunking and hash function. Empty if the chunking cannot
/// be indexed; the file then has no index.
pub(super) fn header(stamp: &Stamp, chunking: &Chunking, function: DigestFunction) -> Vec<u8> {
    let chunking = match chunking {
        Chunking::FastCdc2020(params) => ChunkingHeader::FastCdc2020 {
            min: params.min_bytes(),
            avg: params.avg_bytes(),
            max: params.max_bytes(),
            normalization: params.normalization(),
            seed: params.seed(),
        },
        Chunking::RepMaxCdc(params) => {
            ChunkingHeader::RepMaxCdc { min: params.min_bytes(), horizon: params.horizon_bytes() }
        }
        // Chunking functions that are added later are not indexed.
        _ => return Vec::new(),
    };
    serde_json::to_vec(&Header { file: stamp, function: function.name(), chunking })
        .unwrap_or_default()
}

pub(super) fn path_of(seed: &Path) -> Option<PathBuf> {
    Some(seed.with_file_name(hidden_name(seed.file_name()?, SUFFIX)))
}

/// Returns those of the `wanted` chunks that the index next to `seed` lists, each with the offset
/// of its first place. Returns `None` if there is no index with this header, or if the index is
/// damaged.
pub(super) fn load(
    seed: &Path,
    header: &[u8],
    function: DigestFunction,
    seed_bytes: u64,
    wanted: &HashSet<Digest>,
) -> Option<HashMap<Digest, u64>> {
    let path = path_of(seed)?;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&path).ok()?;
    match read(file, header, function, seed_bytes, wanted) {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, index = %path.display(), "the index cannot be read");
            None
        }
    }
}

fn read(
    file: File,
    header: &[u8],
    function: DigestFunction,
    seed_bytes: u64,
    wanted: &HashSet<Digest>,
) -> io::Result<Option<HashMap<Digest, u64>>> {
    let Ok(hasher) = Checksummer::new(ChecksumAlgorithm::Blake3) else { return Ok(None) };
    let mut input = Sealed { input: BufReader::with_capacity(256 << 10, file), hasher };
    let mut start = [0; 12];
    input.fill(&mut start)?;
    let header_bytes = le(&start[8..]);
    if start[..8] != MAGIC
        || header.is_empty()
        || header_bytes > HEADER_BYTES_MAX as u64
        || header_bytes != header.len() as u64
    {
        return Ok(None);
    }
    let mut theirs = vec![0; header.len()];
    input.fill(&mut theirs)?;
    if theirs != header {
        return Ok(None);
    }
    let mut count = [0; 8];
    input.fill(&mut count)?;
    // The map is never larger than `wanted`, even if chunks recur.
    let (mut found, mut offset) = (HashMap::new(), 0_u64);
    // Each chunk has at least one byte, so a wrong count cannot exceed the seed's length.
    for _ in 0..le(&count).min(seed_bytes) {
        let mut record = [0; RECORD_BYTES];
        input.fill(&mut record)?;
        let mut hash = [0; 32];
        hash.copy_from_slice(&record[..32]);
        let digest = Digest { function, hash, len: le(&record[32..]) };
        if wanted.contains(&digest) {
            found.entry(digest).or_insert(offset);
        }
        match offset.checked_add(digest.len) {
            Some(end) if end <= seed_bytes => offset = end,
            _ => return Ok(None),
        }
    }
    let whole = offset == seed_bytes && input.ends()?;
    Ok(whole.then_some(found))
}

/// Hashes the bytes that are read, up to the seal (the BLAKE3 hash at the end).
struct Sealed {
    input: BufReader<File>,
    hasher: Checksummer,
}

impl Sealed {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(bytes)?;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Whether the correct seal follows, and nothing after it.
    fn ends(mut self) -> io::Result<bool> {
        let mut seal = [0; SEAL_BYTES];
        self.input.read_exact(&mut seal)?;
        let right = self.hasher.finish().as_bytes() == seal;
        Ok(right && self.input.read(&mut [0])? == 0)
    }
}

fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use tidegate_core::chunking::RepMaxCdcParams;

    use super::super::index_writer::save;
    use super::*;

    const FUNCTION: DigestFunction = DigestFunction::Blake3;

    struct Bed {
        folder: tempfile::TempDir,
        chunks: Vec<Digest>,
        header: Vec<u8>,
    }

    impl Bed {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("seed"), b"aabbbc").unwrap();
            let chunks = [&b"aa"[..], b"bbb", b"c"].map(|one| Digest::of(FUNCTION, one)).to_vec();
            let bed = Self { folder, chunks, header: Vec::new() };
            let header = bed.header_now();
            let bed = Self { header, ..bed };
            bed.save().unwrap();
            bed
        }

        fn save(&self) -> io::Result<()> {
            save(&self.seed(), &File::open(self.seed())?, &self.header, &self.chunks)
        }

        fn seed(&self) -> PathBuf {
            self.folder.path().join("seed")
        }

        fn index(&self) -> PathBuf {
            self.folder.path().join(".seed.tidegate-chunks")
        }

        fn header_now(&self) -> Vec<u8> {
            let stamp = Stamp::of(&File::open(self.seed()).unwrap()).unwrap();
            let chunking = Chunking::RepMaxCdc(RepMaxCdcParams::new(64, 0).unwrap());
            header(&stamp, &chunking, FUNCTION)
        }

        fn load(&self, header: &[u8]) -> Option<HashMap<Digest, u64>> {
            let wanted = [self.chunks[1], self.chunks[2]].into_iter().collect();
            load(&self.seed(), header, FUNCTION, 6, &wanted)
        }
    }

    #[test]
    fn what_is_wanted_is_found() {
        let bed = Bed::new();
        let found = bed.load(&bed.header).unwrap();
        assert_eq!(found, [(bed.chunks[1], 2), (bed.chunks[2], 5)].into());
        assert_eq!(fs::read_dir(bed.folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn an_index_of_another_state_is_stale() {
        let bed = Bed::new();
        fs::write(bed.seed(), b"aabbbd").unwrap();
        let file = OpenOptions::new().write(true).open(bed.seed()).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(bed.load(&bed.header_now()).is_none());
    }

    /// The file changes, keeps its length, and its modification time is set back.
    #[test]
    fn a_change_that_hides_is_seen() {
        let bed = Bed::new();
        let modified = fs::metadata(bed.seed()).unwrap().modified().unwrap();
        let changed = fs::metadata(bed.seed()).unwrap().ctime_nsec();
        // The clock of the file system advances in ticks, so repeat until the change time differs.
        while fs::metadata(bed.seed()).unwrap().ctime_nsec() == changed {
            fs::write(bed.seed(), b"aabbbd").unwrap();
        }
        let file = OpenOptions::new().write(true).open(bed.seed()).unwrap();
        file.set_modified(modified).unwrap();
        assert!(bed.load(&bed.header_now()).is_none());
    }

    #[test]
    fn every_damage_is_noticed() {
        let bed = Bed::new();
        let whole = fs::read(bed.index()).unwrap();
        let file = OpenOptions::new().write(true).open(bed.index()).unwrap();
        for (at, byte) in (0..).zip(&whole) {
            file.write_all_at(&[byte ^ 0x10], at).unwrap();
            assert!(bed.load(&bed.header).is_none(), "byte {at}");
            file.write_all_at(&[*byte], at).unwrap();
        }
        assert!(bed.load(&bed.header).is_some());
        for len in 0..whole.len() {
            fs::write(bed.index(), &whole[..len]).unwrap();
            assert!(bed.load(&bed.header).is_none(), "{len} bytes");
        }
        fs::write(bed.index(), [&whole[..], b"x"].concat()).unwrap();
        assert!(bed.load(&bed.header).is_none(), "longer");
    }

    #[test]
    fn where_no_index_can_be_kept_there_is_none() {
        let bed = Bed::new();
        fs::remove_file(bed.index()).unwrap();
        fs::create_dir(bed.index()).unwrap();
        assert!(bed.save().is_err());
        assert!(bed.load(&bed.header).is_none());
        assert_eq!(fs::read_dir(bed.folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    /// A chunk that recurs needs only one place.
    #[test]
    fn what_recurs_is_found_once() {
        let mut bed = Bed::new();
        let again = bed.chunks[1];
        bed.chunks = vec![again, again];
        bed.save().unwrap();
        let wanted = [again].into_iter().collect();
        let found = load(&bed.seed(), &bed.header, FUNCTION, 6, &wanted).unwrap();
        assert_eq!(found, [(again, 0)].into());
    }

    /// An index reveals the content of its seed. A user who may not read the seed may not read the
    /// index.
    #[test]
    fn an_index_is_as_secret_as_its_seed() {
        use std::os::unix::fs::PermissionsExt;
        let bed = Bed::new();
        for (seed, index) in [(0o600, 0o600), (0o755, 0o644), (0o440, 0o440)] {
            fs::set_permissions(bed.seed(), fs::Permissions::from_mode(seed)).unwrap();
            bed.save().unwrap();
            let mode = fs::metadata(bed.index()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, index);
        }
    }

    /// File names up to the limit of 255 bytes leave no room for a suffix.
    #[test]
    fn a_seed_with_a_long_name_has_its_index() {
        let bed = Bed::new();
        for len in [229, 235, 240, 255] {
            let seed = bed.folder.path().join("s".repeat(len));
            fs::write(&seed, b"aabbbc").unwrap();
            let file = File::open(&seed).unwrap();
            save(&seed, &file, &bed.header, &bed.chunks).unwrap();
            assert!(path_of(&seed).is_some_and(|index| index.is_file()), "{len}");
        }
    }
}
