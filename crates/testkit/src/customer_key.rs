//! Customer keys: parses the key fields of a request and compares the key with the blob's.
//!
//! Each cloud requires three fields: the algorithm, the key in base64, and a hash of the key. A
//! request without all three, or with a wrong hash, has no valid key.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use md5::{Digest as _, Md5};
use sha2::Sha256;

use crate::request::Request;

/// A flavour's names of the fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyFields {
    pub(crate) algorithm: &'static str,
    pub(crate) key: &'static str,
    pub(crate) hash: &'static str,
    pub(crate) hash_is: KeyHash,
}

/// The hash of the key that the flavour requires.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyHash {
    Md5,
    Sha256,
}

/// How a request's key compares with the blob's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyMatch {
    /// Neither has a key, or both have the same.
    Fits,
    Missing,
    Wrong,
    /// The fields contradict each other or some are missing.
    Malformed,
    /// The blob has no key.
    Needless,
}

/// The base64 of the hash, as the cloud repeats it in its responses.
pub(crate) fn hash(key: &[u8; 32], hash_is: KeyHash) -> String {
    match hash_is {
        KeyHash::Md5 => STANDARD.encode(Md5::digest(key)),
        KeyHash::Sha256 => STANDARD.encode(Sha256::digest(key)),
    }
}

/// Compares a request's key with the blob's.
pub(crate) fn compare(request: &Request, fields: KeyFields, key: Option<&[u8; 32]>) -> KeyMatch {
    let given = [fields.algorithm, fields.key, fields.hash].map(|name| request.field(name));
    let decoded = match given {
        [None, None, None] => None,
        [Some("AES256"), Some(text), Some(hashed)] => {
            let bytes =
                STANDARD.decode(text).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            match bytes {
                Some(bytes) if hash(&bytes, fields.hash_is) == hashed => Some(bytes),
                _ => return KeyMatch::Malformed,
            }
        }
        _ => return KeyMatch::Malformed,
    };
    match (key, decoded) {
        (None, None) => KeyMatch::Fits,
        (None, Some(_)) => KeyMatch::Needless,
        (Some(_), None) => KeyMatch::Missing,
        (Some(key), Some(given)) if *key == given => KeyMatch::Fits,
        (Some(_), Some(_)) => KeyMatch::Wrong,
    }
}
