//! What has to be brought: each distinct chunk once, however often and far apart it recurs, in the
//! order of its first place.
//!
//! A target that takes bytes in order is another matter: there each place is a want of its own, as
//! a chunk that recurs far behind cannot be kept for free (see `keep`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tidegate_core::digest::Digest;
use tidegate_core::extents::Extents;

use crate::chunked::Manifest;
use crate::chunked::seed::{SeedPlace, Seeds};

/// A chunk to be brought.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub(super) digest: Digest,
    pub(super) places: Places,
    /// Where it is at hand.
    pub(super) seed: Option<SeedPlace>,
}

impl Want {
    /// Offset of its first place.
    pub(super) fn first(&self) -> u64 {
        self.places.as_slice().first().copied().unwrap_or(0)
    }
}

/// Offsets in the blob where a chunk belongs, ascending; nearly always one.
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

/// For a target that takes bytes in any order: what is not `done`, each chunk once.
pub(super) fn distinct(manifest: &Manifest, done: &Extents, seeds: &Seeds) -> Vec<Want> {
    let mut wants: Vec<Want> = Vec::new();
    let mut known: HashMap<&Digest, usize> = HashMap::new();
    for (offset, digest) in manifest.offsets() {
        if done.contains(&(offset..offset + digest.len)) {
            continue;
        }
        match known.entry(digest) {
            Entry::Occupied(index) => {
                if let Some(want) = wants.get_mut(*index.get()) {
                    want.places.push(offset);
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(wants.len());
                wants.push(want(offset, digest, seeds));
            }
        }
    }
    wants
}

/// For a target that takes bytes in order: every place by itself.
pub(super) fn in_order(manifest: &Manifest, seeds: &Seeds) -> Vec<Want> {
    manifest.offsets().map(|(offset, digest)| want(offset, digest, seeds)).collect()
}

fn want(offset: u64, digest: &Digest, seeds: &Seeds) -> Want {
    Want { digest: *digest, places: Places::One(offset), seed: seeds.find(digest) }
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

    fn places(wants: &[Want]) -> Vec<&[u64]> {
        wants.iter().map(|want| want.places.as_slice()).collect()
    }

    #[test]
    fn a_chunk_that_recurs_is_wanted_once_at_all_its_places() {
        let manifest = manifest(&["ab", "c", "ab", "d", "ab"]);
        let wants = distinct(&manifest, &Extents::new(), &Seeds::default());
        assert_eq!(places(&wants), [&[0, 3, 6][..], &[2], &[5]]);
    }

    #[test]
    fn what_is_done_is_not_wanted() {
        let manifest = manifest(&["ab", "c", "ab", "d"]);
        let mut done = Extents::new();
        done.insert(0..3);
        assert_eq!(places(&distinct(&manifest, &done, &Seeds::default())), [&[3][..], &[5]]);
    }

    #[test]
    fn in_order_each_place_is_a_want() {
        let manifest = manifest(&["ab", "c", "ab"]);
        assert_eq!(places(&in_order(&manifest, &Seeds::default())), [&[0][..], &[2], &[3]]);
    }
}
