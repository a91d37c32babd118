//! [`ClosureWalk`]: from an action result to its closure. The caller reads the trees and
//! directories that the walk asks for.
//!
//! ```text
//! let mut walk = ClosureWalk::new(&result, function, UnknownFields::Refuse, limits)?;
//! while let Some(blob) = walk.next_blob() {
//!     for piece in blob { walk.piece(&piece)?; }
//!     walk.end_blob()?;
//! }
//! let closure = walk.finish();
//! ```

use std::collections::HashSet;

use tidegate_core::digest::{Digest, DigestFunction};

use super::schema::{ACTION_RESULT, DIRECTORY, Reading, Role};
use super::tree_reader::{TreeFailure, TreeReader};
use super::{Closure, ClosureError, ClosureLimits, Flaw};

/// Memory of one blob of the closure: an entry of the set at its lowest load, and the entry of the
/// list that becomes the closure.
const BLOB_BYTES: u64 = 160;

/// Whether an action result may have fields that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// The value is then not an action result. For values of unknown type: other clients store
    /// values of their own under the same names.
    Refuse,
    /// They are skipped. For values whose type the request declares: a newer client may set newer
    /// fields.
    Skip,
}

/// The search for the closure of one result.
#[derive(Debug)]
pub struct ClosureWalk {
    limits: ClosureLimits,
    reading: Reading,
    needed: HashSet<Digest>,
    /// Trees and directories that were found, whether they were read or not. A blob may be a file
    /// in one place and a directory in another.
    found: HashSet<(Role, Digest)>,
    /// Those that were not read.
    unread: Vec<(Role, Digest)>,
    current: Option<Current>,
    read_bytes: u64,
}

/// The blob that is being read.
#[derive(Debug)]
struct Current {
    blob: Digest,
    seen_bytes: u64,
    container: Container,
}

#[derive(Debug)]
enum Container {
    Tree(TreeReader),
    Directory(Vec<u8>),
}

impl From<Flaw> for ClosureError {
    fn from(flaw: Flaw) -> Self {
        Self::NotActionResult(flaw)
    }
}

impl ClosureWalk {
    /// Reads the result itself. Its blobs are named by `function`.
    ///
    /// Fails with `NotActionResult` if the bytes are not one.
    pub fn new(
        result: &[u8],
        function: DigestFunction,
        unknown: UnknownFields,
        limits: ClosureLimits,
    ) -> Result<Self, ClosureError> {
        let mut walk = Self {
            limits,
            // A newer client may set newer fields in a tree; its type is known from its place.
            reading: Reading { function, unknown: UnknownFields::Skip },
            needed: HashSet::new(),
            found: HashSet::new(),
            unread: Vec::new(),
            current: None,
            read_bytes: 0,
        };
        let reading = Reading { function, unknown };
        reading.visit(&ACTION_RESULT, result, &mut |role, digest| {
            if walk.add(role, digest) {
                return Ok(());
            }
            Err(ClosureError::TooManyBlobs { max: limits.blobs_max })
        })?;
        Ok(walk)
    }

    /// The tree or directory to read now; `None` if the closure is complete. If the store lacks it,
    /// the result is incomplete and the walk ends.
    ///
    /// Returns the same blob until [`Self::end_blob`].
    ///
    /// Fails with `TooManyBytes` or `DirectoryTooLong` before the blob is read.
    pub fn next_blob(&mut self) -> Result<Option<Digest>, ClosureError> {
        if let Some(current) = &self.current {
            return Ok(Some(current.blob));
        }
        let Some((role, blob)) = self.unread.pop() else { return Ok(None) };
        let bytes_max = self.limits.bytes_max;
        self.read_bytes = self.read_bytes.saturating_add(blob.len);
        if self.read_bytes > bytes_max {
            return Err(ClosureError::TooManyBytes { max: bytes_max });
        }
        let directory_bytes_max = self.limits.directory_bytes_max;
        let container = if role == Role::Tree {
            Container::Tree(TreeReader::new(self.reading, directory_bytes_max))
        } else if blob.len > directory_bytes_max as u64 {
            let max = directory_bytes_max;
            return Err(ClosureError::DirectoryTooLong { blob, len: blob.len, max });
        } else {
            Container::Directory(Vec::new())
        };
        self.current = Some(Current { blob, seen_bytes: 0, container });
        Ok(Some(blob))
    }

    /// The next bytes of the blob of [`Self::next_blob`], which the caller has verified or will
    /// verify.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), ClosureError> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        current.seen_bytes = current.seen_bytes.saturating_add(piece.len() as u64);
        let outcome = if current.seen_bytes > current.blob.len {
            Err(TreeFailure::Flaw(Flaw::Length))
        } else {
            match &mut current.container {
                Container::Tree(tree) => {
                    tree.piece(piece, &mut |role, digest| self.add_in_container(role, digest))
                }
                Container::Directory(bytes) => {
                    bytes.extend_from_slice(piece);
                    Ok(())
                }
            }
        };
        let outcome = outcome.map_err(|failure| self.error(current.blob, failure));
        self.current = Some(current);
        outcome
    }

    /// The end of the blob of [`Self::next_blob`].
    pub fn end_blob(&mut self) -> Result<(), ClosureError> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let Current { blob, seen_bytes, container } = current;
        let outcome = if seen_bytes == blob.len {
            match container {
                Container::Tree(tree) => tree.finish(),
                Container::Directory(bytes) => {
                    let reading = self.reading;
                    let mut add = |role, digest| self.add_in_container(role, digest);
                    reading.visit(&DIRECTORY, &bytes, &mut add)
                }
            }
        } else {
            Err(TreeFailure::Flaw(Flaw::Length))
        };
        outcome.map_err(|failure| self.error(blob, failure))
    }

    /// The closure. Call it when [`Self::next_blob`] has returned `None`.
    pub fn finish(self) -> Closure {
        let mut blobs: Vec<Digest> = self.needed.into_iter().collect();
        blobs.sort_unstable();
        Closure(blobs)
    }

    /// An upper bound of the memory of the walk and of its closure, in bytes, for the budget.
    pub fn memory_bytes(&self) -> u64 {
        let entries = self.needed.len() + self.found.len() + self.unread.len();
        let directory = self.limits.directory_bytes_max as u64;
        let held = match &self.current {
            Some(current) => current.blob.len.min(directory),
            None => 0,
        };
        BLOB_BYTES * entries as u64 + held
    }

    fn add_in_container(&mut self, role: Role, digest: Digest) -> Result<(), TreeFailure> {
        if self.add(role, digest) { Ok(()) } else { Err(TreeFailure::TooManyBlobs) }
    }

    /// Adds a blob; `false` if there are too many.
    fn add(&mut self, role: Role, digest: Digest) -> bool {
        if digest.len == 0 || role == Role::InTree {
            return true;
        }
        if role != Role::File && self.found.insert((role, digest)) {
            self.unread.push((role, digest));
        }
        self.needed.insert(digest);
        self.needed.len() <= self.limits.blobs_max
    }

    fn error(&self, blob: Digest, failure: TreeFailure) -> ClosureError {
        let max = self.limits.directory_bytes_max;
        match failure {
            TreeFailure::Flaw(flaw) => ClosureError::Container { blob, flaw },
            TreeFailure::DirectoryTooLong(len) => ClosureError::DirectoryTooLong { blob, len, max },
            TreeFailure::TooManyBlobs => ClosureError::TooManyBlobs { max: self.limits.blobs_max },
        }
    }
}
