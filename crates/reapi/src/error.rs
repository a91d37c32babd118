//! [`Error`]: what is wrong with a name or with bytes that the peer sent.
//!
//! A client and a server react differently: a client retries or gives up, and a server responds
//! with a status. So an error here describes the problem, and not the reaction.
//!
//! Invariant: no error contains text of the peer, which may be megabytes of anything.

use std::fmt;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A name or bytes that the API or gRPC does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A message lacks a required digest.
    #[error("expected a digest, got none")]
    DigestMissing,
    /// The length of a digest, in bytes.
    #[error("expected a length that is not negative, got {0}")]
    NegativeLength(i64),
    /// The hash of a digest. The number is the length of its text in bytes.
    #[error("expected a hash of 64 digits, lower case hexadecimal, got {0} bytes of another form")]
    Hash(usize),
    /// The API's number of a hash function that is not supported.
    #[error("expected SHA-256 or BLAKE3 as digest function, got number {0}")]
    DigestFunction(i32),
    /// A name in `google.bytestream`, or the name of an instance.
    #[error("resource name: {0}")]
    ResourceName(NameFlaw),
    /// A message with a flag, which means that it is compressed.
    #[error("expected messages without compression, got flag {0}")]
    Compressed(u8),
    /// A message is longer than the receiver accepts, or than gRPC can express. Both in bytes.
    #[error("expected a message of at most {max} bytes, got {len}")]
    MessageTooLong {
        /// Its length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The fields of a message other than its data are longer than the receiver accepts, in bytes.
    #[error("expected at most {max} bytes besides a message's data")]
    FieldsTooLong {
        /// The limit.
        max: usize,
    },
    /// A field of number 0 or of a wire type that does not exist.
    #[error("expected a field, got {0:#x}")]
    Field(u64),
    /// A number in a message.
    #[error("expected a number of at most 64 bits")]
    Varint,
    /// A field that ends after its message. Both in bytes.
    #[error("expected a field of at most {left} bytes, got {len}")]
    FieldTooLong {
        /// Its length.
        len: u64,
        /// The rest of the message.
        left: u64,
    },
    /// Two fields of data in one message.
    #[error("expected the data once in a message")]
    DataRepeated,
    /// A message has more entries than the receiver accepts.
    #[error("expected at most {max} entries, got {count}")]
    TooManyEntries {
        /// The number of entries in the message.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// Bytes that are not a message.
    #[error("expected a message, got other bytes")]
    Malformed,
    /// Bytes that are a message, but not of this type.
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
    /// An error message of the Zstandard library.
    #[error("zstd: {0}")]
    Zstd(String),
}

/// What is wrong with a resource name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFlaw {
    /// No segment introduces a blob.
    NoBlob,
    /// A name for reading a blob has the form of a name for writing.
    Upload,
    /// A name for writing a blob has no `uploads` segment before the blob.
    NoUpload,
    /// The segment after `uploads` does not have the form of a UUID.
    UploadId,
    /// An instance's name has an empty segment.
    EmptySegment,
    /// An instance's name has a segment that the API reserves.
    Keyword,
    /// The compressor is not supported.
    Compressor,
    /// The digest function is not supported.
    DigestFunction,
    /// The hash is missing or not 64 digits, lower case hexadecimal.
    Hash,
    /// The size is missing or not a decimal number in its shortest form that fits into 63 bits.
    Size,
    /// Segments follow the size in a name for reading a blob.
    Excess,
}

impl fmt::Display for NameFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBlob => "expected a segment blobs or compressed-blobs",
            Self::Upload => "expected the name of a blob to read, got that of an upload",
            Self::NoUpload => "expected uploads/UUID before the blob",
            Self::UploadId => "expected a UUID after uploads",
            Self::EmptySegment => "an instance name cannot have an empty segment",
            Self::Keyword => "an instance name cannot have a segment that is a keyword of the API",
            Self::Compressor => "expected zstd as the compressor",
            Self::DigestFunction => "expected SHA-256 or BLAKE3 as the digest function",
            Self::Hash => "expected a hash of 64 digits, lower case hexadecimal",
            Self::Size => "expected a size that is a decimal number below 2^63, shortest form",
            Self::Excess => "expected nothing after the size",
        })
    }
}
