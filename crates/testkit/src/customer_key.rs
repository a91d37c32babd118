//! Keys that a blob's owner keeps: what a request brings of one, and whether it is the blob's.
//!
//! Each cloud wants three fields: the algorithm, the key in base64, and a hash of the key by which
//! it knows the key again. A request with some of them, or whose hash is not that of its key, has
//! none that counts.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use md5::{Digest as _, Md5};
use sha2::Sha256;

use crate::request::Request;

/// How a flavour names the fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyFields {
    pub(crate) algorithm: &'static str,
    pub(crate) key: &'static str,
    pub(crate) hash: &'static str,
    pub(crate) hash_is: KeyHash,
}

/// Which hash goes with the key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyHash {
    Md5,
    Sha256,
}

/// What a request brings for a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyMatch {
    /// Neither has a key, or both have the same.
    Fits,
    Missing,
    Wrong,
    /// Fields that contradict each other or are not all there.
    Malformed,
    /// The blob has none.
    Needless,
}

/// The base64 of the hash, as the cloud repeats it in its answers.
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
