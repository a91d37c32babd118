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
use std::io::{self, BufRead, Read as _};

use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::digest::{Digest, DigestFunction};

use crate::store::Manifest;

const HEADER: &str = "tidegate manifest 1";

/// Maximum length of a line. A chunk's line has at most 98 bytes.
const LINE_BYTES_MAX: u64 = 256;

/// The text of a manifest.
pub(super) fn encode(manifest: &Manifest) -> String {
    let mut text = format!("{HEADER}\nblob {}\n", manifest.blob());
    if let Some(chunking) = manifest.chunking().and_then(encode_chunking) {
        let _ = writeln!(text, "chunking {chunking}");
    }
    for chunk in manifest.chunks() {
        let _ = writeln!(text, "chunk {chunk}");
    }
    let end = Digest::of(DigestFunction::Sha256, text.as_bytes()).checksum().hex();
    let _ = writeln!(text, "end {end}");
    text
}

/// Reads the manifest of `blob`; `None` if the text is not a manifest, or belongs to another blob.
pub(super) fn decode(blob: &Digest, text: impl BufRead) -> io::Result<Option<Manifest>> {
    let mut chunks = Vec::new();
    let Some(scanned) = scan(blob, text, |chunk| chunks.push(chunk))? else { return Ok(None) };
    Ok(Manifest::new(*blob, chunks, scanned.chunking).ok())
}

/// The fields of a manifest besides its chunks.
pub(super) struct Scanned {
    chunking: Option<Chunking>,
}

/// Reads the manifest of `blob` line by line, in bounded memory, and passes each chunk to `each`.
/// `None` if the text is not a manifest, or belongs to another blob: then the chunks passed mean
/// nothing.
pub(super) fn scan(
    blob: &Digest,
    mut text: impl BufRead,
    mut each: impl FnMut(Digest),
) -> io::Result<Option<Scanned>> {
    let Ok(mut hasher) = Checksummer::new(ChecksumAlgorithm::Sha256) else { return Ok(None) };
    let (mut bytes, mut number, mut len) = (Vec::new(), 0_u64, 0_u64);
    let mut scanned = Scanned { chunking: None };
    while let Some(line) = read_line(&mut text, &mut bytes)? {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        match (number, word) {
            (0, _) if line == HEADER => {}
            (1, "blob") if value == blob.to_string() => {}
            (2, "chunking") => {
                let Some(chunking) = decode_chunking(value) else { return Ok(None) };
                scanned.chunking = Some(chunking);
            }
            (2.., "chunk") => {
                let Ok(chunk) = Digest::parse(value) else { return Ok(None) };
                let Some(sum) = len.checked_add(chunk.len) else { return Ok(None) };
                len = sum;
                each(chunk);
            }
            (2.., "end") => {
                let is_whole = hasher.finish().hex() == value && text.fill_buf()?.is_empty();
                return Ok((is_whole && len == blob.len).then_some(scanned));
            }
            _ => return Ok(None),
        }
        hasher.update(&bytes);
        number += 1;
    }
    Ok(None)
}

/// Reads a line into `bytes` and returns it without its end. `None` at the end of the text, and for
/// a line that no manifest has: one that is too long, incomplete or not UTF-8.
fn read_line<'a>(text: &mut impl BufRead, bytes: &'a mut Vec<u8>) -> io::Result<Option<&'a str>> {
    bytes.clear();
    text.take(LINE_BYTES_MAX).read_until(b'\n', bytes)?;
    let line = bytes.strip_suffix(b"\n");
    Ok(line.and_then(|line| str::from_utf8(line).ok()))
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

    fn decoded(blob: &Digest, text: impl AsRef<[u8]>) -> Option<Manifest> {
        decode(blob, text.as_ref()).unwrap()
    }

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
            assert_eq!(decoded(manifest.blob(), encode(&manifest)), Some(manifest));
        }
    }

    #[test]
    fn a_damaged_text_is_no_manifest() {
        let manifest = manifest(None);
        let (blob, text) = (*manifest.blob(), encode(&manifest));
        for at in 0..text.len() {
            assert_eq!(decoded(&blob, &text[..at]), None, "cut at {at}");
            for bit in [1, 0x80] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= bit;
                assert_eq!(decoded(&blob, bytes), None, "changed at {at}");
            }
        }
        assert_eq!(decoded(&blob, format!("{text}x")), None);
        assert_eq!(decoded(&blob, format!("{text}{text}")), None);
        assert_eq!(decoded(&Digest::of(DigestFunction::Blake3, b"other!"), text), None);
    }
}
