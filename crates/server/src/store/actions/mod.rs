//! Action results, and what they need.
//!
//! | file | idea |
//! |---|---|
//! | `record` | the bytes of a result with its closure |
//! | `cached` | values of HTTP caches: results or opaque |
//!
//! The closure is found when the result is stored, and kept with it. A hit is then one look-up for
//! each of its blobs, which are all touched and pinned for some minutes: the client is about to read
//! them.
//!
//! Invariants:
//! - A result is stored only if all of its closure is present.
//! - A result whose closure is not all present is a miss, and is removed.

mod cached;
mod record;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};

pub use self::cached::CachedPut;
pub(super) use self::cached::CachedValue;
pub(super) use self::record::ActionRecord;
use super::blobs::{Blobs, Form, Touch};
use super::closure::{Closure, ClosureError, ClosureLimits, ClosureWalk, UnknownFields};
use super::core::{Content, Op, Value, ValueContent};
use super::error::{StoreError, StoreResult};
use super::key::{Key, Space};

/// Blobs of a result that are looked up at once, on the caller's thread: some tens of microseconds.
const AT_ONCE_MAX: usize = 256;

/// The name of an action result: the instance and the digest of the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionName<'a> {
    /// The instance; may be empty.
    pub instance: &'a str,
    /// The action.
    pub action: Digest,
}

impl ActionName<'_> {
    /// `None` if the instance's name is too long.
    pub(super) fn key(&self) -> Option<Key> {
        let action = Key::blob(&self.action);
        Key::new(Space::Action, &[action.bytes(), self.instance.as_bytes()].concat())
    }
}

/// What became of an action result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ActionPut {
    /// It is stored.
    Stored,
    /// The store lacks this blob, which the result needs. The result is not stored.
    Incomplete(Digest),
    /// The bytes are not an action result, a tree in it is not one, or it needs too many blobs.
    Refused(ClosureError),
    /// The name of the instance is too long.
    NameTooLong,
}

impl Blobs {
    /// Stores an action result whose blobs are all there.
    pub(crate) fn put_action(
        &self,
        name: &ActionName<'_>,
        result: Bytes,
        unknown: UnknownFields,
        limits: ClosureLimits,
        invocation: &str,
    ) -> StoreResult<ActionPut> {
        let Some(key) = name.key() else { return Ok(ActionPut::NameTooLong) };
        let closure = match self.closure(&result, name.action.function, unknown, limits)? {
            Ok(closure) => closure,
            Err(refused) => return Ok(refused),
        };
        self.put_complete(key, name.action.function, &closure, result, invocation)
    }

    /// The operation that stores a result, if nothing must be read for it: it names no tree, and the
    /// index has all its blobs. `None` says nothing.
    pub(crate) fn action_op(
        &self,
        name: &ActionName<'_>,
        result: &Bytes,
        unknown: UnknownFields,
        limits: ClosureLimits,
        invocation: &str,
    ) -> Option<Op> {
        let inline_max = self.core.options().inline_bytes_max;
        if !self.core.is_loaded() || result.len() > inline_max {
            return None;
        }
        let function = name.action.function;
        let mut walk = ClosureWalk::new(result, function, unknown, limits).ok()?;
        if walk.next_blob().ok()?.is_some() {
            return None;
        }
        let closure = walk.finish().blobs().to_vec();
        if closure.len() > AT_ONCE_MAX || !self.all_whole(&closure, Touch::Now) {
            return None;
        }
        let (key, size) = (name.key()?, result.len() as u64);
        let record =
            ActionRecord { invocation: invocation.to_owned(), closure, result: result.clone() }
                .encode(function);
        let content = (record.len() <= inline_max).then_some(Content::Bytes(record))?;
        Some(Op::Put { key, form: Form::Action as u8, size, content })
    }

    /// As [`Self::action`], if all that it takes is in memory. `None` says nothing.
    pub(crate) fn action_cached(&self, name: &ActionName<'_>) -> Option<Bytes> {
        let value = self.core.get_cached(&name.key()?)?;
        let ValueContent::Bytes(bytes) = value.content else { return None };
        let record = ActionRecord::decode(name.action.function, &bytes)?;
        let is_hit =
            record.closure.len() <= AT_ONCE_MAX && self.all_whole(&record.closure, Touch::Pin);
        is_hit.then_some(record.result)
    }

    /// Stores a result under a key, if its closure is all there.
    fn put_complete(
        &self,
        key: Key,
        function: DigestFunction,
        closure: &Closure,
        result: Bytes,
        invocation: &str,
    ) -> StoreResult<ActionPut> {
        let present = self.present(closure.blobs(), Touch::Now)?;
        let missing = closure.blobs().iter().zip(present).find(|(_, is_present)| !is_present);
        if let Some((missing, _)) = missing {
            return Ok(ActionPut::Incomplete(*missing));
        }
        let size = result.len() as u64;
        let record = ActionRecord {
            invocation: invocation.to_owned(),
            closure: closure.blobs().to_vec(),
            result,
        };
        self.put_beside(vec![(key, Form::Action, size, record.encode(function))])?;
        Ok(ActionPut::Stored)
    }

    /// The closure of a result, or why it has none.
    fn closure(
        &self,
        result: &[u8],
        function: DigestFunction,
        unknown: UnknownFields,
        limits: ClosureLimits,
    ) -> StoreResult<Result<Closure, ActionPut>> {
        let refused = |error| Ok(Err(ActionPut::Refused(error)));
        let mut walk = match ClosureWalk::new(result, function, unknown, limits) {
            Ok(walk) => walk,
            Err(error) => return refused(error),
        };
        loop {
            let blob = match walk.next_blob() {
                Ok(Some(blob)) => blob,
                Ok(None) => return Ok(Ok(walk.finish())),
                Err(error) => return refused(error),
            };
            let Some(mut reader) = self.open(&blob, 0)? else {
                return Ok(Err(ActionPut::Incomplete(blob)));
            };
            loop {
                let step = match reader.next_piece() {
                    Ok(Some(piece)) => walk.piece(&piece),
                    Ok(None) => break,
                    Err(StoreError::Damaged) => return Ok(Err(ActionPut::Incomplete(blob))),
                    Err(error) => return Err(error),
                };
                if let Err(error) = step {
                    return refused(error);
                }
            }
            if let Err(error) = walk.end_blob() {
                return refused(error);
            }
        }
    }

    /// An action result whose blobs are all there. They are touched and stay for some minutes.
    pub(crate) fn action(&self, name: &ActionName<'_>) -> StoreResult<Option<Bytes>> {
        let Some(key) = name.key() else { return Ok(None) };
        let Some(value) = self.core.get(&key)? else { return Ok(None) };
        self.complete(key, value, name.action.function)
    }

    /// The result in a value, if its closure is all there. Otherwise it is removed.
    fn complete(
        &self,
        key: Key,
        value: Value,
        function: DigestFunction,
    ) -> StoreResult<Option<Bytes>> {
        let Some(bytes) = self.small(&key, value)? else { return Ok(None) };
        let Some(record) = ActionRecord::decode(function, &bytes) else {
            self.core.note_damaged(&key);
            return Ok(None);
        };
        if self.all_present(&record.closure, Touch::Pin)? {
            return Ok(Some(record.result));
        }
        self.core.note_incomplete(&key);
        // If it cannot be removed, the next look-up finds it incomplete, too.
        self.commit(vec![Op::Purge { key }]).into_iter().collect::<StoreResult<()>>()?;
        Ok(None)
    }
}
