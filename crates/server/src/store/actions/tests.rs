//! Action results and their closures, on a folder of this machine.

use std::sync::Arc;

use prost::Message as _;
use tempfile::TempDir;
use tidegate_core::chunking::{Chunking, FastCdc2020Params, cuts};
use tidegate_core::digest::DigestFunction;
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;

use super::*;
use crate::store::core::Core;
use crate::store::disk::RealDisk;
use crate::store::manifests::Spliced;
use crate::store::options::StoreOptions;

const FUNCTION: DigestFunction = DigestFunction::Sha256;

struct Bed {
    blobs: Blobs,
    folder: TempDir,
}

fn bed() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(&folder, StoreOptions::new(512 << 20));
    Bed { blobs, folder }
}

fn open(folder: &TempDir, options: StoreOptions) -> Blobs {
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    Blobs::new(Arc::new(Core::open(disk, options, 1_000_000).unwrap()))
}

fn name() -> ActionName<'static> {
    ActionName { instance: "main", action: Digest::of(FUNCTION, b"action") }
}

impl Bed {
    fn put(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(FUNCTION, bytes);
        let mut incoming = self.blobs.receive(&digest);
        incoming.write(bytes).unwrap();
        incoming.finish().unwrap();
        digest
    }

    fn lose(&self, key: Key) {
        for result in self.blobs.core.commit(vec![Op::Purge { key }]) {
            result.unwrap();
        }
    }

    fn put_action(&self, result: &v2::ActionResult) -> ActionPut {
        let bytes = result.encode_to_vec().into();
        let limits = ClosureLimits::default();
        self.blobs.put_action(&name(), bytes, UnknownFields::Refuse, limits, "").unwrap()
    }
}

fn directory(file: &Digest) -> v2::Directory {
    let file =
        v2::FileNode { name: "f".into(), digest: Some(to_proto(file)), ..Default::default() };
    v2::Directory { files: vec![file], ..Default::default() }
}

/// A result with a file, standard output, and a tree; and its blobs, the tree first.
fn result(bed: &Bed) -> (v2::ActionResult, Vec<Digest>) {
    let (output, stdout, inner) = (bed.put(b"output"), bed.put(b"stdout"), bed.put(b"inner"));
    let tree = v2::Tree { root: Some(directory(&inner)), children: Vec::new() };
    let tree = bed.put(&tree.encode_to_vec());
    let result = v2::ActionResult {
        output_files: vec![v2::OutputFile {
            path: "out".into(),
            digest: Some(to_proto(&output)),
            ..Default::default()
        }],
        output_directories: vec![v2::OutputDirectory {
            path: "dir".into(),
            tree_digest: Some(to_proto(&tree)),
            ..Default::default()
        }],
        stdout_digest: Some(to_proto(&stdout)),
        ..Default::default()
    };
    (result, vec![tree, output, stdout, inner])
}

#[test]
fn a_complete_result_is_a_hit_that_pins_its_blobs() {
    let bed = bed();
    let (result, needed) = result(&bed);
    assert_eq!(bed.put_action(&result), ActionPut::Stored);
    let core = &bed.blobs.core;
    core.tick(1_000_000 + 3_600_000);
    let hit = bed.blobs.action(&name()).unwrap().unwrap();
    assert_eq!(hit, result.encode_to_vec());
    for blob in &needed {
        assert!(core.last_use(&Key::blob(blob)) > Some(core.now() + 8 * 60), "{blob}");
    }
    let other = ActionName { instance: "other", ..name() };
    assert_eq!(bed.blobs.action(&other).unwrap(), None, "instances are apart");
}

#[test]
fn a_result_that_lost_a_blob_is_a_miss_and_gone() {
    for lost in 0..4 {
        let bed = bed();
        let (result, needed) = result(&bed);
        assert_eq!(bed.put_action(&result), ActionPut::Stored);
        bed.lose(Key::blob(&needed[lost]));
        assert_eq!(bed.blobs.action(&name()).unwrap(), None);
        // It does not come back with its blob, nor after a restart.
        let _ = self::result(&bed);
        assert_eq!(bed.blobs.action(&name()).unwrap(), None);
        let Bed { blobs, folder } = bed;
        drop(blobs);
        let blobs = open(&folder, StoreOptions::new(512 << 20));
        assert_eq!(blobs.action(&name()).unwrap(), None);
        let bed = Bed { blobs, folder };
        assert_eq!(bed.put_action(&result), ActionPut::Stored);
        assert!(bed.blobs.action(&name()).unwrap().is_some());
    }
}

#[test]
fn an_incomplete_result_is_not_stored() {
    for lost in 0..4 {
        let bed = bed();
        let (result, needed) = result(&bed);
        bed.lose(Key::blob(&needed[lost]));
        assert_eq!(bed.put_action(&result), ActionPut::Incomplete(needed[lost]));
        assert_eq!(bed.blobs.action(&name()).unwrap(), None);
    }
}

#[test]
fn what_is_no_result_is_refused() {
    let bed = bed();
    let limits = ClosureLimits::default();
    let put = |bytes: &'static [u8]| {
        bed.blobs.put_action(&name(), bytes.into(), UnknownFields::Refuse, limits, "").unwrap()
    };
    assert!(matches!(put(b"{}"), ActionPut::Refused(ClosureError::NotActionResult(_))));
    let (mut result, _) = result(&bed);
    let no_tree = bed.put(b"not a tree");
    result.output_directories[0].tree_digest = Some(to_proto(&no_tree));
    let refused = bed.put_action(&result);
    assert!(matches!(refused, ActionPut::Refused(ClosureError::Container { .. })), "{refused:?}");
    let long = "x".repeat(5000);
    let name = ActionName { instance: &long, ..name() };
    let put = bed.blobs.put_action(&name, Bytes::new(), UnknownFields::Refuse, limits, "").unwrap();
    assert_eq!(put, ActionPut::NameTooLong);
    assert_eq!(bed.blobs.action(&name).unwrap(), None);
}

/// A blob of the closure that is stored as chunks: one lost chunk makes the result a miss.
#[test]
fn the_chunks_of_an_output_belong_to_the_closure() {
    let bed = bed();
    let mut random = fastrand::Rng::with_seed(1);
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(300_000).collect();
    let chunking = Chunking::FastCdc2020(FastCdc2020Params::new(16 << 10, 0).unwrap());
    let mut rest = &bytes[..];
    let chunks: Vec<Digest> = cuts(&chunking, &bytes)
        .map(|len| {
            let (chunk, after) = rest.split_at(len);
            rest = after;
            bed.put(chunk)
        })
        .collect();
    let blob = Digest::of(FUNCTION, &bytes);
    assert_eq!(bed.blobs.splice(&blob, &chunks, None).unwrap(), Spliced::Done);
    let result = v2::ActionResult { stdout_digest: Some(to_proto(&blob)), ..Default::default() };
    assert_eq!(bed.put_action(&result), ActionPut::Stored);
    assert!(bed.blobs.action(&name()).unwrap().is_some());
    let core = &bed.blobs.core;
    for key in chunks.iter().map(Key::blob).chain([bed.blobs.manifest_key(&blob)]) {
        assert!(core.last_use(&key) > Some(core.now()), "{key:?}");
    }
    bed.lose(Key::blob(&chunks[4]));
    assert_eq!(bed.blobs.action(&name()).unwrap(), None);
}

/// A closure of 3,000 blobs is longer than a record.
#[test]
fn a_large_result_is_stored() {
    let bed = bed();
    let outputs = (0..3000_u32).map(|number| {
        let digest = bed.put(&number.to_le_bytes());
        let digest = Some(to_proto(&digest));
        v2::OutputFile { path: number.to_string(), digest, ..Default::default() }
    });
    let result = v2::ActionResult { output_files: outputs.collect(), ..Default::default() };
    for _ in 0..2 {
        assert_eq!(bed.put_action(&result), ActionPut::Stored);
        assert_eq!(bed.blobs.action(&name()).unwrap().unwrap(), result.encode_to_vec());
    }
    let small = v2::ActionResult { exit_code: 1, ..Default::default() };
    assert_eq!(bed.put_action(&small), ActionPut::Stored);
    assert_eq!(bed.blobs.action(&name()).unwrap().unwrap(), small.encode_to_vec());
}

/// A result that an HTTP client stored: a miss when a blob of it is lost, and gone. An opaque value
/// under the same name needs nothing.
#[test]
fn a_cached_result_that_lost_a_blob_is_a_miss_and_gone() {
    let bed = bed();
    let put = |bytes: &[u8]| {
        let mut incoming = bed.blobs.receive_value(b"name").unwrap();
        incoming.write(bytes).unwrap();
        bed.blobs.put_cached(incoming, FUNCTION).unwrap()
    };
    let get = || bed.blobs.open_cached(b"name", FUNCTION).unwrap();
    let (result, needed) = result(&bed);
    let bytes = result.encode_to_vec();
    assert_eq!(put(&bytes), CachedPut::Result);
    assert!(matches!(get(), Some(CachedValue::Result(found)) if found == bytes));
    let core = &bed.blobs.core;
    assert!(core.last_use(&Key::blob(&needed[1])) > Some(core.now()), "a hit pins its blobs");
    bed.lose(Key::blob(&needed[1]));
    assert!(get().is_none());
    assert_eq!(put(&bytes), CachedPut::Incomplete(needed[1]));
    let _ = self::result(&bed);
    assert!(get().is_none(), "it does not come back with its blob");
    assert_eq!(put(b"{}"), CachedPut::Opaque);
    assert!(matches!(get(), Some(CachedValue::Opaque(2, _))));
}
