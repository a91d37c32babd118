//! Changes an honest response of `SplitBlob` by a lie.
//!
//! Each lie is wrong in one way only. If possible, the rest still adds up to the blob, so that no
//! other check finds the lie.

use tidegate_reapi::v2::{Digest, SplitBlobResponse};

use super::{
    blob_name::BlobName,
    cas::{Cas, joined},
    fault::SplitLie,
};

pub(crate) fn tell(lie: &SplitLie, answer: &mut SplitBlobResponse, cas: &Cas, blob: &BlobName) {
    let chunks = &mut answer.chunk_digests;
    match lie {
        SplitLie::Empty => chunks.clear(),
        SplitLie::ZeroLength => beside_first(chunks, 0),
        SplitLie::NegativeLength => beside_first(chunks, -1),
        SplitLie::Oversized => {
            // The blob itself, under its own name: it exists, and it adds up.
            if let Some(pieces) = cas.pieces(blob) {
                cas.put(blob.clone(), vec![joined(pieces)]);
            }
            *chunks = vec![blob.message()];
        }
        SplitLie::SumShort => {
            chunks.pop();
        }
        SplitLie::SumLong => chunks.extend(chunks.last().cloned()),
        SplitLie::Overflow => {
            chunks.truncate(1);
            for chunk in chunks.iter_mut() {
                chunk.size_bytes = i64::MAX;
            }
            chunks.extend(chunks.first().cloned());
        }
        SplitLie::Repeated(times) => {
            let first = chunks.first().cloned();
            *chunks = first.map_or_else(Vec::new, |first| vec![first; *times]);
        }
        SplitLie::Exchanged => {
            let last = chunks.len().saturating_sub(1);
            if last > 0 {
                chunks.swap(0, last);
            }
        }
        SplitLie::NamesFunction(number) => answer.chunking_function = *number,
        SplitLie::OtherFunction => {}
        SplitLie::ShortHash => first_hash(chunks, |hash| hash[1..].to_owned()),
        SplitLie::UpperCaseHash => first_hash(chunks, str::to_uppercase),
        SplitLie::PathHash => first_hash(chunks, |hash| format!("../{}", &hash[3..])),
    }
}

/// Adds a chunk of another length next to the first; the last chunk compensates for it.
fn beside_first(chunks: &mut Vec<Digest>, size_bytes: i64) {
    let Some(first) = chunks.first().cloned() else { return };
    if let Some(last) = chunks.last_mut() {
        last.size_bytes -= size_bytes;
    }
    chunks.insert(0, Digest { size_bytes, ..first });
}

fn first_hash(chunks: &mut [Digest], change: impl FnOnce(&str) -> String) {
    if let Some(first) = chunks.first_mut() {
        first.hash = change(&first.hash);
    }
}
