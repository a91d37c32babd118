//! [`Checksum`]: one finished value and its text forms.
//!
//! Invariant: the number of bytes is always that of the algorithm. For a computation in progress
//! use [`Checksummer`](super::Checksummer).

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{ChecksumAlgorithm, ChecksumError};

/// The length of the longest values, SHA-256 and BLAKE3.
const LEN_BYTES_MAX: usize = 32;

/// The value of one algorithm over some bytes. CRCs are big-endian, as in all headers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Checksum {
    algorithm: ChecksumAlgorithm,
    /// The value is in the first `algorithm.len_bytes()`, followed by zeros, so that the derived
    /// equality compares values.
    value: [u8; LEN_BYTES_MAX],
}

impl Checksum {
    /// From the value's bytes, whose number must match the algorithm.
    pub fn new(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Result<Self, ChecksumError> {
        let wrong = ChecksumError::WrongLength { algorithm, len_bytes: bytes.len() };
        if bytes.len() != algorithm.len_bytes() {
            return Err(wrong);
        }
        let mut value = [0; LEN_BYTES_MAX];
        value.get_mut(..bytes.len()).ok_or(wrong)?.copy_from_slice(bytes);
        Ok(Self { algorithm, value })
    }

    /// From bytes whose number is known to match the algorithm. Extra bytes are dropped, missing
    /// ones are zero.
    pub(crate) fn from_known(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Self {
        let mut value = [0; LEN_BYTES_MAX];
        for (to, from) in value.iter_mut().zip(bytes).take(algorithm.len_bytes()) {
            *to = *from;
        }
        Self { algorithm, value }
    }

    /// From hexadecimal digits of either case.
    pub fn from_hex(algorithm: ChecksumAlgorithm, text: &str) -> Result<Self, ChecksumError> {
        let malformed =
            |reason| ChecksumError::MalformedValue { algorithm, text: text.to_owned(), reason };
        if text.len() != algorithm.len_bytes() * 2 {
            return Err(malformed("wrong number of hexadecimal digits"));
        }
        let mut value = [0; LEN_BYTES_MAX];
        for (byte, pair) in value.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = hex_pair(pair).ok_or_else(|| malformed("not hexadecimal"))?;
        }
        Ok(Self { algorithm, value })
    }

    /// From base64 (RFC 4648, section 4, with padding), as in most headers.
    pub fn from_base64(algorithm: ChecksumAlgorithm, text: &str) -> Result<Self, ChecksumError> {
        let malformed =
            |reason| ChecksumError::MalformedValue { algorithm, text: text.to_owned(), reason };
        let bytes = STANDARD.decode(text).ok().ok_or_else(|| malformed("not base64"))?;
        Self::new(algorithm, &bytes).ok().ok_or_else(|| malformed("wrong number of bytes"))
    }

    /// The algorithm.
    pub const fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// The value's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.value.get(..self.algorithm.len_bytes()).unwrap_or(&self.value)
    }

    /// The value in lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        hex(self.as_bytes())
    }

    /// The value in base64 with padding.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.as_bytes())
    }
}

/// `crc32c:e3069283`.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({self})")
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The byte that two hexadecimal digits of either case encode.
pub(crate) fn hex_pair(pair: &[u8]) -> Option<u8> {
    let &[high, low] = pair else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Checksum, ChecksumAlgorithm};

    #[test]
    fn text_forms() {
        let checksum = Checksum::from_hex(ChecksumAlgorithm::Crc32c, "E3069283").unwrap();
        assert_eq!(checksum.to_string(), "crc32c:e3069283");
        assert_eq!(checksum.to_base64(), "4waSgw==");
        assert_eq!(Checksum::from_base64(ChecksumAlgorithm::Crc32c, "4waSgw=="), Ok(checksum));
    }

    #[test]
    fn equal_bytes_of_other_algorithms_differ() {
        let value = "e3069283";
        assert_ne!(
            Checksum::from_hex(ChecksumAlgorithm::Crc32c, value),
            Checksum::from_hex(ChecksumAlgorithm::Crc32, value)
        );
    }

    #[test]
    fn wrong_text_is_shown_in_the_error() {
        for text in ["", "e306928", "e30692833", "g3069283", "+3069283", "é306928"] {
            let error =
                Checksum::from_hex(ChecksumAlgorithm::Crc32c, text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        for text in ["", "4waSgw", "4waSgw=", "4waSgwA=", "4waS gw==", "4waSgx=="] {
            let error =
                Checksum::from_base64(ChecksumAlgorithm::Crc32c, text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_read_back(bytes in any::<[u8; 32]>(), index in 0..7_usize) {
            let algorithm = ChecksumAlgorithm::ALL[index];
            let checksum = Checksum::new(algorithm, &bytes[..algorithm.len_bytes()]).unwrap();
            prop_assert_eq!(Checksum::from_hex(algorithm, &checksum.hex()), Ok(checksum.clone()));
            prop_assert_eq!(Checksum::from_base64(algorithm, &checksum.to_base64()), Ok(checksum));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,70}", index in 0..7_usize) {
            let algorithm = ChecksumAlgorithm::ALL[index];
            let _ = Checksum::from_hex(algorithm, &text);
            let _ = Checksum::from_base64(algorithm, &text);
        }
    }
}
