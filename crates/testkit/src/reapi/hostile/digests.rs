//! Lies about digests: their list and their form.

use tidegate_reapi::v2::Digest;

use super::super::blob_name::{BlobName, HashFunction};
use super::lie::{DigestForm, DigestsLie, HashForm, Lie};

/// Longer than any existing hash.
const LONG_HASH_BYTES: usize = 4096;

/// The blobs of a call.
pub(crate) struct Named<'a> {
    pub(crate) function: HashFunction,
    /// The requested digests; the blob is first.
    pub(crate) asked: &'a [BlobName],
}

/// Applies the lies about digests.
pub(crate) fn tell(lies: &[Lie], digests: &mut Vec<Digest>, named: &Named<'_>) {
    for lie in lies {
        if let Lie::Digests(lie) = lie {
            list(*lie, digests, named);
        }
    }
}

/// The same for a digest that may be absent.
pub(crate) fn tell_one(lies: &[Lie], digest: &mut Option<Digest>, named: &Named<'_>) {
    let mut digests: Vec<Digest> = digest.take().into_iter().collect();
    tell(lies, &mut digests, named);
    *digest = digests.into_iter().next();
}

fn list(lie: DigestsLie, digests: &mut Vec<Digest>, named: &Named<'_>) {
    let count = digests.len();
    match lie {
        DigestsLie::Clear => digests.clear(),
        DigestsLie::Asked => *digests = named.asked.iter().map(BlobName::message).collect(),
        DigestsLie::Reverse => digests.reverse(),
        DigestsLie::Insert(at, form) => {
            let Some(at) = place(at, count + 1) else { return };
            let mut digest = digests.get(at).cloned().unwrap_or_default();
            alter(&mut digest, form, named);
            digests.insert(at, digest);
        }
        DigestsLie::Omit(at) => {
            if let Some(at) = place(at, count) {
                digests.remove(at);
            }
        }
        DigestsLie::Repeat(at, times) => {
            let Some(at) = place(at, count) else { return };
            let again = vec![digests[at].clone(); usize::from(times)];
            digests.splice(at..at, again);
        }
        DigestsLie::Swap(one, other) => {
            if let (Some(one), Some(other)) = (place(one, count), place(other, count)) {
                digests.swap(one, other);
            }
        }
        DigestsLie::Alter(at, form) => {
            if let Some(at) = place(at, count) {
                alter(&mut digests[at], form, named);
            }
        }
        DigestsLie::Shift(at) => {
            let (Some(at), Some(next)) = (place(at, count), place(at.wrapping_add(1), count))
            else {
                return;
            };
            digests[at].size_bytes += 1;
            digests[next].size_bytes -= 1;
        }
    }
}

/// The index of a position in a list of this length.
pub(crate) fn place(position: u8, count: usize) -> Option<usize> {
    (count > 0).then(|| usize::from(position) % count)
}

/// Changes a digest.
pub(crate) fn alter(digest: &mut Digest, form: DigestForm, named: &Named<'_>) {
    match form {
        DigestForm::Foreign => *digest = named.function.name(b"never asked for").message(),
        DigestForm::Unset => *digest = Digest::default(),
        DigestForm::OfNothing => *digest = named.function.name(b"").message(),
        DigestForm::OfBlob => {
            if let Some(blob) = named.asked.first() {
                *digest = blob.message();
            }
        }
        DigestForm::Size(form) => digest.size_bytes = form.of(digest.size_bytes),
        DigestForm::Hash(form) => respell(&mut digest.hash, form),
    }
}

fn respell(hash: &mut String, form: HashForm) {
    match form {
        HashForm::Absent => hash.clear(),
        HashForm::Short => {
            hash.pop();
        }
        HashForm::Long => *hash = "0".repeat(LONG_HASH_BYTES),
        HashForm::UpperCase => hash.make_ascii_uppercase(),
        HashForm::Path => *hash = format!("../{}", hash.get(3..).unwrap_or_default()),
        HashForm::OneDigit => {
            let other = if hash.starts_with('0') { '1' } else { '0' };
            *hash = format!("{other}{}", hash.get(1..).unwrap_or_default());
        }
    }
}
