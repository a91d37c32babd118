//! Seals: they distinguish the journals of this user's runs from bytes that a server sent.
//!
//! A part file holds bytes of a server, so it may end in bytes that look like a journal. This
//! happens between cutting the journal off and the rename, in a blob of unknown length, and in a
//! file that itself was downloaded as a part file. A seal is a keyed hash (BLAKE3) of a record, its
//! offset, the header and the part file's name. Its key is derived from the user's key and is
//! stored nowhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::super::user_key::{Tag, UserKey};

/// Half of a hash: a blind forgery succeeds with probability 2^-128.
pub(super) const SEAL_BYTES: usize = 16;

/// The domain of the user's key for seals.
const DOMAIN: &str = "tidegate journal, format 2";

/// Seals the journals of one part file.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    pub(crate) key: Option<UserKey>,
    /// The part file's name: a journal sealed for another name is not accepted.
    name: Vec<u8>,
}

/// Seals the records of one journal. Without a key the seals are zeros and verify nothing.
#[derive(Clone)]
pub(super) struct Seal(Option<Tag>);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Sealing {
    pub(crate) fn new(key: Option<UserKey>, name: &OsStr) -> Self {
        Self { key, name: name.as_bytes().to_vec() }
    }

    /// The seal of a journal with this header, its padding included.
    pub(super) fn of_journal(&self, header: &[u8]) -> Seal {
        let tag = |key: &UserKey| {
            let mut bytes = (self.name.len() as u64).to_le_bytes().to_vec();
            bytes.extend_from_slice(&self.name);
            bytes.extend_from_slice(header);
            key.tag(DOMAIN, &bytes)
        };
        Seal(self.key.as_ref().map(tag))
    }
}

impl Seal {
    /// The seal of a record at `offset`.
    pub(super) fn of(&self, record: &[u8], offset: u64) -> [u8; SEAL_BYTES] {
        let mut seal = [0; SEAL_BYTES];
        if let Some(key) = &self.0 {
            let mut hasher = blake3::Hasher::new_keyed(key);
            hasher.update(&offset.to_le_bytes()).update(record);
            seal.copy_from_slice(&hasher.finalize().as_bytes()[..SEAL_BYTES]);
        }
        seal
    }

    /// Whether `seal` is the seal of a record at `offset`. Without a key this is always true.
    pub(super) fn holds(&self, record: &[u8], offset: u64, seal: &[u8]) -> bool {
        self.0.is_none() || self.of(record, offset) == seal
    }
}
