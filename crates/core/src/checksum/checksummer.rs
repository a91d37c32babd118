//! [`Checksummer`]: one algorithm, fed piece by piece in order.
//!
//! For bytes that arrive out of order use [`Crc`](super::Crc) and
//! [`CrcParts`](crate::parts::CrcParts) instead. The other algorithms cannot be combined.

use std::fmt;

use md5::Digest as _;

use super::{Checksum, ChecksumAlgorithm, ChecksumError, Crc};

/// An incremental computation of one checksum.
#[derive(Clone)]
pub struct Checksummer {
    pub(super) state: State,
}

#[derive(Clone)]
pub(super) enum State {
    Crc(Crc),
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    /// Boxed: it holds a tree of chaining values, nearly 2 KiB.
    Blake3(Box<blake3::Hasher>),
}

impl Checksummer {
    /// An empty computation. An algorithm that cannot be computed is
    /// [`ChecksumError::Unsupported`].
    pub fn new(algorithm: ChecksumAlgorithm) -> Result<Self, ChecksumError> {
        let state = match (algorithm, algorithm.crc()) {
            (_, Some(crc)) => State::Crc(Crc::empty(crc)),
            (ChecksumAlgorithm::Md5, _) => State::Md5(md5::Md5::new()),
            (ChecksumAlgorithm::Sha1, _) => State::Sha1(sha1::Sha1::new()),
            (ChecksumAlgorithm::Sha256, _) => State::Sha256(sha2::Sha256::new()),
            (ChecksumAlgorithm::Blake3, _) => State::Blake3(Box::new(blake3::Hasher::new())),
            _ => return Err(ChecksumError::Unsupported { algorithm }),
        };
        Ok(Self { state })
    }

    /// The checksum of a complete byte slice.
    pub fn of(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Result<Checksum, ChecksumError> {
        let mut checksummer = Self::new(algorithm)?;
        checksummer.update(bytes);
        Ok(checksummer.finish())
    }

    /// The algorithm.
    pub const fn algorithm(&self) -> ChecksumAlgorithm {
        match &self.state {
            State::Crc(crc) => crc.algorithm().algorithm(),
            State::Md5(_) => ChecksumAlgorithm::Md5,
            State::Sha1(_) => ChecksumAlgorithm::Sha1,
            State::Sha256(_) => ChecksumAlgorithm::Sha256,
            State::Blake3(_) => ChecksumAlgorithm::Blake3,
        }
    }

    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Crc(crc) => crc.update(bytes),
            State::Md5(hasher) => hasher.update(bytes),
            State::Sha1(hasher) => hasher.update(bytes),
            State::Sha256(hasher) => hasher.update(bytes),
            State::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    /// The checksum of all bytes appended.
    pub fn finish(self) -> Checksum {
        let algorithm = self.algorithm();
        match self.state {
            State::Crc(crc) => crc.to_checksum(),
            State::Md5(hasher) => Checksum::from_known(algorithm, &hasher.finalize()),
            State::Sha1(hasher) => Checksum::from_known(algorithm, &hasher.finalize()),
            State::Sha256(hasher) => Checksum::from_known(algorithm, &hasher.finalize()),
            State::Blake3(hasher) => Checksum::from_known(algorithm, hasher.finalize().as_bytes()),
        }
    }
}

impl fmt::Debug for Checksummer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checksummer").field(&self.algorithm()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ChecksumAlgorithm, ChecksumError, Checksummer};

    fn hex(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> String {
        Checksummer::of(algorithm, bytes).unwrap().hex()
    }

    /// RFC 1321 appendix A.5, FIPS 180-4 examples, and the BLAKE3 reference's test vectors (input
    /// lengths 0 and 1) with the well-known value for "abc".
    #[test]
    fn published_vectors() {
        use ChecksumAlgorithm::{Blake3, Md5, Sha1, Sha256};
        assert_eq!(hex(Md5, b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(Md5, b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(hex(Sha1, b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            hex(Sha256, b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(Blake3, b""),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
        assert_eq!(
            hex(Blake3, b"\0"),
            "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"
        );
        assert_eq!(
            hex(Blake3, b"abc"),
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
        );
    }

    #[test]
    fn what_cannot_be_computed_is_refused_by_name() {
        for algorithm in ChecksumAlgorithm::ALL {
            match Checksummer::new(algorithm) {
                Ok(checksummer) => assert_eq!(checksummer.algorithm(), algorithm),
                Err(error) => {
                    assert_eq!(error, ChecksumError::Unsupported { algorithm });
                    assert!(!algorithm.is_computable());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
        ) {
            for algorithm in ChecksumAlgorithm::ALL.into_iter().filter(|a| a.is_computable()) {
                let mut checksummer = Checksummer::new(algorithm).unwrap();
                for piece in &pieces {
                    checksummer.update(piece);
                }
                let whole = pieces.concat();
                prop_assert_eq!(checksummer.finish(), Checksummer::of(algorithm, &whole).unwrap());
            }
        }
    }
}
