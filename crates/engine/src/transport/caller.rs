//! [`CallerHash`]: distinguishes the callers of one server, without holding their secrets.
//!
//! Transfers of one process share what is in flight, but only between callers that the server
//! cannot distinguish. Otherwise one caller could get data that only another may read. So the name
//! of a shared item contains a hash of everything that identifies the caller: headers,
//! certificates, authorities.
//!
//! The hash is keyed (BLAKE3) with random bytes of this process. A leaked hash reveals nothing of a
//! token, and cannot be compared with the hash of another process.
//!
//! Invariants: the key is never shown. Two sequences of fields have the same hash only if they are
//! equal: the length of each part is hashed before the part.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Collects the fields that identify a caller.
pub(crate) struct CallerHash(Option<blake3::Hasher>);

impl CallerHash {
    /// A caller without any fields.
    pub(crate) fn new() -> Self {
        static KEY: LazyLock<Option<[u8; 32]>> = LazyLock::new(random_key);
        Self(KEY.as_ref().map(blake3::Hasher::new_keyed))
    }

    /// Adds the field `name`.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        if let Some(hasher) = &mut self.0 {
            for part in [name.as_bytes(), value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
    }

    /// A name that only equal callers share.
    pub(crate) fn finish(self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        match self.0 {
            Some(hasher) => hasher.finalize().to_hex().to_string(),
            // Without random bytes a hash would hide nothing, so nothing is shared.
            None => format!("caller {}", COUNT.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

fn random_key() -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut key).ok().map(|()| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(fields: &[(&str, &str)]) -> String {
        let mut hash = CallerHash::new();
        for (name, value) in fields {
            hash.add(name, value.as_bytes());
        }
        hash.finish()
    }

    #[test]
    fn equal_callers_have_one_name_and_others_another() {
        let callers: [&[(&str, &str)]; 6] = [
            &[],
            &[("token", "ab")],
            &[("toke", "nab")],
            &[("token", "a"), ("", "b")],
            &[("token", ""), ("ab", "")],
            &[("ab", ""), ("token", "")],
        ];
        for (index, one) in callers.iter().enumerate() {
            for (other_index, other) in callers.iter().enumerate() {
                assert_eq!(hash(one) == hash(other), index == other_index, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_name_tells_nothing_of_a_secret() {
        let hash = hash(&[("authorization", "secret")]);
        assert!(!hash.contains("secret"));
        // An attacker who guesses the secret cannot compute it.
        assert_ne!(hash, blake3::hash(b"secret").to_hex().to_string());
    }
}
