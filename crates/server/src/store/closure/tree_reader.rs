//! [`TreeReader`]: a `Tree` that arrives in pieces. Only one directory is in memory at a time, so a
//! tree of any length takes no more than its longest directory.

use tidegate_core::digest::Digest;

use super::Flaw;
use super::schema::{DIRECTORY_IN_TREE, Reading, Role};
use super::walk::UnknownFields;
use super::wire::{self, Value};

/// The fields of a `Tree`: its root directory and the directories below.
const ROOT: u32 = 1;
const CHILDREN: u32 = 2;

/// Reads one `Tree`.
#[derive(Debug)]
pub(super) struct TreeReader {
    reading: Reading,
    directory_bytes_max: usize,
    /// The start of a field whose end has not arrived.
    held: Vec<u8>,
    has_root: bool,
}

/// Why a tree cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeFailure {
    Flaw(Flaw),
    /// A directory of this many bytes, as declared, which is more than allowed.
    DirectoryTooLong(u64),
    /// More blobs than the closure may have.
    TooManyBlobs,
}

impl From<Flaw> for TreeFailure {
    fn from(flaw: Flaw) -> Self {
        Self::Flaw(flaw)
    }
}

impl TreeReader {
    pub(super) fn new(reading: Reading, directory_bytes_max: usize) -> Self {
        Self { reading, directory_bytes_max, held: Vec::new(), has_root: false }
    }

    /// Reads the next piece. Calls `found` for each file.
    pub(super) fn piece(
        &mut self,
        mut piece: &[u8],
        found: &mut impl FnMut(Role, Digest) -> Result<(), TreeFailure>,
    ) -> Result<(), TreeFailure> {
        // Completes the held field first, so that whole fields are read where they arrived.
        while !self.held.is_empty() {
            let wanted = self.field_len(&self.held)?;
            let missing = match wanted {
                Some(len) => len - self.held.len(),
                None => 1,
            };
            if missing == 0 {
                let held = std::mem::take(&mut self.held);
                self.field(&held, found)?;
                // The buffer serves the next field, too.
                self.held = held;
                self.held.clear();
                break;
            }
            let Some((more, rest)) = piece.split_at_checked(missing) else { break };
            self.held.extend_from_slice(more);
            piece = rest;
        }
        if !self.held.is_empty() {
            self.held.extend_from_slice(piece);
            return Ok(());
        }
        while !piece.is_empty() {
            let whole = match self.field_len(piece)? {
                Some(len) => piece.split_at_checked(len),
                None => None,
            };
            let Some((field, rest)) = whole else {
                self.held.extend_from_slice(piece);
                break;
            };
            self.field(field, found)?;
            piece = rest;
        }
        Ok(())
    }

    /// Checks that no field is incomplete.
    pub(super) fn finish(&self) -> Result<(), TreeFailure> {
        if self.held.is_empty() { Ok(()) } else { Err(Flaw::Malformed.into()) }
    }

    /// The bytes of the first field; `None` if they are not known yet.
    fn field_len(&self, bytes: &[u8]) -> Result<Option<usize>, TreeFailure> {
        let Some(len) = wire::field_len(bytes)? else { return Ok(None) };
        match usize::try_from(len) {
            Ok(len) if len <= self.directory_bytes_max => Ok(Some(len)),
            _ => Err(TreeFailure::DirectoryTooLong(len)),
        }
    }

    /// Reads one whole field.
    fn field(
        &mut self,
        mut bytes: &[u8],
        found: &mut impl FnMut(Role, Digest) -> Result<(), TreeFailure>,
    ) -> Result<(), TreeFailure> {
        let Some(field) = wire::next(&mut bytes)? else { return Ok(()) };
        match (field.number, field.value) {
            (ROOT, Value::Bytes(_)) if self.has_root => Err(Flaw::Repeated(ROOT).into()),
            (ROOT | CHILDREN, Value::Bytes(directory)) => {
                self.has_root |= field.number == ROOT;
                self.reading.visit(&DIRECTORY_IN_TREE, directory, found)
            }
            (ROOT | CHILDREN, _) => Err(Flaw::Type(field.number).into()),
            _ => match self.reading.unknown {
                UnknownFields::Refuse => Err(Flaw::UnknownField(field.number).into()),
                UnknownFields::Skip => Ok(()),
            },
        }
    }
}
