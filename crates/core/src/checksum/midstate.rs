//! The state of a [`Checksummer`] as text, so that another process can continue the computation.
//!
//! The hash crates serialise their state, and keep the format stable within a minor version. The
//! test below fails when the format changes. Code that stores such text must then distinguish the
//! two formats. The text of MD5, SHA-1 and SHA-256 contains up to 63 bytes of the data itself, since these
//! hashes take 64 bytes at a time. BLAKE3's crate cannot serialise its state.

use md5::digest::common::hazmat::SerializableState;

use super::checksummer::State;
use super::value::{hex, hex_pair};
use super::{ChecksumAlgorithm, ChecksumError, Checksummer};

impl Checksummer {
    /// The state as text, of at most 250 characters. `None` for BLAKE3, which has no such state,
    /// and for CRCs, whose state is their value (see
    /// [`Crc::from_checksum`](super::Crc::from_checksum)).
    pub fn to_midstate(&self) -> Option<String> {
        match &self.state {
            State::Md5(hasher) => Some(hex(&hasher.serialize())),
            State::Sha1(hasher) => Some(hex(&hasher.serialize())),
            State::Sha256(hasher) => Some(hex(&hasher.serialize())),
            State::Crc(_) | State::Blake3(_) => None,
        }
    }

    /// Continues from the text of [`Self::to_midstate`].
    pub fn from_midstate(algorithm: ChecksumAlgorithm, text: &str) -> Result<Self, ChecksumError> {
        let malformed =
            |reason| ChecksumError::MalformedValue { algorithm, text: text.to_owned(), reason };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().map(|pair| hex_pair(pair)).collect();
        let bytes =
            bytes.filter(|_| rest.is_empty()).ok_or_else(|| malformed("not hexadecimal"))?;
        let state = match algorithm {
            ChecksumAlgorithm::Md5 => restore(&bytes).map(State::Md5),
            ChecksumAlgorithm::Sha1 => restore(&bytes).map(State::Sha1),
            ChecksumAlgorithm::Sha256 => restore(&bytes).map(State::Sha256),
            _ => return Err(ChecksumError::Unsupported { algorithm }),
        };
        state.map(|state| Self { state }).ok_or_else(|| malformed("not the state of a sum"))
    }
}

fn restore<T: SerializableState>(bytes: &[u8]) -> Option<T> {
    T::deserialize(bytes.try_into().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::checksum::{ChecksumAlgorithm, ChecksumError, Checksummer};

    const CARRIED: [ChecksumAlgorithm; 3] =
        [ChecksumAlgorithm::Md5, ChecksumAlgorithm::Sha1, ChecksumAlgorithm::Sha256];

    proptest! {
        #[test]
        fn a_sum_goes_on_as_if_nothing_had_happened(
            before in proptest::collection::vec(any::<u8>(), 0..300),
            after in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            for algorithm in CARRIED {
                let mut first = Checksummer::new(algorithm).unwrap();
                first.update(&before);
                let text = first.to_midstate().unwrap();
                prop_assert!(text.len() <= 250, "{}", text.len());
                let mut second = Checksummer::from_midstate(algorithm, &text).unwrap();
                second.update(&after);
                let whole = [before.as_slice(), after.as_slice()].concat();
                prop_assert_eq!(second.finish(), Checksummer::of(algorithm, &whole).unwrap());
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-fx]{0,260}") {
            for algorithm in ChecksumAlgorithm::ALL {
                if let Ok(mut summer) = Checksummer::from_midstate(algorithm, &text) {
                    summer.update(b"more");
                    summer.finish();
                }
            }
        }
    }

    /// Stored text must stay readable: this test fails when the crates change their format.
    #[test]
    fn the_form_stays_as_it_is() {
        for (algorithm, stored) in [
            (ChecksumAlgorithm::Md5, "0123456789abcdeffedcba9876543210"),
            (ChecksumAlgorithm::Sha256, SHA256_BEGUN),
        ] {
            let mut summer = Checksummer::new(algorithm).unwrap();
            summer.update(b"abc");
            // The chaining value, the number of blocks, the fill level of the next block, and its
            // bytes.
            let stored = format!("{stored}{:016}03616263{:0120}", 0, 0);
            assert_eq!(summer.to_midstate().unwrap(), stored, "{algorithm}");
        }
    }

    #[test]
    fn what_has_no_state_says_so() {
        let error = Checksummer::from_midstate(ChecksumAlgorithm::Blake3, "00").unwrap_err();
        assert_eq!(error, ChecksumError::Unsupported { algorithm: ChecksumAlgorithm::Blake3 });
        assert!(Checksummer::new(ChecksumAlgorithm::Blake3).unwrap().to_midstate().is_none());
    }

    /// The initial value of FIPS 180-4, section 5.3.3, each word little-endian.
    const SHA256_BEGUN: &str = "67e6096a85ae67bb72f36e3c3af54fa57f520e518c68059babd9831f19cde05b";
}
