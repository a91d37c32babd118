//! Blobs in every form, on a folder of this machine.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tempfile::TempDir;
use tidegate_core::chunking::{Chunking, FastCdc2020Params, cuts};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::zstd::Deflater;

use super::{Blobs, Form, Touch};
use crate::store::core::{Core, Op};
use crate::store::disk::RealDisk;
use crate::store::error::StoreError;
use crate::store::key::Key;
use crate::store::manifests::Spliced;
use crate::store::options::StoreOptions;

const MIB: usize = 1 << 20;

struct Bed {
    blobs: Blobs,
    _folder: TempDir,
}

fn bed() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    let core = Core::open(disk, StoreOptions::new(512 << 20), 1_000_000).unwrap();
    Bed { blobs: Blobs::new(Arc::new(core)), _folder: folder }
}

fn noise(len: usize, seed: u64) -> Bytes {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect::<Vec<u8>>().into()
}

fn text(len: usize) -> Bytes {
    (0..len).map(|at| b"abcdefgh"[at / 100 % 8]).collect::<Vec<u8>>().into()
}

fn of(bytes: &[u8]) -> Digest {
    Digest::of(DigestFunction::Sha256, bytes)
}

fn chunking() -> Chunking {
    Chunking::FastCdc2020(FastCdc2020Params::new(16 << 10, 0).unwrap())
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut deflater = Deflater::new(bytes.len() as u64).unwrap();
    let mut packed = Vec::new();
    deflater.push(bytes, &mut packed).unwrap();
    deflater.finish(&mut packed).unwrap();
    packed
}

impl Bed {
    fn put(&self, bytes: &[u8]) -> Digest {
        let digest = of(bytes);
        let mut incoming = self.blobs.receive(&digest);
        for piece in bytes.chunks(100_000) {
            incoming.write(piece).unwrap();
        }
        incoming.finish().unwrap();
        digest
    }

    fn put_packed(&self, digest: &Digest, packed: &[u8], cut: usize) -> Result<(), StoreError> {
        let mut incoming = self.blobs.receive_packed(digest)?;
        for piece in packed.chunks(cut) {
            incoming.write(piece)?;
        }
        incoming.finish()
    }

    /// The bytes from `offset` on; `None` if the blob is missing, by every call that can say so.
    fn read(&self, digest: &Digest, offset: u64) -> Option<Vec<u8>> {
        let found = self.blobs.open(digest, offset).unwrap();
        let is_present = self.blobs.all_present(&[*digest], Touch::Now).unwrap();
        assert_eq!(found.is_some(), is_present);
        let mut reader = found?;
        let mut all = Vec::new();
        while let Some(piece) = reader.next_piece().unwrap() {
            assert!(!piece.is_empty());
            all.extend_from_slice(&piece);
        }
        Some(all)
    }

    fn lose(&self, key: Key) {
        for result in self.blobs.core.commit(vec![Op::Purge { key }]) {
            result.unwrap();
        }
    }

    fn form(&self, digest: &Digest) -> Option<Form> {
        let value = self.blobs.core.get(&Key::blob(digest)).unwrap();
        value.and_then(|value| Form::from_number(value.form))
    }

    /// Puts the chunks of a blob, and returns them.
    fn put_chunks(&self, bytes: &[u8]) -> Vec<Digest> {
        let mut rest = bytes;
        cuts(&chunking(), bytes)
            .map(|len| {
                let (chunk, after) = rest.split_at(len);
                rest = after;
                self.put(chunk)
            })
            .collect()
    }

    fn used(&self) -> u64 {
        self.blobs.core.counts().value_bytes_written + self.blobs.core.used_bytes()
    }
}

#[test]
fn a_plain_blob_is_read_from_any_offset() {
    let bed = bed();
    for len in [1, 1000, 64 << 10, (64 << 10) + 1, 3 * MIB + 5] {
        let bytes = noise(len, 1);
        assert_eq!(bed.read(&of(&bytes), 0), None);
        let digest = bed.put(&bytes);
        for offset in [0, 1, len / 2, len - 1, len] {
            assert!(bed.read(&digest, offset as u64).unwrap() == bytes[offset..], "{len} {offset}");
        }
    }
    assert_eq!(bed.read(&of(b""), 0), Some(Vec::new()));
}

#[test]
fn wrong_bytes_get_no_name() {
    let bed = bed();
    for len in [1000, 300_000] {
        let (right, wrong) = (noise(len, 1), noise(len, 2));
        let digest = of(&right);
        for bytes in [&wrong[..], &right[1..], &[&right[..], b"x"].concat()] {
            let mut incoming = bed.blobs.receive(&digest);
            let outcome = incoming.write(bytes).and_then(|()| incoming.finish());
            assert!(matches!(outcome, Err(StoreError::Mismatch)), "{outcome:?}");
            assert_eq!(bed.read(&digest, 0), None);
        }
    }
}

#[test]
fn a_compressed_blob_stays_so_if_it_saves_a_tenth() {
    let bed = bed();
    for (len, cut) in [(1000, 7), (200_000, 1000), (3 * MIB, 100_000), (256 << 10, 100_000)] {
        for (bytes, form) in [(text(len), Form::Zstd), (noise(len, 3), Form::Plain)] {
            let digest = of(&bytes);
            bed.put_packed(&digest, &packed(&bytes), cut).unwrap();
            assert_eq!(bed.form(&digest), Some(form), "{len}");
            for offset in [0, 1, len / 3, len - 1, len] {
                let read = bed.read(&digest, offset as u64).unwrap();
                assert!(read == bytes[offset..], "{len} {offset}");
            }
            let stored = bed.blobs.open_packed(&digest).unwrap();
            assert_eq!(stored.is_some(), form == Form::Zstd);
            if let Some(mut reader) = stored {
                let mut all = Vec::new();
                while let Some(piece) = reader.next_piece().unwrap() {
                    all.extend_from_slice(&piece);
                }
                assert!(all == packed(&bytes));
            }
        }
    }
}

#[test]
fn what_is_no_frame_of_the_blob_is_refused() {
    let bed = bed();
    let bytes = text(300_000);
    let frame = packed(&bytes);
    let digest = of(&bytes);
    let bomb = packed(&vec![0; 64 * MIB]);
    let other = packed(&text(299_999));
    let cut_frame = &frame[..frame.len() - 1];
    let twice = [&frame[..], &frame].concat();
    let half_more = [&frame[..], &frame[..3]].concat();
    for packed in [&bomb[..], &other, cut_frame, &twice, &half_more, b"noise", b""] {
        let outcome = bed.put_packed(&digest, packed, 1000);
        assert!(matches!(outcome, Err(StoreError::Mismatch)), "{outcome:?}");
        assert_eq!(bed.read(&digest, 0), None);
    }
    bed.put_packed(&digest, &frame, 1000).unwrap();
}

#[test]
fn a_spliced_blob_costs_its_new_chunks_only() {
    let bed = bed();
    let first = noise(4 * MIB, 5);
    let chunks = bed.put_chunks(&first);
    let before = bed.used();
    let blob = of(&first);
    assert_eq!(bed.read(&blob, 0), None);
    let spliced = bed.blobs.splice(&blob, &chunks, Some(chunking())).unwrap();
    assert_eq!(spliced, Spliced::Done);
    assert!(bed.used() - before < 64 << 10, "{}", bed.used() - before);
    for offset in [0, 1, 20_000, 4 * MIB / 2, 4 * MIB - 1, 4 * MIB] {
        assert!(bed.read(&blob, offset as u64).unwrap() == first[offset..], "{offset}");
    }
    let record = bed.blobs.split(&blob, &chunking()).unwrap().unwrap();
    assert_eq!((record.chunks, record.chunking), (chunks, Some(chunking())));

    let mut second = first.to_vec();
    second.splice(2_000_000..2_000_010, *b"other bytes, more of them");
    let before = bed.used();
    let chunks = bed.put_chunks(&second);
    bed.blobs.splice(&of(&second), &chunks, Some(chunking())).unwrap();
    assert!(bed.used() - before < 256 << 10, "{}", bed.used() - before);
    assert!(bed.read(&of(&second), 0).unwrap() == second);
}

#[test]
fn a_lost_chunk_makes_the_blob_missing_and_it_can_come_back() {
    let bed = bed();
    let bytes = noise(MIB, 6);
    let chunks = bed.put_chunks(&bytes);
    let blob = of(&bytes);
    bed.blobs.splice(&blob, &chunks, None).unwrap();
    assert!(bed.read(&blob, 0).is_some());
    bed.lose(Key::blob(&chunks[3]));
    assert_eq!(bed.read(&blob, 0), None);
    assert_eq!(bed.blobs.split(&blob, &chunking()).unwrap(), None);
    let again = bed.blobs.splice(&blob, &chunks, None).unwrap();
    assert_eq!(again, Spliced::ChunkMissing);
    bed.put_chunks(&bytes);
    assert_eq!(bed.blobs.splice(&blob, &chunks, None).unwrap(), Spliced::Done);
    assert!(bed.read(&blob, 0).unwrap() == bytes);
}

#[test]
fn chunks_of_other_bytes_are_refused() {
    let bed = bed();
    let mut chunks = bed.put_chunks(&noise(MIB, 7));
    let blob = of(&noise(MIB, 8));
    let outcome = bed.blobs.splice(&blob, &chunks, None);
    assert!(matches!(outcome, Err(StoreError::Mismatch)), "{outcome:?}");
    chunks.pop();
    assert!(bed.blobs.splice(&blob, &chunks, None).is_err());
    assert_eq!(bed.read(&blob, 0), None);
}

#[test]
fn a_chunk_that_is_a_manifest_itself_is_replaced_by_its_chunks() {
    let bed = bed();
    let (first, second) = (noise(MIB, 9), noise(100_000, 10));
    let chunks = bed.put_chunks(&first);
    bed.blobs.splice(&of(&first), &chunks, None).unwrap();
    let both = [&first[..], &second].concat();
    let manifest = [of(&first), bed.put(&second)];
    assert_eq!(bed.blobs.splice(&of(&both), &manifest, None).unwrap(), Spliced::Done);
    bed.lose(bed.blobs.manifest_key(&of(&first)));
    assert!(bed.read(&of(&both), 0).unwrap() == both, "it needs the chunks alone");
}

#[test]
fn the_chunks_of_a_whole_blob_are_slices_of_it() {
    let bed = bed();
    let bytes = noise(2 * MIB, 11);
    let blob = bed.put(&bytes);
    let before = bed.used();
    let record = bed.blobs.split(&blob, &chunking()).unwrap().unwrap();
    assert!(bed.used() - before < 128 << 10, "{}", bed.used() - before);
    let mut rest = &bytes[..];
    for (chunk, len) in record.chunks.iter().zip(cuts(&chunking(), &bytes)) {
        let (expected, after) = rest.split_at(len);
        rest = after;
        assert!(bed.read(chunk, 0).unwrap() == expected);
        assert!(bed.read(chunk, 7).unwrap() == expected[7..]);
    }
    assert!(rest.is_empty());
    assert_eq!(bed.blobs.split(&blob, &chunking()).unwrap(), Some(record.clone()));

    // Another blob of the same chunks needs the first one's file.
    let same = record.chunks[..20].to_vec();
    let len = usize::try_from(same.iter().map(|chunk| chunk.len).sum::<u64>()).unwrap();
    let other = of(&bytes[..len]);
    assert_eq!(bed.blobs.splice(&other, &same, None).unwrap(), Spliced::Done);
    assert!(bed.read(&other, 100).unwrap() == bytes[100..len]);

    bed.lose(Key::blob(&blob));
    for missing in [&blob, &other, &record.chunks[0]] {
        assert_eq!(bed.read(missing, 0), None);
        assert_eq!(bed.blobs.split(missing, &chunking()).unwrap(), None);
    }
    // A chunk that is put again is whole, although a slice of it is left.
    assert!(bed.blobs.core.contains(&bed.blobs.slice_key(&record.chunks[0])));
    bed.put(&bytes[..usize::try_from(record.chunks[0].len).unwrap()]);
    assert!(bed.read(&record.chunks[0], 0).is_some());
}

#[test]
fn a_blob_of_one_chunk_is_not_split() {
    let bed = bed();
    let digest = bed.put(&noise(1000, 12));
    assert_eq!(bed.blobs.split(&digest, &chunking()).unwrap(), None);
}

#[test]
fn a_look_up_touches_what_the_blob_needs() {
    let bed = bed();
    let bytes = noise(MIB, 13);
    let chunks = bed.put_chunks(&bytes);
    bed.blobs.splice(&of(&bytes), &chunks, None).unwrap();
    let other = bed.put(&noise(MIB, 14));
    let slices = bed.blobs.split(&other, &chunking()).unwrap().unwrap().chunks;
    let core = &bed.blobs.core;
    core.tick(1_000_000 + 60_000);
    bed.blobs.present(&[of(&bytes), slices[2]], Touch::Now).unwrap();
    let needed = chunks.iter().map(Key::blob).chain([
        bed.blobs.manifest_key(&of(&bytes)),
        bed.blobs.slice_key(&slices[2]),
        Key::blob(&other),
    ]);
    for key in needed {
        assert_eq!(core.last_use(&key), Some(core.now()), "{key:?}");
    }
    assert!(core.last_use(&bed.blobs.slice_key(&slices[0])) < Some(core.now()));
    bed.blobs.present(&[of(&bytes)], Touch::Pin).unwrap();
    for chunk in &chunks {
        assert!(core.last_use(&Key::blob(chunk)) > Some(core.now() + 8 * 60));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Blobs that share bytes, put in different ways, with losses between: every blob is read
    /// exactly, or is missing by all calls alike.
    #[test]
    fn a_blob_is_exact_or_missing(
        steps in prop::collection::vec((0_usize..6, 0_usize..6, any::<prop::sample::Index>()), 1..40),
    ) {
        let bed = bed();
        let base = noise(600_000, 15);
        // Ranges of one run of bytes, so that they share chunks.
        let contents: Vec<Bytes> =
            [(0, 600), (0, 400), (100, 600), (200, 201), (300, 600), (0, 599)]
                .map(|(start, end)| base.slice(start * 1000..end * 1000))
                .into();
        for (what, which, index) in steps {
            let bytes = &contents[which];
            let digest = of(bytes);
            match what {
                0 => drop(bed.put(bytes)),
                1 => drop(bed.put_packed(&digest, &packed(bytes), 50_000)),
                2 => {
                    let chunks = bed.put_chunks(bytes);
                    prop_assert_eq!(bed.blobs.splice(&digest, &chunks, None).unwrap(), Spliced::Done);
                }
                3 => drop(bed.blobs.split(&digest, &chunking()).unwrap()),
                4 => bed.lose(Key::blob(&digest)),
                _ => {
                    let lens: Vec<usize> = cuts(&chunking(), bytes).collect();
                    let at = index.index(lens.len());
                    let start: usize = lens[..at].iter().sum();
                    bed.lose(Key::blob(&of(&bytes[start..start + lens[at]])));
                }
            }
            for bytes in &contents {
                if let Some(read) = bed.read(&of(bytes), 0) {
                    prop_assert!(read == bytes[..]);
                } else {
                    prop_assert_eq!(bed.blobs.split(&of(bytes), &chunking()).unwrap(), None);
                }
            }
        }
    }
}
