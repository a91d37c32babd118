//! [`Key`]: what names a value, and [`Fingerprint`]: the part of a key that the index holds.

use tidegate_core::digest::{Digest, DigestFunction};

/// The longest key in bytes. A key of the HTTP dialects is a path, which is far shorter.
pub const KEY_BYTES_MAX: usize = 1024;

/// Which names a key belongs to. Two spaces never share a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Space {
    /// Blobs by digest, and what stands for a blob: a manifest.
    Blob = 1,
    /// Action results by instance and digest of the action.
    Action = 2,
    /// Opaque values by any bytes.
    Value = 3,
}

impl Space {
    /// The space with this number.
    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Blob),
            2 => Some(Self::Action),
            3 => Some(Self::Value),
            _ => None,
        }
    }
}

/// The first byte of a key of [`Space::Value`]: what the value is. Opaque values of clients have a
/// byte of their own, so that no client can name a manifest.
pub(crate) const MANIFEST: u8 = 1;
pub(crate) const SLICE: u8 = 2;
pub(crate) const OPAQUE: u8 = 3;

/// The bytes of a digest in a key: function, length, hash.
pub(crate) const DIGEST_BYTES: usize = 41;

/// The bytes of a tenant in a key.
const OWNER_BYTES: usize = 16;

/// Whose blobs a key names: those that all tenants share, or those of one tenant alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(Option<[u8; OWNER_BYTES]>);

impl Owner {
    /// All tenants.
    pub const SHARED: Self = Self(None);

    /// The tenant with this name.
    pub fn of_tenant(name: &str) -> Self {
        let mut taken = [0; OWNER_BYTES];
        taken.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..OWNER_BYTES]);
        Self(Some(taken))
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| bytes)
    }
}

/// What names a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    space: Space,
    bytes: Box<[u8]>,
}

impl Key {
    /// A key of any bytes; `None` if they are more than [`KEY_BYTES_MAX`].
    pub fn new(space: Space, bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= KEY_BYTES_MAX).then(|| Self { space, bytes: bytes.into() })
    }

    /// The key of a blob that all tenants share: function, length and hash.
    pub fn blob(digest: &Digest) -> Self {
        Self::blob_of(Owner::SHARED, digest)
    }

    /// The key of a blob of this owner.
    pub fn blob_of(owner: Owner, digest: &Digest) -> Self {
        Self { space: Space::Blob, bytes: named_bytes(owner, digest).into() }
    }

    /// The space.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// The bytes.
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of a key made by [`Key::blob_of`].
    pub fn digest(&self) -> Option<Digest> {
        if self.space != Space::Blob {
            return None;
        }
        self.named_digest()
    }

    /// The digest of a key that stands for a blob: its own, or that of a value beside it.
    pub(crate) fn named_digest(&self) -> Option<Digest> {
        let at = self.digest_at()?;
        digest_of(&self.bytes[at..at + DIGEST_BYTES])
    }

    /// Whether both keys stand for a blob of the same owner in the same way.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        let around = self.around_digest();
        around.is_some() && around == other.around_digest()
    }

    /// The space, and what is before and behind the digest of a key that stands for a blob.
    fn around_digest(&self) -> Option<(Space, &[u8], &[u8])> {
        let at = self.digest_at()?;
        Some((self.space, &self.bytes[..at], &self.bytes[at + DIGEST_BYTES..]))
    }

    /// Where the digest is in the bytes of a key that stands for a blob.
    fn digest_at(&self) -> Option<usize> {
        let at = match (self.space, self.bytes.first()?) {
            (Space::Blob, _) => 0,
            (Space::Value, &(MANIFEST | SLICE)) => 1,
            _ => return None,
        };
        let owner = self.bytes.len().checked_sub(at + DIGEST_BYTES)?;
        matches!(owner, 0 | OWNER_BYTES).then_some(at)
    }
}

pub(crate) fn digest_of(bytes: &[u8]) -> Option<Digest> {
    let bytes: &[u8; DIGEST_BYTES] = bytes.try_into().ok()?;
    let function = match bytes[0] {
        1 => DigestFunction::Sha256,
        2 => DigestFunction::Blake3,
        _ => return None,
    };
    let len = u64::from_le_bytes(bytes[1..9].try_into().ok()?);
    Some(Digest { function, len, hash: bytes[9..].try_into().ok()? })
}

/// A digest and its owner.
fn named_bytes(owner: Owner, digest: &Digest) -> Vec<u8> {
    [&digest_bytes(digest), owner.bytes()].concat()
}

fn digest_bytes(digest: &Digest) -> [u8; DIGEST_BYTES] {
    let mut bytes = [0; DIGEST_BYTES];
    bytes[0] = match digest.function {
        DigestFunction::Blake3 => 2,
        // The engine knows two functions. A third one needs a number here.
        _ => 1,
    };
    bytes[1..9].copy_from_slice(&digest.len.to_le_bytes());
    bytes[9..].copy_from_slice(&digest.hash);
    bytes
}

/// The index does not keep these lowest bits of [`Fingerprint::low`].
pub(crate) const LOW_BITS_UNUSED: u32 = 6;
/// The longest length that the rest of `low` holds: 256 PiB.
const LEN_ADDED_MAX: u64 = u64::MAX >> LOW_BITS_UNUSED;

/// 144 bits of a keyed hash of a key. The index keeps at least 128 of them.
///
/// It is keyed with a number of the store, so that a client cannot choose keys that collide in the
/// table.
///
/// A blob's length is not hashed but added to the low bits. So keys with one hash and different
/// lengths differ in `low` only, and the index finds a blob whose length is unknown: HTTP paths
/// hold no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint {
    /// Selects the shard.
    pub(crate) shard: u16,
    /// Selects the position within the shard.
    pub(crate) high: u64,
    pub(crate) low: u64,
}

impl Fingerprint {
    /// No key has it: a hash is 0 with a chance of 1 in 2^144.
    pub(crate) const NONE: Self = Self { shard: 0, high: 0, low: 0 };

    /// The bytes of a fingerprint in a record.
    pub(crate) const BYTES: usize = 18;

    /// The fingerprint of a key in the store with this salt.
    pub fn of(salt: &[u8; 32], key: &Key) -> Self {
        let mut all = Vec::with_capacity(1 + key.bytes.len());
        all.push(key.space as u8);
        all.extend_from_slice(&key.bytes);
        match key.digest_at() {
            Some(at) => Self::of_digest(salt, &mut all, 1 + at),
            None => Self::of_bytes(salt, &all),
        }
    }

    /// The fingerprint of a blob's key. It allocates nothing.
    pub fn of_blob(salt: &[u8; 32], owner: Owner, digest: &Digest) -> Self {
        let mut all = [Space::Blob as u8; 1 + DIGEST_BYTES + OWNER_BYTES];
        all[1..=DIGEST_BYTES].copy_from_slice(&digest_bytes(digest));
        let len = 1 + DIGEST_BYTES + owner.bytes().len();
        all[1 + DIGEST_BYTES..len].copy_from_slice(owner.bytes());
        Self::of_digest(salt, &mut all[..len], 1)
    }

    /// The fingerprint of the key of a value beside a blob: a manifest or a slice. It allocates
    /// nothing.
    pub(crate) fn beside_blob(salt: &[u8; 32], owner: Owner, digest: &Digest, tag: u8) -> Self {
        let mut all = [Space::Value as u8; 2 + DIGEST_BYTES + OWNER_BYTES];
        all[1] = tag;
        all[2..2 + DIGEST_BYTES].copy_from_slice(&digest_bytes(digest));
        let len = 2 + DIGEST_BYTES + owner.bytes().len();
        all[2 + DIGEST_BYTES..len].copy_from_slice(owner.bytes());
        Self::of_digest(salt, &mut all[..len], 2)
    }

    /// The fingerprint of a key with a digest at `at`.
    fn of_digest(salt: &[u8; 32], all: &mut [u8], at: usize) -> Self {
        let mut len = [0; 8];
        len.copy_from_slice(&all[at + 1..at + 9]);
        let len = u64::from_le_bytes(len);
        if len > LEN_ADDED_MAX {
            // No blob is so long. The hash keeps such lengths apart.
            return Self::of_bytes(salt, all);
        }
        all[at + 1..at + 9].fill(0);
        let fingerprint = Self::of_bytes(salt, all);
        Self { low: fingerprint.low ^ (len << LOW_BITS_UNUSED), ..fingerprint }
    }

    fn of_bytes(salt: &[u8; 32], bytes: &[u8]) -> Self {
        let hash = blake3::keyed_hash(salt, bytes);
        let mut taken = [0; Self::BYTES];
        taken.copy_from_slice(&hash.as_bytes()[..Self::BYTES]);
        Self::from_bytes(&taken)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.high.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.low.to_le_bytes());
        bytes[16..].copy_from_slice(&self.shard.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Self { high: word(0), low: word(8), shard: u16::from_le_bytes([bytes[16], bytes[17]]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of one hash have one place in the index, and no two of them one fingerprint.
    #[test]
    fn lengths_of_one_hash_differ_in_the_low_bits_only() {
        let salt = [7; 32];
        let digest = Digest::of(DigestFunction::Sha256, b"blob");
        let of = |len| Fingerprint::of_blob(&salt, Owner::SHARED, &Digest { len, ..digest });
        let first = of(0);
        for len in [1, 63, 64, 65, 1 << 20, LEN_ADDED_MAX] {
            let other = of(len);
            assert_eq!((other.shard, other.high), (first.shard, first.high), "{len}");
            assert_ne!(other.low >> LOW_BITS_UNUSED, first.low >> LOW_BITS_UNUSED, "{len}");
        }
        for len in [LEN_ADDED_MAX + 1, u64::MAX] {
            assert_ne!(of(len).high, first.high, "{len}");
        }
        let blake3 = Digest { function: DigestFunction::Blake3, ..digest };
        assert_ne!(Fingerprint::of_blob(&salt, Owner::SHARED, &blake3).high, of(4).high);
        let key = Key::blob(&digest);
        assert_eq!(Fingerprint::of(&salt, &key), of(4));
        let value = Key::new(Space::Value, key.bytes()).unwrap();
        assert_ne!(Fingerprint::of(&salt, &value).high, of(4).high);
        for (tag, owner) in [(MANIFEST, Owner::SHARED), (SLICE, Owner::of_tenant("a"))] {
            let beside = [&[tag], Key::blob_of(owner, &digest).bytes()].concat();
            let beside = Key::new(Space::Value, &beside).unwrap();
            let fingerprint = Fingerprint::beside_blob(&salt, owner, &digest, tag);
            assert_eq!(Fingerprint::of(&salt, &beside), fingerprint);
        }
    }

    /// The blobs of two tenants are found apart, each by its hash alone as well.
    #[test]
    fn blobs_of_two_owners_have_nothing_in_common() {
        let salt = [7; 32];
        let digest = Digest::of(DigestFunction::Sha256, b"blob");
        let owners = [Owner::SHARED, Owner::of_tenant(""), Owner::of_tenant("a")];
        for (place, owner) in owners.into_iter().enumerate() {
            let key = Key::blob_of(owner, &digest);
            let found = Fingerprint::of(&salt, &key);
            assert_eq!(found, Fingerprint::of_blob(&salt, owner, &digest));
            assert_eq!((key.digest(), key.named_digest()), (Some(digest), Some(digest)));
            let longer = Key::blob_of(owner, &Digest { len: 9, ..digest });
            assert_eq!(Fingerprint::of(&salt, &longer).high, found.high);
            assert!(key.is_same_kind(&longer));
            for other in &owners[..place] {
                let other = Key::blob_of(*other, &digest);
                assert_ne!(Fingerprint::of(&salt, &other).high, found.high);
                assert!(!key.is_same_kind(&other));
            }
        }
    }
}
