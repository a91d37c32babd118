//! [`BlobName`]: the name of a blob, and its computation from bytes.

use std::fmt::Write as _;

use bytes::Bytes;
use sha2::Digest as _;
use tidegate_reapi::v2;

use super::status::GrpcStatus;

/// Bytes that are hashed before the task yields to other tasks.
const SLICE_BYTES: usize = 1024 * 1024;

/// A function that names blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashFunction {
    /// SHA-256.
    Sha256,
    /// BLAKE3.
    Blake3,
}

impl HashFunction {
    /// Its number in the API.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Sha256 => 1,
            Self::Blake3 => 9,
        }
    }

    /// The function with this number; SHA-256 if the client leaves it to the length of the hash.
    pub(crate) fn of_number(number: i32) -> Result<Self, GrpcStatus> {
        match number {
            0 | 1 => Ok(Self::Sha256),
            9 => Ok(Self::Blake3),
            other => Err(GrpcStatus::invalid(format!("unsupported digest function {other}"))),
        }
    }

    /// The hash of bytes, in lower case.
    pub fn hash(self, data: &[u8]) -> String {
        let mut hasher = Hasher::new(self);
        hasher.update(data);
        hasher.finish()
    }

    /// The name of bytes.
    pub fn name(self, data: &[u8]) -> BlobName {
        BlobName { function: self, hash: self.hash(data), len_bytes: len(data) }
    }
}

/// A blob's name: function, hash and length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobName {
    /// The function of the hash.
    pub function: HashFunction,
    /// 64 hexadecimal digits in lower case.
    pub hash: String,
    /// The blob's length in bytes.
    pub len_bytes: u64,
}

impl BlobName {
    /// The name as a message has it.
    pub(crate) fn of_message(
        function: HashFunction,
        digest: Option<&v2::Digest>,
    ) -> Result<Self, GrpcStatus> {
        let Some(digest) = digest else { return Err(GrpcStatus::invalid("a digest is not set")) };
        Self::of_parts(function, &digest.hash, digest.size_bytes)
    }

    pub(crate) fn of_parts(
        function: HashFunction,
        hash: &str,
        size_bytes: i64,
    ) -> Result<Self, GrpcStatus> {
        let digits = hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hash.len() != 64 || !digits {
            return Err(GrpcStatus::invalid(format!("{hash:?} is no hash")));
        }
        let Ok(len_bytes) = u64::try_from(size_bytes) else {
            return Err(GrpcStatus::invalid(format!("a blob cannot have {size_bytes} bytes")));
        };
        Ok(Self { function, hash: hash.to_owned(), len_bytes })
    }

    pub(crate) fn message(&self) -> v2::Digest {
        v2::Digest { hash: self.hash.clone(), size_bytes: signed(self.len_bytes) }
    }

    /// The name in error messages and in `ByteStream`.
    pub(crate) fn resource(&self) -> String {
        let function = match self.function {
            HashFunction::Sha256 => "",
            HashFunction::Blake3 => "blake3/",
        };
        format!("blobs/{function}{}/{}", self.hash, self.len_bytes)
    }
}

/// A hash that is being computed.
#[derive(Debug)]
pub(crate) enum Hasher {
    Sha256(Box<sha2::Sha256>),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    pub(crate) fn new(function: HashFunction) -> Self {
        match function {
            HashFunction::Sha256 => Self::Sha256(Box::default()),
            HashFunction::Blake3 => Self::Blake3(Box::default()),
        }
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(data),
            Self::Blake3(hasher) => {
                hasher.update(data);
            }
        }
    }

    /// The hash in lower case.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => hexadecimal(&hasher.finalize()),
            Self::Blake3(hasher) => hexadecimal(hasher.finalize().as_bytes()),
        }
    }
}

/// The name of the blob that consists of these pieces. Yields to other tasks between pieces of
/// work.
pub(crate) async fn name_of(function: HashFunction, pieces: &[Bytes]) -> BlobName {
    let mut hasher = Hasher::new(function);
    let mut len_bytes = 0;
    for piece in pieces {
        for slice in piece.chunks(SLICE_BYTES) {
            hasher.update(slice);
            len_bytes += len(slice);
            tokio::task::consume_budget().await;
            if slice.len() == SLICE_BYTES {
                tokio::task::yield_now().await;
            }
        }
    }
    BlobName { function, hash: hasher.finish(), len_bytes }
}

/// The length of bytes as `u64`.
pub(crate) fn len(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

/// A length as the API's messages have it.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().fold(String::with_capacity(hash.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
