//! A blob that arrives without a name: the server fetches it from elsewhere, and hashes it.

use tidegate::{Operation, Result};
use tidegate_core::digest::{Digest, DigestFunction};

use super::LocalStore;
use crate::store::blobs::{IncomingUnnamed, StagedReader};
use crate::trace::TraceOperation;

/// The target of errors: the blob has no name yet.
const ARRIVING: &str = "a blob that is being fetched";

/// A blob that arrives without a name. Dropping it keeps nothing. Its methods block.
#[derive(Debug)]
pub(crate) struct UnnamedWriter {
    store: LocalStore,
    incoming: IncomingUnnamed,
}

impl LocalStore {
    /// Begins to store a blob that gets the digest of its bytes as its name, which must be `expected`
    /// if that is given.
    pub(crate) fn begin_unnamed(
        &self,
        function: DigestFunction,
        expected: Option<Digest>,
    ) -> UnnamedWriter {
        let incoming = self.0.blobs.receive_unnamed(function, expected);
        UnnamedWriter { store: self.clone(), incoming }
    }
}

impl UnnamedWriter {
    /// The next bytes. Fails with `Integrity` if they are more than the expected digest says.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.incoming.write(bytes);
        written.map_err(|failure| super::error(Operation::Write, ARRIVING, failure))
    }

    /// The bytes that were written.
    pub(crate) fn len(&self) -> u64 {
        self.incoming.len()
    }

    /// Reads what was written; `None` while the blob is short.
    pub(crate) fn reader(&self) -> Option<StagedReader> {
        self.incoming.reader()
    }

    /// Names the blob. Fails with `Integrity` if another digest was expected.
    pub(crate) fn finish(self) -> Result<Digest> {
        let Self { store, incoming } = self;
        let finished = incoming.finish();
        let digest =
            finished.map_err(|failure| super::error(Operation::Write, ARRIVING, failure))?;
        store.record_blob(TraceOperation::Put, &digest);
        Ok(digest)
    }
}
