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

    /// The key of a blob: function, length and hash.
    pub fn blob(digest: &Digest) -> Self {
        Self { space: Space::Blob, bytes: digest_bytes(digest).into() }
    }

    /// The space.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// The bytes.
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of a key made by [`Key::blob`].
    pub fn digest(&self) -> Option<Digest> {
        if self.space != Space::Blob {
            return None;
        }
        let bytes: &[u8; 41] = self.bytes[..].try_into().ok()?;
        let function = match bytes[0] {
            1 => DigestFunction::Sha256,
            2 => DigestFunction::Blake3,
            _ => return None,
        };
        let len = u64::from_le_bytes(bytes[1..9].try_into().ok()?);
        Some(Digest { function, len, hash: bytes[9..].try_into().ok()? })
    }
}

fn digest_bytes(digest: &Digest) -> [u8; 41] {
    let mut bytes = [0; 41];
    bytes[0] = match digest.function {
        DigestFunction::Blake3 => 2,
        // The engine knows two functions. A third one needs a number here.
        _ => 1,
    };
    bytes[1..9].copy_from_slice(&digest.len.to_le_bytes());
    bytes[9..].copy_from_slice(&digest.hash);
    bytes
}

/// 144 bits of a keyed hash of a key. The index keeps at least 128 of them.
///
/// The hash covers space, function, length and hash of a digest. It is keyed with a number of the
/// store, so that a client cannot choose keys that collide in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint {
    /// Selects the shard.
    pub(crate) shard: u16,
    /// Selects the position within the shard.
    pub(crate) high: u64,
    pub(crate) low: u64,
}

impl Fingerprint {
    /// The bytes of a fingerprint in a record.
    pub(crate) const BYTES: usize = 18;

    /// The fingerprint of a key in the store with this salt.
    pub fn of(salt: &[u8; 32], key: &Key) -> Self {
        let mut all = Vec::with_capacity(1 + key.bytes.len());
        all.push(key.space as u8);
        all.extend_from_slice(&key.bytes);
        Self::of_bytes(salt, &all)
    }

    /// The fingerprint of a blob's key. It allocates nothing.
    pub fn of_blob(salt: &[u8; 32], digest: &Digest) -> Self {
        let mut all = [Space::Blob as u8; 42];
        all[1..].copy_from_slice(&digest_bytes(digest));
        Self::of_bytes(salt, &all)
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
