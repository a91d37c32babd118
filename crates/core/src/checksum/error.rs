//! [`ChecksumError`]: why a checksum could not be read, computed or combined.

use super::{ChecksumAlgorithm, CrcAlgorithm};
use crate::excerpt::excerpt;

/// Why a checksum could not be read, computed or combined. A mismatch of two checksums is not an
/// error of this type but a result, which the caller reports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChecksumError {
    /// A header's value was not understood.
    #[error("expected a valid {header} header, got {}: {reason}", excerpt(text))]
    MalformedHeader {
        /// The header's name.
        header: &'static str,
        /// The header's value.
        text: String,
        /// The reason.
        reason: &'static str,
    },
    /// A value's text was not understood.
    #[error("expected a {algorithm} value, got {}: {reason}", excerpt(text))]
    MalformedValue {
        /// The algorithm whose value it should be.
        algorithm: ChecksumAlgorithm,
        /// The text.
        text: String,
        /// The reason.
        reason: &'static str,
    },
    /// A value has the wrong number of bytes.
    #[error("expected {} bytes for {algorithm}, got {len_bytes}", algorithm.len_bytes())]
    WrongLength {
        /// The algorithm whose value it should be.
        algorithm: ChecksumAlgorithm,
        /// The number of bytes given.
        len_bytes: usize,
    },
    /// The algorithm is known by name but cannot be computed.
    #[error("{algorithm} cannot be computed")]
    Unsupported {
        /// The algorithm.
        algorithm: ChecksumAlgorithm,
    },
    /// No algorithm has this name.
    #[error("unknown checksum algorithm {}", excerpt(name))]
    UnknownAlgorithm {
        /// The name.
        name: String,
    },
    /// CRCs of different algorithms cannot be combined.
    #[error("cannot append a {next} to a {first}")]
    AlgorithmMismatch {
        /// Algorithm of the first piece.
        first: CrcAlgorithm,
        /// Algorithm of the piece to append.
        next: CrcAlgorithm,
    },
    /// The pieces together would be longer than 2^64 bytes.
    #[error("pieces of {first} and {next} bytes together do not fit into 64 bits")]
    TooLong {
        /// Bytes in the first piece.
        first: u64,
        /// Bytes in the piece to append.
        next: u64,
    },
}
