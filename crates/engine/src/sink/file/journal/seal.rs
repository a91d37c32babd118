//! Seals: what tells the journals of this user's runs from bytes that a server sent.
//!
//! A part file holds bytes of a server, and so may end in what looks like a journal: in a window
//! between cutting the journal off and the rename, in a blob of unknown length, or in a file that
//! was fetched as one. A seal is a keyed hash (BLAKE3) of a record, its place, the header and the
//! target's name, by a key that is derived from the user's and kept nowhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::super::user_key::{Tag, UserKey};

/// Half of a hash: what forges one blindly succeeds once in 2^128.
pub(super) const SEAL_BYTES: usize = 16;

/// What the user's key is used for here.
const DOMAIN: &str = "tidegate journal, format 2";

/// What seals the journals of one part file.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    pub(crate) key: Option<UserKey>,
    /// The part file's name: a journal under another is not believed.
    name: Vec<u8>,
}

/// What seals the records of one journal; zeros, which prove nothing, where there is no key.
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

    /// Whether `seal` is that of a record at `offset`; without a key everything is.
    pub(super) fn holds(&self, record: &[u8], offset: u64, seal: &[u8]) -> bool {
        self.0.is_none() || self.of(record, offset) == seal
    }
}
