//! The requested blobs: empty, 1 byte, 300 bytes and 5,000 bytes. The last can exceed a frame.

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};

pub(crate) fn blobs() -> Vec<Bytes> {
    let lens = [0_usize, 1, 300, 5_000];
    lens.iter().map(|len| (0..*len).map(|at| (at % 7 * at) as u8).collect()).collect()
}

pub(crate) fn name(bytes: &[u8]) -> Digest {
    Digest::of(DigestFunction::Sha256, bytes)
}

pub(crate) fn chosen(index: u8) -> Bytes {
    let blobs = blobs();
    blobs[usize::from(index) % blobs.len()].clone()
}
