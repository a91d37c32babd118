//! The chunks to fetch or copy, as a list of [`PlannedChunk`]s. Each distinct chunk is listed once, with
//! all its places, in the order of its first place.
//!
//! For a target that takes bytes in order, each place is a want of its own. A chunk that recurs
//! much later would occupy memory until then (see `keep`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::size_of;

use tidegate_core::digest::Digest;
use tidegate_core::extents::Extents;

use crate::chunked::Manifest;
use crate::chunked::seed::{SeedPlace, Seeds};

/// The most memory that one chunk of a manifest takes during the download. A manifest of 100,000
/// chunks takes at most 38.4 MB.
///
/// A chunk has a digest in the manifest and a [`PlannedChunk`] here. If the target takes bytes in any
/// order, the want exists twice while wants are sorted into queues. If the target takes bytes in
/// order, the chunk also has an entry in the table of `keep`. Each of these lists is allocated once
/// in its full size. A list that grows would hold its old copy and its new copy for a moment.
pub(super) const LISTED_BYTES: u64 = 384;

const _: () = {
    /// A table has at most this many places for each entry: 8 for every 7 entries, rounded up to a
    /// power of two. A place takes the entry and one byte.
    const fn table(entry: usize) -> usize {
        (entry + 1) * 16 / 7
    }
    let any_order = size_of::<Digest>() + 2 * size_of::<PlannedChunk>();
    let sorting =
        size_of::<Digest>() + size_of::<PlannedChunk>() + table(size_of::<(&Digest, usize)>());
    let in_order =
        size_of::<Digest>() + size_of::<PlannedChunk>() + table(size_of::<(Digest, usize)>());
    assert!(any_order as u64 <= LISTED_BYTES);
    assert!(sorting as u64 <= LISTED_BYTES);
    assert!(in_order as u64 <= LISTED_BYTES);
};

/// A chunk that the target still lacks.
#[derive(Clone, Debug)]
pub(super) struct PlannedChunk {
    pub(super) digest: Digest,
    pub(super) places: Places,
    /// The chunk's place in a local file, if there is one.
    pub(super) seed: Option<SeedPlace>,
}

impl PlannedChunk {
    /// Offset of its first place.
    pub(super) fn first(&self) -> u64 {
        self.places.as_slice().first().copied().unwrap_or(0)
    }
}

/// The offsets of a chunk in the blob, ascending. Nearly all chunks have one offset.
#[derive(Clone, Debug)]
pub(super) enum Places {
    One(u64),
    Many(Vec<u64>),
}

impl Places {
    pub(super) fn as_slice(&self) -> &[u64] {
        match self {
            Self::One(place) => std::slice::from_ref(place),
            Self::Many(places) => places,
        }
    }

    fn push(&mut self, place: u64) {
        match self {
            Self::One(first) => *self = Self::Many(vec![*first, place]),
            Self::Many(places) => places.push(place),
        }
    }
}

/// For a target that takes bytes in any order: all chunks outside `done`, each distinct chunk once.
pub(super) fn distinct(manifest: &Manifest, done: &Extents, seeds: &Seeds) -> Vec<PlannedChunk> {
    let count = manifest.chunks().len();
    let mut plan: Vec<PlannedChunk> = Vec::with_capacity(count);
    let mut known: HashMap<&Digest, usize> = HashMap::with_capacity(count);
    for (offset, digest) in manifest.offsets() {
        if done.contains(&(offset..offset + digest.len)) {
            continue;
        }
        match known.entry(digest) {
            Entry::Occupied(index) => {
                if let Some(planned) = plan.get_mut(*index.get()) {
                    planned.places.push(offset);
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(plan.len());
                plan.push(planned(offset, digest, seeds));
            }
        }
    }
    plan
}

/// For a target that takes bytes in order: one want for each place.
pub(super) fn in_order(manifest: &Manifest, seeds: &Seeds) -> Vec<PlannedChunk> {
    let mut plan = Vec::with_capacity(manifest.chunks().len());
    plan.extend(manifest.offsets().map(|(offset, digest)| planned(offset, digest, seeds)));
    plan
}

fn planned(offset: u64, digest: &Digest, seeds: &Seeds) -> PlannedChunk {
    PlannedChunk { digest: *digest, places: Places::One(offset), seed: seeds.find(digest) }
}

#[cfg(test)]
mod tests {
    use tidegate_core::digest::DigestFunction;

    use super::*;

    fn manifest(texts: &[&str]) -> Manifest {
        let function = DigestFunction::Sha256;
        let chunks = texts.iter().map(|text| Digest::of(function, text.as_bytes())).collect();
        Manifest::new(Digest::of(function, texts.concat().as_bytes()), chunks, None).unwrap()
    }

    fn places(plan: &[PlannedChunk]) -> Vec<&[u64]> {
        plan.iter().map(|planned| planned.places.as_slice()).collect()
    }

    #[test]
    fn a_chunk_that_recurs_is_wanted_once_at_all_its_places() {
        let manifest = manifest(&["ab", "c", "ab", "d", "ab"]);
        let plan = distinct(&manifest, &Extents::new(), &Seeds::default());
        assert_eq!(places(&plan), [&[0, 3, 6][..], &[2], &[5]]);
    }

    #[test]
    fn what_is_done_is_not_wanted() {
        let manifest = manifest(&["ab", "c", "ab", "d"]);
        let mut done = Extents::new();
        done.insert(0..3);
        assert_eq!(places(&distinct(&manifest, &done, &Seeds::default())), [&[3][..], &[5]]);
    }

    #[test]
    fn a_list_of_wants_does_not_grow_step_by_step() {
        let texts: Vec<String> = (0..3000).map(|number| format!("{number},")).collect();
        let manifest = manifest(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let seeds = Seeds::default();
        assert_eq!(distinct(&manifest, &Extents::new(), &seeds).capacity(), 3000);
        assert_eq!(in_order(&manifest, &seeds).capacity(), 3000);
    }

    #[test]
    fn in_order_each_place_is_a_want() {
        let manifest = manifest(&["ab", "c", "ab"]);
        assert_eq!(places(&in_order(&manifest, &Seeds::default())), [&[0][..], &[2], &[3]]);
    }
}
