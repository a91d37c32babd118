//! Values of HTTP caches under `/ac/`: action results of some clients, opaque values of others.
//!
//! A value that is exactly an action result is one: it is stored only if its closure is all there,
//! and read only while it is. Any other value is opaque. Both kinds share one key, so the last writer
//! wins, and the bytes that a reader gets are those of the writer.

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};

use super::ActionPut;
use crate::store::blobs::{BlobReader, Blobs, Form, IncomingValue, opaque_key};
use crate::store::closure::{ClosureError, ClosureLimits, UnknownFields};
use crate::store::error::StoreResult;

/// Longer values are opaque. It is the longest message that the server accepts.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// What became of a value of an HTTP cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum CachedPut {
    /// It is stored, and the server knows nothing of its content.
    Opaque,
    /// It is an action result, and stored.
    Result,
    /// It is an action result that needs this blob, which the store lacks. It is not stored.
    Incomplete(Digest),
    /// It is an action result, but a tree in it is not one, or it needs too many blobs.
    Refused(ClosureError),
}

/// A value of an HTTP cache.
#[derive(Debug)]
pub(crate) enum CachedValue {
    /// An action result whose blobs are all there.
    Result(Bytes),
    /// An opaque value and its length.
    Opaque(u64, Box<BlobReader>),
}

/// Whether a message that begins with `first` can be an action result: a field up to 15 with a
/// varint or with a length. JSON, gzip and entries of ccache begin with other bytes.
const fn may_be_result(first: u8) -> bool {
    first & 0x80 == 0 && first >> 3 != 0 && matches!(first & 7, 0 | 2)
}

const fn is_no_result(error: &ClosureError) -> bool {
    matches!(error, ClosureError::NotActionResult(_))
}

impl Blobs {
    /// Names a value that has arrived, and replaces the one before it. A result holds its bytes
    /// twice in memory meanwhile.
    pub(crate) fn put_cached(
        &self,
        incoming: IncomingValue,
        function: DigestFunction,
    ) -> StoreResult<CachedPut> {
        let opaque = |incoming: IncomingValue| incoming.finish().map(|()| CachedPut::Opaque);
        let first = incoming.first_byte()?;
        if incoming.len() > RESULT_BYTES_MAX || first.is_some_and(|first| !may_be_result(first)) {
            return opaque(incoming);
        }
        let result = incoming.read_all()?;
        let limits = ClosureLimits::default();
        let closure = match self.closure(&result, function, UnknownFields::Refuse, limits)? {
            Ok(closure) => closure,
            Err(ActionPut::Incomplete(missing)) => return Ok(CachedPut::Incomplete(missing)),
            Err(ActionPut::Refused(error)) if !is_no_result(&error) => {
                return Ok(CachedPut::Refused(error));
            }
            Err(_) => return opaque(incoming),
        };
        let key = incoming.into_key();
        Ok(match self.put_complete(key, function, &closure, result, "")? {
            ActionPut::Incomplete(missing) => CachedPut::Incomplete(missing),
            _ => CachedPut::Result,
        })
    }

    /// A value of an HTTP cache; `None` if there is none, or it is a result that lost a blob.
    pub(crate) fn open_cached(
        &self,
        name: &[u8],
        function: DigestFunction,
    ) -> StoreResult<Option<CachedValue>> {
        let Some(key) = opaque_key(name) else { return Ok(None) };
        let Some(value) = self.core.get(&key)? else { return Ok(None) };
        match Form::from_number(value.form) {
            Some(Form::Plain) => {
                let len = value.content.len();
                let reader = self.open_content(&key, value.content)?;
                Ok(reader.map(|reader| CachedValue::Opaque(len, Box::new(reader))))
            }
            Some(Form::Action) => Ok(self.complete(key, value, function)?.map(CachedValue::Result)),
            _ => Ok(None),
        }
    }
}
