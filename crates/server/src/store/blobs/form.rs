//! [`Form`]: what a value is; and the keys of what stands for a blob.

use tidegate_core::digest::Digest;

use crate::store::key::{Key, MANIFEST, OPAQUE, Owner, SLICE, Space};

/// What a value is. The numbers are in the log and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    /// The bytes themselves.
    Plain = 0,
    /// One zstd frame of them.
    Zstd = 1,
    /// The chunks of a blob.
    Manifest = 2,
    /// Where a blob lies in another one.
    Slice = 3,
    /// An action result with its closure.
    Action = 4,
}

impl Form {
    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Zstd),
            2 => Some(Self::Manifest),
            3 => Some(Self::Slice),
            4 => Some(Self::Action),
            _ => None,
        }
    }
}

/// The key of the manifest of a blob.
pub(crate) fn manifest_key(owner: Owner, digest: &Digest) -> Key {
    beside(owner, digest, MANIFEST)
}

/// The key of the place of a blob in another one.
pub(crate) fn slice_key(owner: Owner, digest: &Digest) -> Key {
    beside(owner, digest, SLICE)
}

/// The key of a client's own value; `None` if its name is too long.
pub(crate) fn opaque_key(name: &[u8]) -> Option<Key> {
    Key::new(Space::Value, &[&[OPAQUE], name].concat())
}

/// A value beside that of the blob. It can be replaced, unlike the blob itself.
fn beside(owner: Owner, digest: &Digest, tag: u8) -> Key {
    let blob = Key::blob_of(owner, digest);
    let bytes = [&[tag], blob.bytes()].concat();
    // 58 bytes are never too long.
    Key::new(Space::Value, &bytes).unwrap_or(blob)
}
