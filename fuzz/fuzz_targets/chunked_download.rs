//! Chunked downloads from a store with scripted faults, into every kind of target, with arbitrary
//! files of earlier attempts next to the target.
//!
//! Delivered bytes are right. The old file stays until the new one is complete. Nothing is in
//! flight or held after the return. With an honest store, the next download succeeds.
//!
//! The store and the checks after each attempt are those of the engine's tests.

#![no_main]
#![allow(dead_code, reason = "the tests use more of what they share")]

use std::cell::RefCell;
use std::fs;
use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate::chunked::{BatchLimits, ChunkStore};
use tidegate::{ErrorKind, Result};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer, Crc, CrcAlgorithm};
use tidegate_core::chunking::{Chunking, FastCdc2020Params};
use tidegate_core::digest::Digest;
use tidegate_core::window::WindowOptions;
use tokio::runtime::{Builder, Runtime};

#[path = "../../crates/engine/tests/chunked/download/bed.rs"]
mod bed;
#[path = "../../crates/engine/tests/call/mod.rs"]
mod call;
#[path = "../../crates/engine/tests/chunked/download/fake.rs"]
mod fake;

use bed::{Bed, chunks};
use fake::{Act, Call, FakeStore, Fault};

#[derive(Arbitrary, Debug)]
struct Input {
    /// The chunks, as numbers of contents. There are few contents, so that some chunks recur.
    chunks: Vec<u8>,
    batch: Option<(u16, u8)>,
    can_split: bool,
    budget: (u8, u8),
    window: u8,
    whole_fallback: bool,
    target: Target,
    faults: Vec<(At, Hit)>,
    part: Option<Part>,
    seed: Option<Seed>,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    File,
    Writer,
    Buffer,
}

/// The call that a fault hits; `nth` is the number of equal calls before it.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum At {
    Chunk { which: u8, nth: u8 },
    Whole { nth: u8 },
    AnyBatch,
    Manifest,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Hit {
    Delay(u8),
    Broken,
    Refused,
    Missing,
    Flipped,
    CutAfter(u16),
    EndAfter(u16),
    Hang,
}

/// The file under the part file's name.
#[derive(Arbitrary, Debug)]
struct Part {
    /// Length of the blob's prefix that the file starts with; the other members change it.
    blob_bytes: u32,
    overwritten: Vec<(u16, Vec<u8>)>,
    journal: Option<Journal>,
    tail: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
struct Journal {
    /// This text, or the blob's own identity.
    identity: Option<String>,
    header: Option<Record>,
    extents: Vec<Extent>,
}

#[derive(Arbitrary, Debug)]
enum Extent {
    /// The extent of this chunk, with the checksum of the right bytes.
    Chunk(u8),
    Record(Record),
    Noise(Vec<u8>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Record {
    kind: u8,
    journal_start: Option<u64>,
    start: u64,
    len: u64,
    crc: u64,
}

/// A seed file and the index next to it.
#[derive(Arbitrary, Debug)]
struct Seed {
    chunks: Vec<u8>,
    index: Vec<Change>,
    sealed: bool,
}

/// A change of a valid index.
#[derive(Arbitrary, Debug)]
enum Change {
    Set {
        at: u16,
        bytes: Vec<u8>,
    },
    /// Sets the n-th record to this chunk of the blob, with this length or the right one.
    Record {
        n: u8,
        chunk: u8,
        len: Option<u64>,
    },
    Count(u64),
    Cut(u16),
    Append(Vec<u8>),
}

/// More chunks would only make runs longer.
const CHUNKS_MAX: usize = 24;
/// Lengths of chunks. Chunks of equal content have equal length.
const LENS: [usize; 6] = [1, 100, 900, 5_000, 12_000, 40_000];
const RECORD_BYTES: usize = 64;

fn kinds(chunks: &[u8]) -> Vec<(usize, u64)> {
    let kinds = chunks.iter().take(CHUNKS_MAX);
    kinds.map(|kind| (LENS[usize::from(kind % 32) % LENS.len()], u64::from(kind % 32))).collect()
}

fn cutting() -> Chunking {
    Chunking::FastCdc2020(FastCdc2020Params::new(65_536, 0).unwrap())
}

impl Input {
    fn bed(&self) -> Bed {
        let limits = self.batch.map(|(bytes, count)| BatchLimits {
            bytes_max: bytes.into(),
            count_max: usize::from(count),
            overhead_bytes: 100,
        });
        let store = FakeStore::new().with_profile(|profile| {
            profile.batch = limits;
            profile.can_split = self.can_split;
            profile.chunkings = vec![cutting()];
        });
        let bytes = [4_096, 20_000, 100_000, 64 << 20][usize::from(self.budget.0 % 4)];
        let requests = u32::from(self.budget.1 % 8) + 1;
        let mut bed = Bed::on(store, chunks(kinds(&self.chunks))).with_budget(bytes, requests);
        bed.store.hold(&bed.blob, &bed.chunks, Some(cutting()));
        let start = u32::from(self.window % 32);
        bed.options.window = WindowOptions { start, ..WindowOptions::default() };
        bed.options.retry.attempts_max = 3;
        bed.options.whole_fallback = self.whole_fallback;
        self.script(&bed);
        bed
    }

    fn script(&self, bed: &Bed) {
        let names: Vec<Digest> = (0..bed.chunks.len()).map(|index| bed.digest(index)).collect();
        let (blob, faults) = (bed.blob, self.faults.clone());
        bed.store.script(move |call, digest, nth| {
            let applies = |at: &At| match (*at, digest) {
                (At::Chunk { which, nth: n }, Some(digest)) => {
                    let chosen = names.get(usize::from(which) % names.len().max(1));
                    chosen == Some(digest) && usize::from(n) == nth
                }
                (At::Whole { nth: n }, Some(digest)) => *digest == blob && usize::from(n) == nth,
                (At::AnyBatch, None) => matches!(call, Call::Batch { .. }),
                (At::Manifest, None) => *call == Call::Manifest,
                _ => false,
            };
            let Some((_, hit)) = faults.iter().find(|(at, _)| applies(at)) else {
                return Act::default();
            };
            let is_one = matches!(call, Call::Get { .. });
            match *hit {
                Hit::Delay(ms) => Act::after_ms(ms.into()),
                Hit::Broken => Act::fault(Fault::Broken),
                Hit::Refused => Act::fault(Fault::Refused),
                Hit::Missing => Act::fault(Fault::Missing),
                Hit::Flipped => Act::fault(Fault::Flipped),
                Hit::CutAfter(bytes) => Act::fault(Fault::CutAfter(bytes.into())),
                Hit::EndAfter(bytes) => Act::fault(Fault::EndAfter(bytes.into())),
                // The client has a stall timeout only while it waits for bytes of a chunk or blob.
                Hit::Hang if is_one => Act::fault(Fault::Hang),
                Hit::Hang => Act::default(),
            }
        });
    }
}

fn record(record: Record, journal_start: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..4].copy_from_slice(b"TGJ1");
    bytes[8] = record.kind;
    bytes[16..24].copy_from_slice(&record.journal_start.unwrap_or(journal_start).to_le_bytes());
    bytes[24..32].copy_from_slice(&record.start.to_le_bytes());
    bytes[32..40].copy_from_slice(&record.len.to_le_bytes());
    bytes[40..48].copy_from_slice(&record.crc.to_le_bytes());
    let crc = Crc::of(CrcAlgorithm::Crc32c, &bytes[8..]).value();
    bytes[4..8].copy_from_slice(&crc.to_le_bytes()[..4]);
    bytes
}

fn set(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    bytes.resize(bytes.len().max(at + new.len()), 0);
    bytes[at..at + new.len()].copy_from_slice(new);
}

impl Part {
    fn bytes(&self, bed: &Bed) -> Vec<u8> {
        let content = bed.content();
        let kept = usize::try_from(self.blob_bytes).unwrap_or(usize::MAX).min(content.len());
        let mut bytes = content[..kept].to_vec();
        for (at, new) in &self.overwritten {
            set(&mut bytes, usize::from(*at), new);
        }
        if let Some(journal) = &self.journal {
            let start = content.len().next_multiple_of(4_096);
            bytes.resize(start, 0);
            bytes.extend_from_slice(&journal.bytes(bed, start as u64));
        }
        bytes.extend_from_slice(&self.tail);
        bytes
    }
}

impl Journal {
    fn bytes(&self, bed: &Bed, start: u64) -> Vec<u8> {
        let (blob, len) = (bed.blob, bed.blob.len);
        let json = self.identity.clone().unwrap_or_else(|| {
            format!(
                r#"{{"source":"digest:{blob}","version":{{"e_tag":"\"{blob}\""}},"len_bytes":{len},"crc":"crc32c"}}"#
            )
        });
        let mut bytes = json.into_bytes();
        let len = bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(RECORD_BYTES), 0);
        let crc = Crc::of(CrcAlgorithm::Crc32c, &bytes).value();
        let right = Record { kind: 1, journal_start: None, start, len, crc };
        bytes.extend_from_slice(&record(self.header.unwrap_or(right), start));
        for extent in &self.extents {
            match extent {
                Extent::Chunk(which) if !bed.chunks.is_empty() => {
                    let index = usize::from(*which) % bed.chunks.len();
                    let before: usize = bed.chunks[..index].iter().map(bytes::Bytes::len).sum();
                    let chunk = &bed.chunks[index];
                    let crc = Crc::of(CrcAlgorithm::Crc32c, chunk).value();
                    let (start_of, len) = (before as u64, chunk.len() as u64);
                    let extent = Record { kind: 2, journal_start: None, start: start_of, len, crc };
                    bytes.extend_from_slice(&record(extent, start));
                }
                Extent::Chunk(_) => {}
                Extent::Record(extent) => bytes.extend_from_slice(&record(*extent, start)),
                Extent::Noise(noise) => bytes.extend_from_slice(noise),
            }
        }
        bytes
    }
}

impl Seed {
    /// Offset of the first record: after the magic, the header and the count.
    fn records_at(index: &[u8]) -> usize {
        let len = index.get(8..12).map_or(0, |len| u32::from_le_bytes(len.try_into().unwrap()));
        12 + usize::try_from(len).unwrap() + 8
    }

    fn change(&self, index: &mut Vec<u8>, bed: &Bed) {
        let records_at = Self::records_at(index);
        index.truncate(index.len().saturating_sub(32));
        for change in &self.index {
            match change {
                Change::Set { at, bytes } => set(index, usize::from(*at), bytes),
                Change::Record { n, chunk, len } => {
                    let Some(chunk) = bed.chunks.get(usize::from(*chunk)) else { continue };
                    let digest = Digest::of(bed.blob.function, chunk);
                    let at = records_at + 40 * usize::from(*n);
                    set(index, at, &digest.hash);
                    set(index, at + 32, &len.unwrap_or(digest.len).to_le_bytes());
                }
                Change::Count(count) => set(index, records_at - 8, &count.to_le_bytes()),
                Change::Cut(len) => index.truncate(usize::from(*len)),
                Change::Append(bytes) => index.extend_from_slice(bytes),
            }
        }
        if self.sealed {
            let seal = Checksummer::of(ChecksumAlgorithm::Blake3, index).unwrap();
            index.extend_from_slice(seal.as_bytes());
        }
    }
}

/// Runs a download and checks the bytes that the target received.
async fn attempt(bed: &Bed, target: Target) -> Result<()> {
    match target {
        Target::File => {
            fs::write(bed.path(), "old").unwrap();
            let outcome = bed.to_file().await;
            if outcome.is_err() {
                assert_eq!(fs::read(bed.path()).unwrap(), b"old");
            }
            outcome.map(|_| ())
        }
        Target::Writer => {
            let (outcome, given) = bed.to_writer().await;
            match &outcome {
                Ok(_) => assert!(given == bed.content()),
                Err(error) if error.kind() == ErrorKind::Integrity => {}
                Err(_) => assert!(bed.content().starts_with(&given)),
            }
            outcome.map(|_| ())
        }
        Target::Buffer => {
            let (outcome, buffer) = bed.to_buffer().await;
            if let Ok(report) = &outcome {
                assert!(report.memory.as_ref().unwrap() == &bed.content());
                assert_eq!(buffer.total(), Some(bed.blob.len));
            }
            outcome.map(|_| ())
        }
    }
}

/// Writes the seed. If the input changes the index, a download from an honest store creates a valid
/// one first.
async fn plant(seed: &Seed, bed: &mut Bed) {
    let path = bed.folder.path().join("seed");
    fs::write(&path, chunks(kinds(&seed.chunks)).concat()).unwrap();
    bed.options.seeds = vec![path];
    if seed.index.is_empty() {
        return;
    }
    let honest = FakeStore::new();
    honest.hold(&bed.blob, &bed.chunks, Some(cutting()));
    let store: Arc<dyn ChunkStore> = Arc::new(honest);
    let nowhere = tidegate::Target::Discard;
    let _ = call::download_chunks(&store, &bed.blob, nowhere, &bed.options).await;
    let index_path = bed.folder.path().join(".seed.tidegate-chunks");
    if let Ok(mut index) = fs::read(&index_path) {
        seed.change(&mut index, bed);
        fs::write(&index_path, index).unwrap();
    }
}

async fn run(input: &Input) {
    let mut bed = input.bed();
    if let Some(seed) = &input.seed {
        plant(seed, &mut bed).await;
    }
    if let Some(part) = &input.part {
        fs::write(bed.part(), part.bytes(&bed)).unwrap();
    }
    let _ = attempt(&bed, input.target).await;
    let budget = bed.options.client.budget();
    assert!(budget.held_bytes_peak() <= budget.limits().bytes);
    bed.store.script(|_, _, _| Act::default());
    bed.options.whole_fallback = true;
    // The part file may contain wrong bytes with right checksums. The download finds them at its
    // end and discards them, so a second attempt succeeds.
    let mut outcome = attempt(&bed, input.target).await;
    if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Integrity) {
        outcome = attempt(&bed, input.target).await;
    }
    if let Err(error) = outcome {
        panic!("{}", error.chain());
    }
}

thread_local! {
    // The paused clock skips waits.
    static RUNTIME: RefCell<Runtime> =
        RefCell::new(Builder::new_current_thread().enable_all().start_paused(true).build().unwrap());
}

fuzz_target!(|input: Input| {
    // No timeout: the paused clock advances while the engine's own threads work.
    RUNTIME.with_borrow_mut(|runtime| runtime.block_on(run(&input)));
});
