//! Digests between our form and the API's, in which a hash is text and a length has a sign: what
//! comes from a server is checked here, before anything is done with it.

use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::v2;

/// A digest in a server's answer cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnsweredDigestError {
    #[error("expected a length that is not negative, got {0}")]
    Negative(i64),
    /// The hash is not shown: it may be megabytes of anything.
    #[error("expected a hash of 64 digits, lower case hexadecimal, got {0} bytes of another form")]
    Hash(usize),
}

/// As the API has it.
pub(super) fn to_proto(digest: &Digest) -> v2::Digest {
    v2::Digest {
        hash: digest.checksum().hex(),
        // Longer than any blob can be; a server refuses it.
        size_bytes: i64::try_from(digest.len).unwrap_or(i64::MAX),
    }
}

/// As an answer has it; the function is the one that was asked by, since an answer names none.
pub(super) fn from_proto(
    digest: &v2::Digest,
    function: DigestFunction,
) -> Result<Digest, AnsweredDigestError> {
    let len = u64::try_from(digest.size_bytes)
        .ok()
        .ok_or(AnsweredDigestError::Negative(digest.size_bytes))?;
    let hash = hash(&digest.hash).ok_or(AnsweredDigestError::Hash(digest.hash.len()))?;
    Ok(Digest { function, hash, len })
}

/// The API's number of a hash function.
pub(super) fn function(function: DigestFunction) -> i32 {
    let value = match function {
        DigestFunction::Blake3 => v2::digest_function::Value::Blake3,
        _ => v2::digest_function::Value::Sha256,
    };
    value as i32
}

/// Exactly 64 digits, as `lower case hexadecimal` in the definition of `Digest`.
fn hash(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(hash)
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
        assert_eq!(from(negative), AnsweredDigestError::Negative(-1));
        for hash in ["", "é", &sound.hash[1..], &sound.hash.to_uppercase(), &"x".repeat(1 << 20)] {
            let digest = v2::Digest { hash: hash.to_owned(), ..sound.clone() };
            let error = from(digest);
            assert_eq!(error, AnsweredDigestError::Hash(hash.len()));
            assert!(error.to_string().len() < 100);
        }
    }
}
