//! [`Manifest`]: the ordered list of chunks that make up a blob. The chunks of every manifest add
//! up to the blob's length.

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;

/// The chunks of one blob, in order; their lengths add up to the blob's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    blob: Digest,
    chunks: Vec<Digest>,
    chunking: Option<Chunking>,
}

/// Why a list of chunks cannot be a manifest of the blob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// No chunks, although the blob has bytes.
    #[error("expected chunks for a blob of {len} bytes, got none")]
    Empty {
        /// The blob's length in bytes.
        len: u64,
    },
    /// An empty chunk, or one that is longer than its chunking function allows.
    #[error("expected chunk {index} to have 1 to {max} bytes, got {len}")]
    ChunkLength {
        /// Its index in the list.
        index: usize,
        /// Its length in bytes.
        len: u64,
        /// Its maximum length in bytes.
        max: u64,
    },
    /// A chunk with another hash function than the blob.
    #[error("expected chunk {index} to be named by {expected}, got {actual}")]
    Function {
        /// Its index in the list.
        index: usize,
        /// The blob's function.
        expected: &'static str,
        /// The chunk's function.
        actual: &'static str,
    },
    /// The chunks' lengths do not add up to the blob's.
    #[error("expected the chunks to add up to {expected} bytes, got {actual}")]
    Sum {
        /// The blob's length in bytes.
        expected: u64,
        /// The sum, in bytes, up to the first chunk that exceeds the blob's length.
        actual: u64,
    },
}

impl Manifest {
    /// Checks that `chunks` can make up `blob`. There is at least one chunk, unless the blob is
    /// empty. All chunks have the blob's hash function, none is empty, and none is longer than
    /// `chunking` allows. Their lengths add up to the blob's length.
    pub fn new(
        blob: Digest,
        chunks: Vec<Digest>,
        chunking: Option<Chunking>,
    ) -> Result<Self, ManifestError> {
        if chunks.is_empty() && blob.len > 0 {
            return Err(ManifestError::Empty { len: blob.len });
        }
        let max = chunking.map_or(blob.len, |chunking| chunking.chunk_bytes_max().min(blob.len));
        let mut sum = 0_u64;
        for (index, chunk) in chunks.iter().enumerate() {
            if chunk.function != blob.function {
                return Err(ManifestError::Function {
                    index,
                    expected: blob.function.name(),
                    actual: chunk.function.name(),
                });
            }
            if chunk.len == 0 || chunk.len > max {
                return Err(ManifestError::ChunkLength { index, len: chunk.len, max });
            }
            sum = sum.saturating_add(chunk.len);
            if sum > blob.len {
                break;
            }
        }
        if sum != blob.len {
            return Err(ManifestError::Sum { expected: blob.len, actual: sum });
        }
        Ok(Self { blob, chunks, chunking })
    }

    /// The blob.
    pub fn blob(&self) -> &Digest {
        &self.blob
    }

    /// Its chunks, in order.
    pub fn chunks(&self) -> &[Digest] {
        &self.chunks
    }

    /// The chunking that cut it, if it is known.
    pub fn chunking(&self) -> Option<&Chunking> {
        self.chunking.as_ref()
    }

    /// Each chunk with the offset of its first byte.
    pub fn offsets(&self) -> impl Iterator<Item = (u64, &Digest)> + '_ {
        self.chunks.iter().scan(0_u64, |next, chunk| {
            let offset = *next;
            *next += chunk.len;
            Some((offset, chunk))
        })
    }
}
