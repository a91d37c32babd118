//! The closure of an action result: every blob that a client needs to use the result.
//!
//! A cache hit whose blobs are gone breaks a build. So the store finds the closure when it stores a
//! result, and a hit requires that all of it is present.
//!
//! The closure consists of the output files, standard output and error, the `Tree` blobs, the files
//! that their directories name, and, for results that name a root directory by its digest, all
//! `Directory` blobs below it. The empty blob always exists, so no closure lists it.
//!
//! | file | idea |
//! |---|---|
//! | `wire` | the fields of a message in place, without a decoded copy |
//! | `schema` | which fields each message may have, and which of them name blobs |
//! | `tree_reader` | a `Tree` in pieces, one directory in memory at a time |
//! | `walk` | [`ClosureWalk`]: from a result to its closure |
//!
//! Invariants:
//! - Each directory is read once, however many parents it has.
//! - Memory is bounded by [`ClosureLimits`] and by bytes that have arrived, never by a declared
//!   length.
//! - Bytes that are not exactly an `ActionResult` are refused. A message repeats no singular field
//!   here, so no two decoders can see different digests in it.
//!
//! This is pure: the caller reads blobs and looks up which of them exist.

mod schema;
mod tree_reader;
mod walk;
mod wire;

#[cfg(test)]
mod tests;

use tidegate_core::digest::Digest;

pub use self::walk::{ClosureWalk, UnknownFields};

/// The bounds of one closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosureLimits {
    /// Maximum number of distinct blobs.
    pub blobs_max: usize,
    /// Maximum sum of the bytes of trees and directories that are read.
    pub bytes_max: u64,
    /// Maximum length of one encoded directory, which must be in memory as a whole.
    pub directory_bytes_max: usize,
}

impl Default for ClosureLimits {
    /// For the largest outputs in practice. A `node_modules` folder as one output has some 300,000
    /// files, which take 30 MB as a tree; a million blobs take 110 MB of memory during the walk.
    fn default() -> Self {
        Self { blobs_max: 1 << 20, bytes_max: 256 << 20, directory_bytes_max: 16 << 20 }
    }
}

/// Why a result has no closure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClosureError {
    /// The value is not an action result.
    #[error("expected an action result: {0}")]
    NotActionResult(Flaw),
    /// A tree or directory is not what its place in the result requires. A client fails on it, so
    /// the result counts as incomplete.
    #[error("expected a tree or a directory in {blob}: {flaw}")]
    Container {
        /// The tree or directory.
        blob: Digest,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// More blobs than [`ClosureLimits::blobs_max`].
    #[error("expected at most {max} blobs in the outputs of an action, got more")]
    TooManyBlobs {
        /// The limit.
        max: usize,
    },
    /// More bytes of trees and directories than [`ClosureLimits::bytes_max`].
    #[error("expected at most {max} bytes of trees and directories in an action result, got more")]
    TooManyBytes {
        /// The limit.
        max: u64,
    },
    /// A directory that is longer than [`ClosureLimits::directory_bytes_max`].
    #[error("expected a directory of at most {max} bytes in {blob}, got {len}")]
    DirectoryTooLong {
        /// The tree or directory.
        blob: Digest,
        /// Its length in bytes, as declared.
        len: u64,
        /// The limit.
        max: usize,
    },
}

/// What is wrong with a message. It holds no text of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// Bytes that are not a message.
    #[error("the bytes are not a message")]
    Malformed,
    /// A field that the message does not have.
    #[error("field {0} is unknown")]
    UnknownField(u32),
    /// A field with the wire type of another kind of field.
    #[error("field {0} has the wrong type")]
    Type(u32),
    /// A field that may occur once occurs again.
    #[error("field {0} is repeated")]
    Repeated(u32),
    /// A text field that is not UTF-8.
    #[error("field {0} is not UTF-8")]
    Utf8(u32),
    /// A file or directory without a digest.
    #[error("a digest is missing")]
    DigestMissing,
    /// A digest with an invalid hash or length.
    #[error("a digest is invalid")]
    Digest,
    /// The blob's length differs from its digest.
    #[error("the length differs from the digest")]
    Length,
}

/// The blobs of an action result, distinct and sorted, without the empty blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure(Vec<Digest>);

impl Closure {
    /// The blobs, sorted.
    pub fn blobs(&self) -> &[Digest] {
        &self.0
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the result needs no blob.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
