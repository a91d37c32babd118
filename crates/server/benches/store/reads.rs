//! Reads of 4 KiB blobs from packs and of a blob of 64 MiB from its file, with warm caches.
//!
//! The bare program reads as many bytes at random places of one file (4 KiB), or opens a file and
//! reads it in pieces as the product does (64 MiB), and computes their CRC32C.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::{Crc, CrcAlgorithm};
use tidegate_server::store::{Content, Core, Key, Level, Op, StoreResult, ValueContent};

use crate::bare;
use crate::population::{open, settle};
use crate::report::{Better, Report, Row};
use crate::timing::{as_f64, timed};
use crate::{Effort, Outcome};

const BLOB_BYTES: usize = 4096;
/// Header, key and CRC before the payload of a record.
const RECORD_BYTES: usize = 64 + 41 + 4 + BLOB_BYTES;
const BLOBS: usize = 25_000;
const BLOBS_SMALL: usize = 50;
const LARGE_BYTES: usize = 64 << 20;
const LARGE_BYTES_SMALL: usize = 1 << 20;
/// What the product reads at a time.
const PIECE_BYTES: usize = 256 << 10;

pub(crate) fn run(effort: &Effort, report: &mut Report) -> Outcome {
    let folder = tempfile::tempdir_in(&effort.folder)?;
    let core = open(&folder.path().join("store"), 4 << 30, Level::Process)?;
    for threads in [1, 2] {
        small(effort, &core, folder.path(), threads, report)?;
    }
    for threads in [1, 2] {
        large(effort, &core, folder.path(), threads, report)?;
    }
    Ok(())
}

fn small(
    effort: &Effort,
    core: &Core,
    folder: &Path,
    threads: usize,
    report: &mut Report,
) -> Outcome {
    let count = if effort.is_full { BLOBS } else { BLOBS_SMALL };
    let mut random = fastrand::Rng::with_seed(3);
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let mut bytes = vec![0; BLOB_BYTES];
        random.fill(&mut bytes);
        let key = Key::blob(&Digest::of(DigestFunction::Blake3, &bytes));
        keys.push(key.clone());
        let content = Content::Bytes(bytes.into());
        let op = Op::Put { key, form: 0, size: BLOB_BYTES as u64, content };
        core.commit(vec![op]).into_iter().collect::<StoreResult<()>>()?;
    }
    settle(core)?;
    let path = folder.join("small");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
    bare::fill(&file, (count * RECORD_BYTES) as u64)?;
    let places = |thread: usize| {
        let mut random = fastrand::Rng::with_seed(thread as u64);
        std::iter::repeat_with(move || random.usize(..count)).take(count)
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..effort.turns {
        let time = timed(threads, |thread| {
            for place in places(thread) {
                match core.get(&keys[place])?.map(|value| value.content) {
                    Some(ValueContent::Bytes(bytes)) if bytes.len() == BLOB_BYTES => {}
                    _ => return Err("a blob is missing".into()),
                }
            }
            Ok(())
        })?;
        ours.push(time.thousands_per_s(threads * count));
        let time = timed(threads, |thread| {
            for place in places(thread) {
                let mut bytes = vec![0; RECORD_BYTES];
                file.read_exact_at(&mut bytes, (place * RECORD_BYTES) as u64)?;
                black_box(Crc::of(CrcAlgorithm::Crc32c, &bytes));
                black_box(Bytes::from(bytes));
            }
            Ok(())
        })?;
        theirs.push(time.thousands_per_s(threads * count));
    }
    report.add(&Row {
        name: format!("4 KiB, {threads} threads"),
        unit: "thousand reads/s",
        better: Better::High,
        store: ours,
        bare: theirs,
        goal: None,
    });
    Ok(())
}

fn large(
    effort: &Effort,
    core: &Core,
    folder: &Path,
    threads: usize,
    report: &mut Report,
) -> Outcome {
    let len = if effort.is_full { LARGE_BYTES } else { LARGE_BYTES_SMALL };
    let mut piece = vec![0; PIECE_BYTES];
    fastrand::Rng::with_seed(5).fill(&mut piece);
    let bytes = piece.repeat(len / PIECE_BYTES);
    let digest = Digest::of(DigestFunction::Blake3, &bytes);
    let mut staged = core.stage(Some(digest))?;
    for piece in bytes.chunks(PIECE_BYTES) {
        staged.write(piece)?;
    }
    let key = Key::blob(&digest);
    let content = Content::File(staged);
    let op = Op::Put { key: key.clone(), form: 0, size: digest.len, content };
    core.commit(vec![op]).into_iter().collect::<StoreResult<()>>()?;
    settle(core)?;
    let path = folder.join("large");
    bare::fill(&File::create(&path)?, len as u64)?;
    let mib_per_s =
        |time: crate::timing::Timed| as_f64(threads * len / (1 << 20)) / time.wall.as_secs_f64();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..effort.turns {
        ours.push(mib_per_s(timed(threads, |_| {
            let Some(ValueContent::File(file)) = core.get(&key)?.map(|value| value.content) else {
                return Err("the blob is missing".into());
            };
            let mut offset = 0;
            while offset < file.len() {
                offset += black_box(file.read(offset, PIECE_BYTES)?).len() as u64;
            }
            Ok(())
        })?));
        theirs.push(mib_per_s(timed(threads, |_| {
            let file = File::open(&path)?;
            let mut piece = vec![0; PIECE_BYTES];
            for offset in (0..len).step_by(PIECE_BYTES) {
                file.read_exact_at(&mut piece, offset as u64)?;
                black_box(Crc::of(CrcAlgorithm::Crc32c, &piece));
            }
            Ok(())
        })?));
    }
    report.add(&Row {
        name: format!("64 MiB, {threads} threads"),
        unit: "MiB/s",
        better: Better::High,
        store: ours,
        bare: theirs,
        goal: None,
    });
    Ok(())
}
