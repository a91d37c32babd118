//! Action results, trees and directories as clients send them: no bytes cause a panic, a result that
//! is accepted decodes, and the pieces in which a tree arrives decide nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tidegate_server::store::closure::{
    Closure, ClosureError, ClosureLimits, ClosureWalk, UnknownFields,
};

const FUNCTION: DigestFunction = DigestFunction::Sha256;

/// The closure, where the only blob of the store is `container`; `None` if another one is missing.
fn closure(
    result: &[u8],
    container: &[u8],
    cut: usize,
) -> Result<Option<Closure>, ClosureError> {
    let limits = ClosureLimits { blobs_max: 1000, bytes_max: 1 << 20, directory_bytes_max: 4096 };
    let mut walk = ClosureWalk::new(result, FUNCTION, UnknownFields::Refuse, limits)?;
    while let Some(blob) = walk.next_blob()? {
        if blob != Digest::of(FUNCTION, container) {
            return Ok(None);
        }
        for piece in container.chunks(cut) {
            walk.piece(piece)?;
        }
        walk.end_blob()?;
    }
    Ok(Some(walk.finish()))
}

fuzz_target!(|input: (&[u8], &[u8], u8)| {
    let (result, container, cut) = input;
    let cut = usize::from(cut).max(1);
    if closure(result, &[], 1).is_ok() {
        assert!(v2::ActionResult::decode(result).is_ok());
    }
    let digest = Some(to_proto(&Digest::of(FUNCTION, container)));
    for output in [
        v2::OutputDirectory { tree_digest: digest.clone(), ..Default::default() },
        v2::OutputDirectory { root_directory_digest: digest, ..Default::default() },
    ] {
        let result = v2::ActionResult { output_directories: vec![output], ..Default::default() };
        let result = result.encode_to_vec();
        let whole = closure(&result, container, usize::MAX);
        let pieces = closure(&result, container, cut);
        assert_eq!(whole.is_ok(), pieces.is_ok());
        if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
            assert_eq!(whole, pieces);
        }
    }
});
