//! Values, trees and directories that are refused, and why.

use prost::Message as _;
use tidegate_reapi::v2;

use super::super::{ClosureError, ClosureLimits, ClosureWalk, Flaw, UnknownFields};
use super::{
    Blobs, FUNCTION, Incomplete, file, file_node, native, output_directory, result, walked,
};

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
