//! Keys by hash alone. HTTP names a blob without its length.

use super::Core;
use super::read::ATTEMPTS_MAX;
use crate::store::error::StoreResult;
use crate::store::key::Key;

impl Core {
    /// The keys of values with the hash of `key`, whatever length it says. `key` stands for a blob.
    /// At most a few: a key has a blob's hash only after the bytes were hashed.
    pub(crate) fn keys_of_hash(&self, key: &Key) -> StoreResult<Vec<Key>> {
        for _ in 1..ATTEMPTS_MAX {
            let (keys, is_moved) = self.keys_of_hash_now(key)?;
            if !is_moved {
                return Ok(keys);
            }
        }
        Ok(self.keys_of_hash_now(key)?.0)
    }

    /// The keys, and whether a record moved while it was read, or is damaged.
    fn keys_of_hash_now(&self, key: &Key) -> StoreResult<(Vec<Key>, bool)> {
        let (mut keys, mut is_moved) = (Vec::new(), false);
        let Some(wanted) = key.named_digest() else { return Ok((keys, false)) };
        let is_wanted = |found: &Key| {
            let digest = found.named_digest();
            found.is_same_kind(key)
                && digest.is_some_and(|digest| {
                    digest.function == wanted.function && digest.hash == wanted.hash
                })
        };
        for entry in self.index.find_all(&self.fingerprint(key)) {
            match self.read_record(&entry)? {
                Some(record) => {
                    let found = record.header.whole_key(&record.bytes);
                    keys.extend(found.filter(is_wanted));
                }
                None => is_moved = true,
            }
        }
        Ok((keys, is_moved))
    }
}
