//! Closures compared with a simple model on decoded messages, and bytes that are no messages.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use prost::Message as _;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;

use super::{Closure, ClosureError, ClosureLimits, ClosureWalk, Flaw, UnknownFields};

const FUNCTION: DigestFunction = DigestFunction::Sha256;

/// The blobs of a store.
#[derive(Clone, Debug, Default)]
struct Blobs(BTreeMap<Digest, Vec<u8>>);

impl Blobs {
    fn put(&mut self, bytes: Vec<u8>) -> v2::Digest {
        let digest = Digest::of(FUNCTION, &bytes);
        self.0.insert(digest, bytes);
        to_proto(&digest)
    }
}

/// Why there is no closure.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Incomplete {
    Missing(Digest),
    Failed(ClosureError),
}

impl From<ClosureError> for Incomplete {
    fn from(error: ClosureError) -> Self {
        Self::Failed(error)
    }
}

/// The closure, with each container cut into pieces of `cut` bytes; and the containers read.
fn walked(
    result: &[u8],
    blobs: &Blobs,
    limits: ClosureLimits,
    cut: usize,
) -> Result<(Closure, Vec<Digest>), Incomplete> {
    let mut walk = ClosureWalk::new(result, FUNCTION, UnknownFields::Refuse, limits)?;
    let mut read = Vec::new();
    while let Some(digest) = walk.next_blob()? {
        let bytes = blobs.0.get(&digest).ok_or(Incomplete::Missing(digest))?;
        for piece in bytes.chunks(cut) {
            walk.piece(piece)?;
        }
        walk.end_blob()?;
        read.push(digest);
    }
    Ok((walk.finish(), read))
}

fn closure(result: &v2::ActionResult, blobs: &Blobs) -> Result<Closure, Incomplete> {
    let limits = ClosureLimits::default();
    walked(&result.encode_to_vec(), blobs, limits, usize::MAX).map(|(closure, _)| closure)
}

/// The digest of a file that the store may lack.
fn file(content: u64) -> v2::Digest {
    to_proto(&Digest::of(FUNCTION, &content.to_le_bytes()))
}

fn file_node(content: u64) -> v2::FileNode {
    let node_properties = v2::NodeProperties {
        properties: vec![v2::NodeProperty { name: "a".into(), value: "b".into() }],
        mtime: Some(prost_types::Timestamp { seconds: -1, nanos: 5 }),
        unix_mode: Some(0o755),
    };
    v2::FileNode {
        name: format!("file {content}"),
        digest: Some(file(content)),
        is_executable: true,
        node_properties: content.is_multiple_of(2).then_some(node_properties),
    }
}

/// Directories in which each has only later ones as children: shared ones, deep chains, wide ones.
#[derive(Clone, Debug)]
struct Shape(Vec<(Vec<u64>, Vec<usize>)>);

fn shapes() -> impl Strategy<Value = Shape> {
    let directory =
        (prop::collection::vec(0_u64..40, 0..6), prop::collection::vec(1_usize..6, 0..4));
    prop::collection::vec(directory, 1..30).prop_map(Shape)
}

impl Shape {
    /// The directories, the root first. Equal directories have equal digests.
    fn directories(&self) -> Vec<v2::Directory> {
        let mut built: Vec<v2::Directory> = Vec::new();
        for (index, (files, steps)) in self.0.iter().enumerate().rev() {
            let children = steps.iter().filter_map(|step| {
                let later = self.0.len().checked_sub(index + step + 1)?;
                let child = built.get(later)?;
                let digest = to_proto(&Digest::of(FUNCTION, &child.encode_to_vec()));
                Some(v2::DirectoryNode { name: format!("d{step}"), digest: Some(digest) })
            });
            let symlink =
                v2::SymlinkNode { name: "s".into(), target: "../t".into(), node_properties: None };
            let directory = v2::Directory {
                directories: children.collect(),
                files: files.iter().map(|content| file_node(*content)).collect(),
                symlinks: vec![symlink; usize::from(files.len() > 3)],
                node_properties: None,
            };
            built.push(directory);
        }
        built.reverse();
        built
    }

    fn tree(&self) -> v2::Tree {
        let mut all = self.directories();
        let root = all.remove(0);
        v2::Tree { root: Some(root), children: all }
    }
}

fn native(digest: &v2::Digest) -> Digest {
    tidegate_reapi::digest::from_proto(digest, FUNCTION).unwrap()
}

/// The model: recursion over decoded messages.
fn model_directory(digest: &v2::Digest, blobs: &Blobs, needed: &mut BTreeSet<Digest>) {
    let digest = native(digest);
    if digest.len == 0 {
        return;
    }
    needed.insert(digest);
    let directory = v2::Directory::decode(&blobs.0[&digest][..]).unwrap();
    needed.extend(directory.files.iter().map(|file| native(file.digest.as_ref().unwrap())));
    for child in &directory.directories {
        model_directory(child.digest.as_ref().unwrap(), blobs, needed);
    }
}

fn model(result: &v2::ActionResult, blobs: &Blobs) -> Vec<Digest> {
    let mut needed = BTreeSet::new();
    let files = result.output_files.iter().filter_map(|file| file.digest.as_ref());
    let streams = [&result.stdout_digest, &result.stderr_digest];
    needed.extend(files.chain(streams.into_iter().flatten()).map(native));
    for output in &result.output_directories {
        if let Some(digest) = &output.tree_digest {
            needed.insert(native(digest));
            let tree = v2::Tree::decode(&blobs.0[&native(digest)][..]).unwrap();
            for directory in tree.root.iter().chain(&tree.children) {
                let files = directory.files.iter();
                needed.extend(files.map(|file| native(file.digest.as_ref().unwrap())));
            }
        }
        if let Some(digest) = &output.root_directory_digest {
            model_directory(digest, blobs, &mut needed);
        }
    }
    needed.into_iter().filter(|digest| digest.len > 0).collect()
}

/// A result with every kind of field.
fn result(outputs: &[u64], directories: Vec<v2::OutputDirectory>) -> v2::ActionResult {
    let symlink = v2::OutputSymlink {
        path: "link".into(),
        target: "target".into(),
        node_properties: Some(v2::NodeProperties::default()),
    };
    let time = Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 999 });
    let metadata = v2::ExecutedActionMetadata {
        worker: "w".into(),
        queued_timestamp: time,
        worker_start_timestamp: time,
        worker_completed_timestamp: time,
        input_fetch_start_timestamp: time,
        input_fetch_completed_timestamp: time,
        execution_start_timestamp: time,
        execution_completed_timestamp: time,
        virtual_execution_duration: Some(prost_types::Duration { seconds: 3, nanos: 0 }),
        output_upload_start_timestamp: time,
        output_upload_completed_timestamp: time,
        auxiliary_metadata: vec![prost_types::Any { type_url: "t".into(), value: vec![0xff] }; 2],
    };
    #[expect(deprecated, reason = "old clients set them")]
    v2::ActionResult {
        output_files: outputs
            .iter()
            .map(|content| v2::OutputFile {
                path: format!("out/{content}"),
                digest: Some(file(*content)),
                is_executable: content.is_multiple_of(2),
                contents: vec![0xfe; 3].into(),
                node_properties: None,
            })
            .collect(),
        output_file_symlinks: vec![symlink.clone()],
        output_symlinks: vec![symlink.clone(); 2],
        output_directories: directories,
        output_directory_symlinks: vec![symlink],
        exit_code: -1,
        stdout_raw: vec![0xff].into(),
        stdout_digest: Some(file(1000)),
        stderr_raw: vec![0xff].into(),
        stderr_digest: Some(to_proto(&Digest::of(FUNCTION, b""))),
        execution_metadata: Some(metadata),
    }
}

fn output_directory(tree: Option<v2::Digest>, root: Option<v2::Digest>) -> v2::OutputDirectory {
    v2::OutputDirectory {
        path: "dir".into(),
        tree_digest: tree,
        is_topologically_sorted: true,
        root_directory_digest: root,
    }
}

/// A result whose directories are trees, and blobs of their own.
fn of_shapes(shapes: &[Shape], outputs: &[u64]) -> (v2::ActionResult, Blobs) {
    let mut blobs = Blobs::default();
    let mut directories = Vec::new();
    for (index, shape) in shapes.iter().enumerate() {
        let tree = blobs.put(shape.tree().encode_to_vec());
        let all: Vec<v2::Digest> = shape
            .directories()
            .iter()
            .map(|directory| blobs.put(directory.encode_to_vec()))
            .collect();
        directories.push(match index % 3 {
            0 => output_directory(Some(tree), None),
            1 => output_directory(None, Some(all[0].clone())),
            _ => output_directory(Some(tree), Some(all[0].clone())),
        });
    }
    (result(outputs, directories), blobs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_closure_is_that_of_the_model(
        shapes in prop::collection::vec(shapes(), 0..5),
        outputs in prop::collection::vec(0_u64..50, 0..10),
        cut in 1_usize..200,
    ) {
        let (result, blobs) = of_shapes(&shapes, &outputs);
        let encoded = result.encode_to_vec();
        let limits = ClosureLimits::default();
        let (closure, read) = walked(&encoded, &blobs, limits, cut).unwrap();
        prop_assert_eq!(closure.blobs(), model(&result, &blobs));
        let distinct: BTreeSet<&Digest> = read.iter().collect();
        prop_assert_eq!(distinct.len(), read.len(), "a container is read twice");

        let exact = ClosureLimits { blobs_max: closure.len(), ..limits };
        prop_assert!(walked(&encoded, &blobs, exact, cut).is_ok());
        if let Some(fewer) = closure.len().checked_sub(1) {
            let bounded = ClosureLimits { blobs_max: fewer, ..limits };
            let failed = walked(&encoded, &blobs, bounded, cut).unwrap_err();
            prop_assert_eq!(failed, ClosureError::TooManyBlobs { max: fewer }.into());
        }
        let sum: u64 = read.iter().map(|digest| digest.len).sum();
        if let Some(fewer) = sum.checked_sub(1) {
            let bounded = ClosureLimits { bytes_max: fewer, ..limits };
            let failed = walked(&encoded, &blobs, bounded, cut).unwrap_err();
            prop_assert_eq!(failed, ClosureError::TooManyBytes { max: fewer }.into());
        }
    }

    /// Arbitrary bytes, and a right message with a changed byte: neither panics, and what is
    /// accepted is what the generated code decodes, with the same digests.
    #[test]
    fn what_is_accepted_is_a_message(
        noise in prop::collection::vec(any::<u8>(), 0..60),
        outputs in prop::collection::vec(0_u64..50, 0..3),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut changed = result(&outputs, Vec::new()).encode_to_vec();
        let at = at.index(changed.len());
        changed[at] = byte;
        for bytes in [&noise, &changed] {
            let walk = walked(bytes, &Blobs::default(), ClosureLimits::default(), usize::MAX);
            let Ok((closure, _)) = walk else { continue };
            let decoded = v2::ActionResult::decode(&bytes[..]).unwrap();
            prop_assert_eq!(closure.blobs(), model(&decoded, &Blobs::default()));
        }
    }

    /// A tree of arbitrary bytes, and one with a changed byte, cut in two ways: no panic, and the
    /// same outcome.
    #[test]
    fn a_damaged_tree_has_one_outcome(
        noise in prop::collection::vec(any::<u8>(), 1..60),
        shape in shapes(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in 1_usize..40,
    ) {
        let mut changed = shape.tree().encode_to_vec();
        if changed.is_empty() {
            changed.push(0);
        }
        let at = at.index(changed.len());
        changed[at] = byte;
        for bytes in [noise, changed] {
            let mut blobs = Blobs::default();
            let tree = blobs.put(bytes);
            let result = result(&[], vec![output_directory(Some(tree.clone()), None)]);
            let encoded = result.encode_to_vec();
            let limits = ClosureLimits { directory_bytes_max: 1 << 10, ..Default::default() };
            let whole = walked(&encoded, &blobs, limits, usize::MAX);
            let pieces = walked(&encoded, &blobs, limits, cut);
            prop_assert_eq!(whole.is_ok(), pieces.is_ok());
            if whole.is_ok() {
                prop_assert_eq!(&whole, &pieces);
                prop_assert!(v2::Tree::decode(&blobs.0[&native(&tree)][..]).is_ok());
            }
        }
    }
}

#[test]
fn an_empty_result_needs_nothing() {
    let closure = closure(&v2::ActionResult::default(), &Blobs::default()).unwrap();
    assert!(closure.is_empty());
}

/// A chain of 20,000 directories, each with one child: no recursion.
#[test]
fn a_deep_chain_ends() {
    let mut blobs = Blobs::default();
    let mut child = None;
    for level in 0..20_000 {
        let directory = v2::Directory {
            files: vec![file_node(level)],
            directories: child
                .take()
                .map(|digest| v2::DirectoryNode { name: "d".into(), digest: Some(digest) })
                .into_iter()
                .collect(),
            ..Default::default()
        };
        child = Some(blobs.put(directory.encode_to_vec()));
    }
    let result = result(&[], vec![output_directory(None, child)]);
    // The standard output equals one of the files.
    assert_eq!(closure(&result, &blobs).unwrap().len(), 40_000);
}

/// Each of 60 levels names the next twice: 2^60 paths, 60 directories.
#[test]
fn a_shared_directory_is_read_once() {
    let mut blobs = Blobs::default();
    let mut below = blobs
        .put(v2::Directory { files: vec![file_node(7)], ..Default::default() }.encode_to_vec());
    for _ in 0..60 {
        let node =
            |name: &str| v2::DirectoryNode { name: name.into(), digest: Some(below.clone()) };
        let directory =
            v2::Directory { directories: vec![node("a"), node("b")], ..Default::default() };
        below = blobs.put(directory.encode_to_vec());
    }
    let result = result(&[], vec![output_directory(None, Some(below))]);
    let encoded = result.encode_to_vec();
    let (closure, read) = walked(&encoded, &blobs, ClosureLimits::default(), usize::MAX).unwrap();
    assert_eq!((closure.len(), read.len()), (61 + 2, 61));
}

#[test]
fn a_missing_container_is_named() {
    let mut blobs = Blobs::default();
    let tree = blobs
        .put(v2::Tree { root: Some(v2::Directory::default()), children: vec![] }.encode_to_vec());
    let result = result(&[], vec![output_directory(Some(tree.clone()), None)]);
    assert!(closure(&result, &blobs).is_ok());
    let failed = closure(&result, &Blobs::default()).unwrap_err();
    assert_eq!(failed, Incomplete::Missing(native(&tree)));
}

#[test]
fn a_blob_that_is_a_file_and_a_directory_is_read_as_a_directory() {
    let mut blobs = Blobs::default();
    let inner = blobs
        .put(v2::Directory { files: vec![file_node(7)], ..Default::default() }.encode_to_vec());
    let mut result = result(&[], vec![output_directory(None, Some(inner.clone()))]);
    result.stdout_digest = Some(inner);
    assert_eq!(closure(&result, &blobs).unwrap().len(), 2);
}

/// An encoded field with bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend_from_slice(bytes);
    field
}

#[test]
fn what_is_no_action_result_is_refused() {
    let digest = file(1).encode_to_vec();
    let output = |fields: &[Vec<u8>]| field(2, &fields.concat());
    let cases: [(Vec<u8>, Flaw); 14] = [
        (b"{\"outputFiles\":[]}".to_vec(), Flaw::Malformed),
        (vec![0x1f, 0x8b, 8, 0], Flaw::Malformed),
        (vec![0x28, 0xb5, 0x2f, 0xfd], Flaw::Type(5)),
        (field(1, b"x"), Flaw::UnknownField(1)),
        (vec![0x6d, 0, 0, 0, 0], Flaw::UnknownField(13)),
        (vec![0x25, 0, 0, 0, 0], Flaw::Type(4)),
        (vec![0x20, 1, 0x20, 1], Flaw::Repeated(4)),
        (vec![0x22, 1], Flaw::Malformed),
        (output(&[field(1, b"path")]), Flaw::DigestMissing),
        (output(&[field(1, &[0xff]), field(2, &digest)]), Flaw::Utf8(1)),
        (output(&[field(2, &digest), field(2, &digest)]), Flaw::Repeated(2)),
        (output(&[field(2, &[digest.clone(), vec![0x10, 5]].concat())]), Flaw::Repeated(2)),
        (output(&[field(2, &field(1, b"abc"))]), Flaw::Digest),
        (output(&[field(2, &digest[..66])]), Flaw::Digest),
    ];
    for (bytes, flaw) in cases {
        let failed = walked(&bytes, &Blobs::default(), ClosureLimits::default(), 1).unwrap_err();
        assert_eq!(failed, ClosureError::NotActionResult(flaw).into(), "{bytes:?}");
    }
}

#[test]
fn unknown_fields_may_be_skipped() {
    let mut bytes = result(&[1, 2], Vec::new()).encode_to_vec();
    bytes.extend(field(14, b"new"));
    let limits = ClosureLimits::default();
    let walk = ClosureWalk::new(&bytes, FUNCTION, UnknownFields::Skip, limits).unwrap();
    assert_eq!(walk.finish().len(), 3);
    assert!(ClosureWalk::new(&bytes, FUNCTION, UnknownFields::Refuse, limits).is_err());
}

#[test]
fn a_long_directory_is_refused_before_it_is_held() {
    let limits = ClosureLimits { directory_bytes_max: 1000, ..Default::default() };
    let files = (0..100).map(file_node).collect();
    let directory = v2::Directory { files, ..Default::default() };
    let mut blobs = Blobs::default();
    let own = blobs.put(directory.encode_to_vec());
    let tree = blobs.put(v2::Tree { root: Some(directory), children: vec![] }.encode_to_vec());
    for output in [output_directory(Some(tree), None), output_directory(None, Some(own))] {
        let encoded = result(&[], vec![output]).encode_to_vec();
        let failed = walked(&encoded, &blobs, limits, 100).unwrap_err();
        let is_too_long =
            matches!(failed, Incomplete::Failed(ClosureError::DirectoryTooLong { max: 1000, .. }));
        assert!(is_too_long, "{failed:?}");
    }
}

#[test]
fn a_container_of_another_length_is_refused() {
    let mut blobs = Blobs::default();
    let directory = v2::Directory { files: vec![file_node(1)], ..Default::default() };
    let tree = v2::Tree { root: Some(directory), children: vec![] };
    let digest = blobs.put(tree.encode_to_vec());
    let native = native(&digest);
    let encoded = result(&[], vec![output_directory(Some(digest), None)]).encode_to_vec();
    for change in [Vec::clear, |bytes: &mut Vec<u8>| bytes.extend(bytes.clone())] {
        let mut blobs = blobs.clone();
        change(blobs.0.get_mut(&native).unwrap());
        let failed = walked(&encoded, &blobs, ClosureLimits::default(), 50).unwrap_err();
        let flaw = match failed {
            Incomplete::Failed(ClosureError::Container { flaw, .. }) => flaw,
            other => panic!("{other:?}"),
        };
        assert!(matches!(flaw, Flaw::Length | Flaw::Repeated(1)), "{flaw:?}");
    }
}
