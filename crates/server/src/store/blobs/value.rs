//! Opaque values: what a client stores under a name of its own. The store knows nothing of them.

use bytes::Bytes;

use super::form::opaque_key;
use super::incoming::Spill;
use super::{BlobReader, Blobs, Form, PIECE_BYTES};
use crate::store::core::Op;
use crate::store::error::StoreResult;
use crate::store::key::Key;

/// A value that arrives. Dropping it keeps nothing.
#[derive(Debug)]
pub(crate) struct IncomingValue {
    key: Key,
    spill: Spill,
}

impl Blobs {
    /// A value that arrives. `None` if its name is too long.
    pub(crate) fn receive_value(&self, name: &[u8]) -> Option<IncomingValue> {
        Some(IncomingValue { key: opaque_key(name)?, spill: Spill::new(self) })
    }

    /// The bytes of a value and their number; `None` if there is none.
    pub(crate) fn open_value(&self, name: &[u8]) -> StoreResult<Option<(u64, BlobReader)>> {
        let Some(key) = opaque_key(name) else { return Ok(None) };
        let Some(value) = self.core.get(&key)? else { return Ok(None) };
        if Form::from_number(value.form) != Some(Form::Plain) {
            return Ok(None);
        }
        let len = value.content.len();
        let reader = self.open_content(&key, value.content)?;
        Ok(reader.map(|reader| (len, reader)))
    }

    /// Removes a value. It does not come back.
    pub(crate) fn remove_value(&self, name: &[u8]) -> StoreResult<()> {
        let Some(key) = opaque_key(name) else { return Ok(()) };
        self.commit(vec![Op::Purge { key }]).into_iter().collect()
    }
}

impl IncomingValue {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.spill.write(bytes)
    }

    /// The bytes that were written.
    pub(crate) fn len(&self) -> u64 {
        self.spill.len()
    }

    /// The first byte that was written.
    pub(crate) fn first_byte(&self) -> StoreResult<Option<u8>> {
        Ok(self.spill.read(0, 1)?.first().copied())
    }

    /// All bytes that were written, in memory.
    pub(crate) fn read_all(&self) -> StoreResult<Bytes> {
        let mut all = Vec::new();
        while (all.len() as u64) < self.len() {
            all.extend_from_slice(&self.spill.read(all.len() as u64, PIECE_BYTES)?);
        }
        Ok(all.into())
    }

    /// The key. The bytes are dropped.
    pub(crate) fn into_key(self) -> Key {
        self.key
    }

    /// Names the value, and replaces the one before it.
    pub(crate) fn finish(self) -> StoreResult<()> {
        let len = self.spill.len();
        self.spill.commit_as(self.key, Form::Plain, len)
    }
}
