//! The store behind the engine's traits: whole blobs.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use tidegate::remote::Body;
use tidegate::store::{BlobStore, ChunkStore, PutRequest, StoreProfile, body, not_found};
use tidegate::{Budget, Digest, Error, ErrorKind, Operation, Result};

use super::core::{Content, Op, ValueContent};
use super::error::{StoreError, StoreResult};
use super::files::{StagedFile, StoredFile};
use super::key::Key;
use super::threads::Store;

/// Bytes of one read or write of a file.
const PIECE_BYTES: usize = 256 << 10;
/// The form of a value that is the blob itself.
const PLAIN: u8 = 0;

impl Store {
    /// Runs `work` on a blocking thread. Dropping the future does not stop work that has started.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: Operation,
        digest: &Digest,
        work: impl FnOnce(&Self) -> StoreResult<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        match done {
            Ok(outcome) => outcome.map_err(|error| failed(operation, digest, error)),
            Err(error) => {
                let message = "the runtime is shutting down";
                let target = digest.to_string();
                Err(Error::new(ErrorKind::Cancelled, operation, target, message).caused_by(error))
            }
        }
    }

    async fn commit_blob(&self, digest: &Digest, content: Content) -> Result<()> {
        let (key, size) = (Key::blob(digest), digest.len);
        let mut results = self.commit(vec![Op::Put { key, form: PLAIN, size, content }]).await;
        let result = results.pop().unwrap_or(Err(StoreError::Closed));
        result.map_err(|error| failed(Operation::Write, digest, error))
    }

    async fn put_file(&self, request: &PutRequest) -> Result<()> {
        let digest = request.digest;
        let staging =
            self.blocking(Operation::Write, &digest, move |store| store.core().stage(Some(digest)));
        // CANCEL: dropping the staged file removes it.
        let mut staged: StagedFile = staging.await?;
        while staged.len() < digest.len {
            let offset = staged.len();
            let left = usize::try_from(digest.len - offset).unwrap_or(usize::MAX);
            let piece = request.source.read(offset, left.min(PIECE_BYTES)).await?;
            if piece.is_empty() || piece.len() > left {
                let message = format!("expected {left} more bytes, the source ended");
                let target = digest.to_string();
                return Err(Error::new(ErrorKind::Changed, Operation::Write, target, message));
            }
            let writing = self.blocking(Operation::Write, &digest, move |store| {
                store.write_staged(&mut staged, &piece)?;
                Ok(staged)
            });
            staged = writing.await?;
        }
        self.commit_blob(&digest, Content::File(staged)).await
    }
}

/// The error of a blob's operation.
fn failed(operation: Operation, digest: &Digest, error: StoreError) -> Error {
    let kind = match &error {
        StoreError::Mismatch | StoreError::Damaged => ErrorKind::Integrity,
        StoreError::TooLarge { .. } => ErrorKind::Unsupported,
        StoreError::Closed => ErrorKind::Cancelled,
        _ => ErrorKind::Storage,
    };
    Error::new(kind, operation, digest.to_string(), "the store failed").caused_by(error)
}

/// The frames of a file. A damaged block ends them with an error.
fn frames(store: Store, digest: Digest, file: StoredFile, offset: u64) -> Body {
    let state = (store, file, offset);
    Box::pin(stream::try_unfold(state, move |(store, file, offset)| async move {
        if offset >= file.len() {
            return Ok(None);
        }
        let reading = store.blocking(Operation::Read, &digest, move |store| {
            let read = file.read(offset, PIECE_BYTES);
            if matches!(read, Err(StoreError::Damaged)) {
                store.core().note_damaged(&Key::blob(&digest));
            }
            Ok((read?, file))
        });
        let (frame, file): (Bytes, StoredFile) = reading.await?;
        let next = offset + frame.len() as u64;
        Ok(Some((frame, (store, file, next))))
    }))
}

#[async_trait]
impl BlobStore for Store {
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        let Some(first) = digests.first() else { return Ok(Vec::new()) };
        let found = if self.core().is_loaded() {
            self.core().contains_blobs(digests)
        } else {
            let digests = digests.to_vec();
            let look_up = move |store: &Self| Ok(store.core().contains_blobs(&digests));
            self.blocking(Operation::Read, first, look_up).await?
        };
        let missing =
            digests.iter().zip(found).filter(|(digest, is_found)| !is_found && digest.len > 0);
        Ok(missing.map(|(digest, _)| *digest).collect())
    }

    async fn get(&self, digest: &Digest, offset: u64, _: &Budget) -> Result<Body> {
        let digest = *digest;
        if digest.len == 0 {
            return Ok(body(Bytes::new(), 0));
        }
        let reading = self
            .blocking(Operation::Read, &digest, move |store| store.core().get(&Key::blob(&digest)));
        match reading.await?.map(|value| value.content) {
            None => Err(not_found(&digest)),
            Some(ValueContent::Bytes(bytes)) => Ok(body(bytes, offset)),
            Some(ValueContent::File(file)) => Ok(frames(self.clone(), digest, file, offset)),
        }
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        let digest = request.digest;
        if digest.len == 0 {
            request.read_verified().await?;
            return Ok(());
        }
        if digest.len <= self.core().options().inline_bytes_max as u64 {
            let bytes = request.read_verified().await?;
            return self.commit_blob(&digest, Content::Bytes(bytes)).await;
        }
        self.put_file(request).await
    }

    fn identity(&self) -> Cow<'_, str> {
        Cow::Owned(format!("store at {:p}", Arc::as_ptr(self.core())))
    }

    fn put_buffer_bytes(&self, len: u64) -> u64 {
        // A small blob is in memory as a whole until its group is committed, and once more in the
        // group.
        2 * len.min(self.core().options().inline_bytes_max as u64)
    }
}

#[async_trait]
impl ChunkStore for Store {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::new(StoreProfile::default()))
    }
}
