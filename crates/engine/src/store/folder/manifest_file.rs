//! Manifests as text, one chunk per line, with a hash of the text at the end:
//!
//! ```text
//! tidegate manifest 1
//! blob sha256/HEX/LEN
//! chunking fastcdc2020 131072 524288 2097152 2 0
//! chunk sha256/HEX/LEN
//! chunk sha256/HEX/LEN
//! end HEX
//! ```
//!
//! The hash is the SHA-256 of everything before the last line. A text with another hash is rejected
//! completely: a power failure may have truncated it.

use std::fmt::Write as _;

use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::digest::{Digest, DigestFunction};

use crate::store::Manifest;

const HEADER: &str = "tidegate manifest 1";

/// The text of a manifest.
pub(super) fn encode(manifest: &Manifest) -> String {
    let mut text = format!("{HEADER}\nblob {}\n", manifest.blob());
    if let Some(chunking) = manifest.chunking().and_then(encode_chunking) {
        let _ = writeln!(text, "chunking {chunking}");
    }
    for chunk in manifest.chunks() {
        let _ = writeln!(text, "chunk {chunk}");
    }
    let end = hash(&text);
    let _ = writeln!(text, "end {end}");
    text
}

/// Parses the manifest of `blob`; `None` if `text` is not a manifest, or belongs to another blob.
pub(super) fn decode(blob: &Digest, text: &str) -> Option<Manifest> {
    let (body, end) = text.strip_suffix('\n')?.rsplit_once("end ")?;
    if hash(body) != end {
        return None;
    }
    let mut lines = body.lines().peekable();
    if lines.next()? != HEADER || lines.next()? != format!("blob {blob}") {
        return None;
    }
    let chunking = match lines.peek().and_then(|line| line.strip_prefix("chunking ")) {
        Some(chunking) => {
            let chunking = decode_chunking(chunking)?;
            lines.next();
            Some(chunking)
        }
        None => None,
    };
    let chunk = |line: &str| Digest::parse(line.strip_prefix("chunk ")?).ok();
    let chunks: Option<Vec<Digest>> = lines.map(chunk).collect();
    Manifest::new(*blob, chunks?, chunking).ok()
}

fn hash(text: &str) -> String {
    Digest::of(DigestFunction::Sha256, text.as_bytes()).checksum().hex()
}

fn encode_chunking(chunking: &Chunking) -> Option<String> {
    Some(match chunking {
        Chunking::FastCdc2020(params) => format!(
            "fastcdc2020 {} {} {} {} {}",
            params.min_bytes(),
            params.avg_bytes(),
            params.max_bytes(),
            params.normalization(),
            params.seed()
        ),
        Chunking::RepMaxCdc(params) => {
            format!("repmaxcdc {} {}", params.min_bytes(), params.horizon_bytes())
        }
        _ => return None,
    })
}

fn decode_chunking(text: &str) -> Option<Chunking> {
    let mut words = text.split(' ');
    let name = words.next()?;
    let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
    match (name, &*numbers?) {
        ("fastcdc2020", &[min, avg, max, normalization, seed]) => {
            let params = FastCdc2020Params::new(avg, u32::try_from(seed).ok()?).ok()?;
            let params = params.with_chunk_bytes(min..=max).ok()?;
            let params = params.with_normalization(u32::try_from(normalization).ok()?).ok()?;
            Some(Chunking::FastCdc2020(params))
        }
        ("repmaxcdc", &[min, horizon]) => {
            RepMaxCdcParams::new(min, horizon).ok().map(Chunking::RepMaxCdc)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(chunking: Option<Chunking>) -> Manifest {
        let of = |text: &str| Digest::of(DigestFunction::Blake3, text.as_bytes());
        Manifest::new(of("abcabd"), vec![of("abc"), of("abd")], chunking).unwrap()
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let fast = FastCdc2020Params::new(1024, 7).unwrap().with_chunk_bytes(100..=9999).unwrap();
        let fast = Chunking::FastCdc2020(fast.with_normalization(3).unwrap());
        let rep = Chunking::RepMaxCdc(RepMaxCdcParams::new(64, 128).unwrap());
        for chunking in [None, Some(fast), Some(rep)] {
            let manifest = manifest(chunking);
            assert_eq!(decode(manifest.blob(), &encode(&manifest)), Some(manifest));
        }
    }

    #[test]
    fn a_damaged_text_is_no_manifest() {
        let manifest = manifest(None);
        let (blob, text) = (*manifest.blob(), encode(&manifest));
        for at in 0..text.len() {
            assert_eq!(decode(&blob, &text[..at]), None, "cut at {at}");
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(text) = String::from_utf8(bytes) {
                assert_eq!(decode(&blob, &text), None, "changed at {at}");
            }
        }
        assert_eq!(decode(&Digest::of(DigestFunction::Blake3, b"other!"), &text), None);
    }
}
