//! [`Cache`]: where entries and bodies are: a store on this machine, or a cache over HTTP.
//!
//! An entry is an opaque value, and a body is a blob. Over HTTP, an entry is a value of `/ac/`, so
//! the path of the URL keeps the entries of projects apart.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _, stream};
use tidegate::store::{BlobStore as _, PutRequest, PutSource};
use tidegate::{Budget, Error, ErrorKind, Operation, Result};
use tidegate_core::Digest;
use tidegate_server::cache_client::{CacheClient, CacheClientError};
use tidegate_server::store::LocalStore;

use super::entry::{Entry, hex};
use super::files::Files;
use crate::cache_url;

/// After this many failures in a row, a cache over HTTP is not asked again.
const FAILURES_MAX: u32 = 3;
/// Bytes of one read of a file.
const PIECE_BYTES: usize = 256 << 10;
/// A body of at least this length is sent only if the cache lacks it. Below, a question costs as
/// much as the body.
const ASK_BYTES_MIN: u64 = 64 << 10;

/// Where entries and bodies are.
#[derive(Clone, Debug)]
pub(super) enum Cache {
    Store(LocalStore, Budget),
    Http(Arc<HttpPlace>),
    /// The store of the folder is in use: only what the folder has as files is found.
    FilesOnly,
}

/// A cache over HTTP.
#[derive(Debug)]
pub(super) struct HttpPlace {
    client: CacheClient,
    /// Failures in a row.
    failures: AtomicU32,
}

/// Why the cache failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error(transparent)]
    Http(#[from] CacheClientError),
    #[error("a file of the cache failed")]
    File(#[from] io::Error),
}

impl Cache {
    /// A cache over HTTP. User and password of the URL become the header `Authorization`. Blocks.
    pub(super) fn over_http(url: &str) -> Result<Self> {
        let client = cache_url::client(url)?;
        Ok(Self::Http(Arc::new(HttpPlace { client, failures: AtomicU32::new(0) })))
    }

    /// A store of at most `bytes_max` bytes. Blocks.
    pub(super) fn in_store(folder: &Path, bytes_max: Option<u64>) -> Result<Self> {
        let mut options = LocalStore::options_of_command(folder);
        if let Some(bytes_max) = bytes_max {
            options.bytes_max = bytes_max;
        }
        Ok(Self::Store(LocalStore::open_blocking(folder, options)?, Budget::default()))
    }

    /// The entry and the body of an action. A body that no file holds becomes one.
    pub(super) async fn get(
        &self,
        action: &[u8],
        files: &Files,
    ) -> std::result::Result<Option<(Entry, PathBuf)>, CacheError> {
        match self {
            Self::FilesOnly => {
                let (files, action) = (files.clone(), action.to_owned());
                Ok(blocking(move || Ok(files.find_entry(&action))).await?)
            }
            Self::Store(store, budget) => {
                let Some(entry) = stored_entry(store, action).await? else { return Ok(None) };
                let Some(digest) = entry.digest() else { return Ok(None) };
                if let Some(path) = find(files, &digest).await {
                    return Ok(Some((entry, path)));
                }
                let body = match store.get(&digest, 0, budget).await {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    body => body?,
                };
                let path = keep(files, &digest, body.map_err(CacheError::from)).await?;
                Ok(Some((entry, path)))
            }
            Self::Http(place) => place.watched(place.get(action, files)).await,
        }
    }

    /// Stores an entry, and its body, which is in a file. Returns whether there is a place for it.
    pub(super) async fn put(
        &self,
        action: &[u8],
        entry: &Entry,
        path: &Path,
    ) -> std::result::Result<bool, CacheError> {
        let Some(digest) = entry.digest() else { return Ok(false) };
        match self {
            Self::FilesOnly => Ok(false),
            Self::Store(store, _) => {
                let source = FileSource::open(path).await?;
                store.put(&PutRequest::new(digest, Arc::new(source))).await?;
                let Some(writer) = store.begin_value(&name(action)) else { return Ok(false) };
                writer.write(entry.text().into()).await?.finish().await?;
                Ok(true)
            }
            Self::Http(place) => {
                let put = async { place.put(action, entry, &digest, path).await.map(Some) };
                Ok(place.watched(put).await?.is_some())
            }
        }
    }

    /// Ends the background work of a store.
    pub(super) async fn close(self) {
        if let Self::Store(store, _) = self {
            store.close().await;
        }
    }
}

impl HttpPlace {
    /// Counts failures. After some of them, everything is a miss.
    async fn watched<T>(
        &self,
        call: impl Future<Output = std::result::Result<Option<T>, CacheError>>,
    ) -> std::result::Result<Option<T>, CacheError> {
        if self.failures.load(Ordering::Relaxed) >= FAILURES_MAX {
            return Ok(None);
        }
        let outcome = call.await;
        match &outcome {
            Ok(_) => self.failures.store(0, Ordering::Relaxed),
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        outcome
    }

    async fn get(
        &self,
        action: &[u8],
        files: &Files,
    ) -> std::result::Result<Option<(Entry, PathBuf)>, CacheError> {
        let Some(text) = self.client.value(&hex(action)).await? else { return Ok(None) };
        let Some(entry) = Entry::parse(&text) else { return Ok(None) };
        let Some(digest) = entry.digest() else { return Ok(None) };
        if let Some(path) = find(files, &digest).await {
            return Ok(Some((entry, path)));
        }
        let Some(body) = self.client.blob(&digest).await? else { return Ok(None) };
        let path = keep(files, &digest, body.map_err(CacheError::from)).await?;
        Ok(Some((entry, path)))
    }

    async fn put(
        &self,
        action: &[u8],
        entry: &Entry,
        digest: &Digest,
        path: &Path,
    ) -> std::result::Result<(), CacheError> {
        let is_there = digest.len >= ASK_BYTES_MIN && self.client.has_blob(digest).await?;
        if !is_there && digest.len > 0 {
            let source = FileSource::open(path).await?;
            self.client.put_blob(digest, source.pieces(digest.len)).await?;
        }
        Ok(self.client.put_value(&hex(action), entry.text().into()).await?)
    }
}

async fn stored_entry(store: &LocalStore, action: &[u8]) -> Result<Option<Entry>> {
    let Some((len, mut body)) = store.value(&name(action)).await? else { return Ok(None) };
    let text = body.try_next().await?.unwrap_or_default();
    // An entry has a few hundred bytes, which are one piece.
    Ok((text.len() as u64 == len).then(|| Entry::parse(&text)).flatten())
}

/// The name of an entry in a store.
fn name(action: &[u8]) -> Vec<u8> {
    [b"go\0", action].concat()
}

async fn find(files: &Files, digest: &Digest) -> Option<PathBuf> {
    let (files, digest) = (files.clone(), *digest);
    tokio::task::spawn_blocking(move || files.find(&digest)).await.ok()?
}

/// Writes a body, whose source verifies it, into its file.
async fn keep(
    files: &Files,
    digest: &Digest,
    body: impl Stream<Item = std::result::Result<Bytes, CacheError>>,
) -> std::result::Result<PathBuf, CacheError> {
    let begin = files.clone();
    let mut file = blocking(move || begin.begin()).await?;
    let mut body = std::pin::pin!(body);
    let mut len = 0;
    while let Some(piece) = body.try_next().await? {
        len += piece.len() as u64;
        file = blocking(move || file.write_all(&piece).map(|()| file)).await?;
    }
    if len != digest.len {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let (files, digest) = (files.clone(), *digest);
    Ok(blocking(move || files.keep(file, &digest)).await?)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// A file as the source of a blob.
#[derive(Clone, Debug)]
struct FileSource(Arc<File>);

impl FileSource {
    async fn open(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        blocking(move || File::open(path).map(|file| Self(Arc::new(file)))).await
    }

    async fn piece(&self, offset: u64, len_max: usize) -> io::Result<Bytes> {
        let file = Arc::clone(&self.0);
        blocking(move || {
            let mut bytes = vec![0; len_max.min(PIECE_BYTES)];
            let read = file.read_at(&mut bytes, offset)?;
            bytes.truncate(read);
            Ok(bytes.into())
        })
        .await
    }

    /// All bytes of a file of `len` bytes.
    fn pieces(self, len: u64) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::try_unfold((self, 0), move |(source, offset)| async move {
            let left = usize::try_from(len - offset).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(None);
            }
            let piece = source.piece(offset, left).await?;
            if piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let next = offset + piece.len() as u64;
            Ok(Some((piece, (source, next))))
        })
    }
}

#[async_trait]
impl PutSource for FileSource {
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes> {
        self.piece(offset, len_max).await.map_err(|error| {
            let message = "the file of a body cannot be read";
            Error::new(ErrorKind::Storage, Operation::Read, "a body", message).caused_by(error)
        })
    }
}
