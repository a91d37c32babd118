//! [`CallerHash`]: what tells the callers of one server apart, without holding their secrets.
//!
//! Transfers of one process share what is in flight, but only between callers that the server cannot
//! tell apart: otherwise one caller would get what only another one may read. So the name of what is
//! shared has a hash of everything that identifies the caller: headers, certificates, authorities.
//!
//! The hash is keyed (BLAKE3) with random bytes of this process, so that a hash that leaks tells
//! nothing of a token, and cannot be compared with that of another process.
//!
//! Invariants: the key is never shown. Two sequences of fields have one hash only if they are equal:
//! each part is hashed behind its length.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Collects what identifies a caller.
pub(crate) struct CallerHash(Option<blake3::Hasher>);

impl CallerHash {
    /// Of a caller of whom nothing is known.
    pub(crate) fn new() -> Self {
        static KEY: LazyLock<Option<[u8; 32]>> = LazyLock::new(random_key);
        Self(KEY.as_ref().map(blake3::Hasher::new_keyed))
    }

    /// Adds what is called `name`.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        if let Some(hasher) = &mut self.0 {
            for part in [name.as_bytes(), value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
    }

    /// A name that equal callers have and no others.
    pub(crate) fn finish(self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        match self.0 {
            Some(hasher) => hasher.finalize().to_hex().to_string(),
            // Without random bytes no hash hides anything: then nothing is shared.
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
        // Not what anyone can compute who guesses the secret.
        assert_ne!(hash, blake3::hash(b"secret").to_hex().to_string());
    }
}
