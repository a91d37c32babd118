//! Converts digests between our form and the API's, in which a hash is text and a length is signed.
//! Digests from the peer are checked here, before any use.
//!
//! A digest in a message names no hash function. In a response it is the function of the request.
//! In a request it is in a separate field (see [`function_of`]).

use tidegate_core::digest::{Digest, DigestFunction};

use crate::error::{Error, Result};
use crate::v2::{self, digest_function::Value};

/// The digest in the form of messages.
pub fn to_proto(digest: &Digest) -> v2::Digest {
    v2::Digest {
        hash: digest.checksum().hex(),
        // Longer than any blob can be; a server refuses it.
        size_bytes: i64::try_from(digest.len).unwrap_or(i64::MAX),
    }
}

/// The digest of a message, whose hash is of `function`.
pub fn from_proto(digest: &v2::Digest, function: DigestFunction) -> Result<Digest> {
    let len =
        u64::try_from(digest.size_bytes).ok().ok_or(Error::NegativeLength(digest.size_bytes))?;
    let hash = hash(digest.hash.as_bytes()).ok_or(Error::Hash(digest.hash.len()))?;
    Ok(Digest { function, hash, len })
}

/// The digest of a field that must be set.
pub fn required(digest: Option<&v2::Digest>, function: DigestFunction) -> Result<Digest> {
    from_proto(digest.ok_or(Error::DigestMissing)?, function)
}

/// The API's number of a hash function.
pub fn function(function: DigestFunction) -> i32 {
    let value = match function {
        DigestFunction::Blake3 => Value::Blake3,
        _ => Value::Sha256,
    };
    value as i32
}

/// The hash function of a request, from its number.
///
/// A client may omit the number, which is then 0, for functions that the length of the hash
/// identifies. Of those only SHA-256 is supported, and [`from_proto`] checks the length.
pub fn function_of(number: i32) -> Result<DigestFunction> {
    match Value::try_from(number) {
        Ok(Value::Unknown | Value::Sha256) => Ok(DigestFunction::Sha256),
        Ok(Value::Blake3) => Ok(DigestFunction::Blake3),
        _ => Err(Error::DigestFunction(number)),
    }
}

/// The value of each hexadecimal digit, and `NO_DIGIT` for all other bytes.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

/// Has bits that no value of a digit has, also in the upper half of a byte.
const NO_DIGIT: u8 = 0xff;

/// A hash from its text: exactly 64 digits, `lower case hexadecimal` in the definition of `Digest`.
///
/// A request may have thousands of hashes, so it has no branch for each digit.
pub fn hash(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut hash = [0; 32];
    let mut seen = 0;
    for (byte, pair) in hash.iter_mut().zip(text.as_chunks::<2>().0) {
        let (high, low) = (DIGITS[usize::from(pair[0])], DIGITS[usize::from(pair[1])]);
        seen |= high | low;
        *byte = high << 4 | low;
    }
    (seen < 16).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_come_back_as_they_went() {
        for function in [DigestFunction::Sha256, DigestFunction::Blake3] {
            let digest = Digest::of(function, b"some bytes");
            assert_eq!(from_proto(&to_proto(&digest), function), Ok(digest));
        }
    }

    #[test]
    fn what_cannot_be_a_digest_is_refused() {
        let sound = to_proto(&Digest::of(DigestFunction::Sha256, b""));
        let from = |digest| from_proto(&digest, DigestFunction::Sha256).unwrap_err();
        let negative = v2::Digest { size_bytes: -1, ..sound.clone() };
        assert_eq!(from(negative), Error::NegativeLength(-1));
        for hash in ["", "é", &sound.hash[1..], &sound.hash.to_uppercase(), &"x".repeat(1 << 20)] {
            let digest = v2::Digest { hash: hash.to_owned(), ..sound.clone() };
            let error = from(digest);
            assert_eq!(error, Error::Hash(hash.len()));
            assert!(error.to_string().len() < 100);
        }
    }

    #[test]
    fn a_request_names_its_function_by_number() {
        for of in [DigestFunction::Sha256, DigestFunction::Blake3] {
            assert_eq!(function_of(function(of)), Ok(of));
        }
        assert_eq!(function_of(0), Ok(DigestFunction::Sha256));
        for number in [Value::Sha1 as i32, Value::Md5 as i32, Value::Sha256tree as i32, -1, 77] {
            assert_eq!(function_of(number), Err(Error::DigestFunction(number)));
        }
    }

    #[test]
    fn a_digest_that_must_be_there_is_missed() {
        let digest = Digest::of(DigestFunction::Sha256, b"x");
        let given = to_proto(&digest);
        assert_eq!(required(Some(&given), DigestFunction::Sha256), Ok(digest));
        assert_eq!(required(None, DigestFunction::Sha256), Err(Error::DigestMissing));
    }
}
