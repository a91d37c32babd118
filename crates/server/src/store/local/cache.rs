//! What a cache needs beyond the engine's traits: action results, opaque values, compressed blobs.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tidegate::remote::Body;
use tidegate::store::body;
use tidegate::{Operation, Result};
use tidegate_core::digest::{Digest, DigestFunction};

use super::LocalStore;
use crate::store::actions::{ActionName, ActionPut, CachedPut, CachedValue};
use crate::store::blobs::{BlobReader, IncomingPacked, IncomingValue, PackedReader};
use crate::store::closure::{ClosureLimits, UnknownFields};
use crate::store::error::StoreResult;
use crate::trace::TraceOperation;

impl LocalStore {
    /// Stores an action result, if all blobs that it needs are there.
    pub async fn put_action(
        &self,
        name: &ActionName<'_>,
        result: Bytes,
        unknown: UnknownFields,
    ) -> Result<ActionPut> {
        self.put_action_of(name, result, unknown, "").await
    }

    /// As [`Self::put_action`], with the invocation that stores it, by which it can be purged.
    pub async fn put_action_of(
        &self,
        name: &ActionName<'_>,
        result: Bytes,
        unknown: UnknownFields,
        invocation: &str,
    ) -> Result<ActionPut> {
        if let Some(key) = name.key() {
            self.record(TraceOperation::Put, result.len() as u64, || key);
        }
        let (instance, action) = (name.instance.to_owned(), name.action);
        let target = action.to_string();
        let blobs = &self.0.blobs;
        let limits = ClosureLimits::default();
        if let Some(op) = blobs.action_op(name, &result, unknown, limits, invocation) {
            let committed = blobs.commit_async(vec![op]).await;
            let committed: StoreResult<()> = committed.into_iter().collect();
            committed.map_err(|failure| super::error(Operation::Write, &target, failure))?;
            return Ok(ActionPut::Stored);
        }
        let invocation = invocation.to_owned();
        self.blocking(Operation::Write, &target, move |blobs| {
            let name = ActionName { instance: &instance, action };
            blobs.put_action(&name, result, unknown, limits, &invocation)
        })
        .await
    }

    /// An action result; `None` if there is none, or any blob that it needs is missing. All of them
    /// stay for some minutes.
    pub async fn action(&self, name: &ActionName<'_>) -> Result<Option<Bytes>> {
        let mut found = self.0.blobs.action_cached(name);
        if found.is_none() {
            let (instance, action) = (name.instance.to_owned(), name.action);
            let target = action.to_string();
            let looked = self.blocking(Operation::Read, &target, move |blobs| {
                blobs.action(&ActionName { instance: &instance, action })
            });
            found = looked.await?;
        }
        if let Some(key) = name.key() {
            let size = found.as_ref().map_or(0, Bytes::len) as u64;
            self.record(TraceOperation::Get, size, || key);
        }
        Ok(found)
    }

    /// Begins to store an opaque value. `None` if the name is longer than a kilobyte.
    pub fn begin_value(&self, name: &[u8]) -> Option<ValueWriter> {
        let incoming = self.0.blobs.receive_value(name)?;
        Some(ValueWriter { store: self.clone(), incoming })
    }

    /// The length of an opaque value in bytes, and its bytes.
    pub async fn value(&self, name: &[u8]) -> Result<Option<(u64, Body)>> {
        let name = name.to_owned();
        let opened = self.blocking(Operation::Read, VALUE, move |blobs| blobs.open_value(&name));
        let Some((len, reader)) = opened.await? else { return Ok(None) };
        Ok(Some((len, self.body(VALUE, reader, BlobReader::next_piece))))
    }

    /// The length of a value of an HTTP cache in bytes, and its bytes. `None` if there is none, or
    /// it is an action result that lost a blob. The blobs of a result stay for some minutes.
    pub async fn cached(
        &self,
        name: &[u8],
        function: DigestFunction,
    ) -> Result<Option<(u64, Body)>> {
        let name = name.to_owned();
        let opened = self
            .blocking(Operation::Read, VALUE, move |blobs| blobs.open_cached(&name, function))
            .await?;
        Ok(opened.map(|value| match value {
            CachedValue::Result(bytes) => (bytes.len() as u64, body(bytes, 0)),
            CachedValue::Opaque(len, reader) => {
                (len, self.body(VALUE, *reader, BlobReader::next_piece))
            }
        }))
    }

    /// Removes an opaque value. It does not come back.
    pub async fn remove_value(&self, name: &[u8]) -> Result<()> {
        let name = name.to_owned();
        self.blocking(Operation::Write, VALUE, move |blobs| blobs.remove_value(&name)).await
    }

    /// Begins to store a blob that arrives as a zstd frame.
    pub fn begin_packed(&self, digest: &Digest) -> Result<PackedWriter> {
        self.record_blob(TraceOperation::Put, digest);
        let target = digest.to_string();
        let failed = |failure| super::error(Operation::Write, &target, failure);
        let incoming = self.0.blobs.receive_packed(digest).map_err(failed)?;
        Ok(PackedWriter { store: self.clone(), digest: *digest, incoming })
    }

    /// A blob as a zstd frame; `None` if it is missing. It is compressed on demand, unless it is
    /// stored so.
    pub async fn get_packed(&self, digest: &Digest) -> Result<Option<Body>> {
        self.get_packed_from(digest, 0).await
    }

    /// As [`Self::get_packed`], without the first `offset` bytes of the blob.
    pub async fn get_packed_from(&self, digest: &Digest, offset: u64) -> Result<Option<Body>> {
        let digest = *digest;
        self.record_blob(TraceOperation::Get, &digest);
        let target = digest.to_string();
        let opened = self
            .blocking(Operation::Read, &target, move |blobs| blobs.open_as_packed(&digest, offset));
        let reader = opened.await?;
        Ok(reader.map(|reader| self.body(&target, reader, PackedReader::next_piece)))
    }

    /// The pieces of a reader, each read on a blocking thread.
    pub(super) fn body<R: Send + 'static>(
        &self,
        target: &str,
        reader: R,
        next: impl Fn(&mut R) -> StoreResult<Option<Bytes>> + Copy + Send + 'static,
    ) -> Body {
        let state = (self.clone(), reader, target.to_owned());
        stream::try_unfold(state, move |(store, mut reader, target)| async move {
            let read = store.blocking(Operation::Read, &target, move |_| {
                let piece = next(&mut reader)?;
                Ok((piece, reader))
            });
            let (piece, reader) = read.await?;
            Ok(piece.map(|piece| (piece, (store, reader, target))))
        })
        .boxed()
    }
}

/// The target of operations on opaque values in errors. Their names may be secrets.
const VALUE: &str = "a value";

/// An opaque value that arrives. Dropping it keeps nothing.
#[derive(Debug)]
pub struct ValueWriter {
    store: LocalStore,
    incoming: IncomingValue,
}

impl ValueWriter {
    /// The next bytes.
    pub async fn write(self, bytes: Bytes) -> Result<Self> {
        let Self { store, mut incoming } = self;
        let written = store.blocking(Operation::Write, VALUE, move |_| {
            incoming.write(&bytes)?;
            Ok(incoming)
        });
        let incoming = written.await?;
        Ok(Self { store, incoming })
    }

    /// Names the value, and replaces the one before it.
    pub async fn finish(self) -> Result<()> {
        let Self { store, incoming } = self;
        store.blocking(Operation::Write, VALUE, move |_| incoming.finish()).await
    }
}

impl ValueWriter {
    /// The bytes that were written.
    pub fn len(&self) -> u64 {
        self.incoming.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Self::finish`], for a value that may be an action result. It is in memory twice for
    /// that, if it can be one.
    pub async fn finish_cached(self, function: DigestFunction) -> Result<CachedPut> {
        let Self { store, incoming } = self;
        let put = store
            .blocking(Operation::Write, VALUE, move |blobs| blobs.put_cached(incoming, function));
        put.await
    }
}

/// A blob that arrives as a zstd frame. Dropping it keeps nothing.
#[derive(Debug)]
pub struct PackedWriter {
    store: LocalStore,
    digest: Digest,
    incoming: IncomingPacked,
}

impl PackedWriter {
    /// The next compressed bytes. Fails with `Integrity` if they are no zstd frame of this blob.
    pub async fn write(self, packed: Bytes) -> Result<Self> {
        let Self { store, digest, mut incoming } = self;
        let target = digest.to_string();
        let written = store.blocking(Operation::Write, &target, move |_| {
            incoming.write(&packed)?;
            Ok(incoming)
        });
        let incoming = written.await?;
        Ok(Self { store, digest, incoming })
    }

    /// Names the blob. Fails with `Integrity` if the bytes have another digest.
    pub async fn finish(self) -> Result<()> {
        let Self { store, digest, incoming } = self;
        let target = digest.to_string();
        store.blocking(Operation::Write, &target, move |_| incoming.finish()).await
    }
}
