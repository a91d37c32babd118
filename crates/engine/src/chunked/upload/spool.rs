//! [`spool`]: reads a stream to its end into a temporary file, so that it can be read twice.
//!
//! Why: a store wants a blob's digest before its bytes, and a chunk is read again when it is sent.
//! Memory cannot keep the stream: a stream may have any length.
//!
//! Invariants:
//! - The file has no name. So no other process can open it, and nothing is left of it, however this
//!   process ends.
//! - The file is no longer than the store allows, and it leaves a sixteenth of the disk's free
//!   space free.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryPolicy;
use tokio_util::sync::CancellationToken;

use super::ChunkedUploadOptions;
use crate::chunked::ChunkStore;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::read::ReadStats;
use crate::remote::Body;
use crate::remote::local::{self, LocalStream};
use crate::transfer::attempt::Calls;

/// Bytes of one read: twice what a pipe holds.
const READ_BYTES: u64 = 128 << 10;

/// One sixteenth of the disk's free space stays free.
const SPARED_PART: u64 = 16;

/// A stream that was read to its end.
pub(super) struct Spooled {
    pub(super) file: File,
    pub(super) metadata: Metadata,
    /// A message for people: where the copy is.
    pub(super) note: String,
}

/// A stream that is being copied to a file.
struct Spool {
    name: Arc<str>,
    folder: PathBuf,
    len_max: Option<u64>,
    named: Option<Digest>,
}

/// Reads `stream` to its end. Errors call it `name`.
pub(super) async fn spool(
    stream: LocalStream,
    name: &Arc<str>,
    store: &Arc<dyn ChunkStore>,
    options: &ChunkedUploadOptions,
) -> Result<Spooled> {
    let spool = Spool::begin(name, store, options).await?;
    let permit = options.budget.bytes(READ_BYTES).await;
    let stop = CancellationToken::new();
    // CANCEL: the guard stops the thread that reads.
    let _guard = stop.clone().drop_guard();
    offload(Operation::Upload, name, move || {
        let spooled = spool.fill(stream, permit.bytes(), &stop);
        drop(permit);
        spooled
    })
    .await
}

/// As [`spool`], for a stream of frames.
pub(super) async fn spool_body(
    mut stream: Body,
    name: &Arc<str>,
    store: &Arc<dyn ChunkStore>,
    options: &ChunkedUploadOptions,
) -> Result<Spooled> {
    let spool = Arc::new(Spool::begin(name, store, options).await?);
    let opening = Arc::clone(&spool);
    let (file, room) = offload(Operation::Upload, name, move || opening.file()).await?;
    let file = Arc::new(file);
    let mut len = 0_u64;
    while let Some(frame) = stream.next().await {
        let frame = frame?;
        len += frame.len() as u64;
        spool.check(len)?;
        if len > room {
            return Err(spool.refused(io::ErrorKind::StorageFull.into()));
        }
        let (file, spool) = (Arc::clone(&file), Arc::clone(&spool));
        let write = move || (&*file).write_all(&frame).map_err(|error| spool.refused(error));
        offload(Operation::Upload, name, write).await?;
    }
    let Some(file) = Arc::into_inner(file) else {
        return Err(spool.error(ErrorKind::Cancelled, "it is still being written"));
    };
    offload(Operation::Upload, name, move || spool.spooled(file)).await
}

impl Spool {
    async fn begin(
        name: &Arc<str>,
        store: &Arc<dyn ChunkStore>,
        options: &ChunkedUploadOptions,
    ) -> Result<Self> {
        // The store is asked before the stream is read. So the caller learns at once if the store does
        // not respond, and the read stops as soon as the stream is too long for the store.
        let calls = Calls {
            // The deadline is that of the whole upload, and `upload` enforces it.
            policy: RetryPolicy { deadline_ms: None, ..options.retry.clone() },
            budget: options.budget.clone(),
            cancel: options.cancel.clone(),
            operation: Operation::Upload,
            target: Arc::clone(name),
            stats: Arc::new(ReadStats::default()),
        };
        let profile = calls.first(calls.patience(0), |_| store.profile()).await?;
        Ok(Self {
            name: Arc::clone(name),
            folder: folder(),
            // A blob made of chunks may be longer than a blob that is put whole.
            len_max: profile.blob_bytes_max.filter(|_| !profile.can_splice),
            named: options.digest,
        })
    }
}

/// The folder for long temporary files. `/tmp` may be in memory, so `/var/tmp` is the default.
fn folder() -> PathBuf {
    let large = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR") {
        None if large.is_dir() => large.to_path_buf(),
        _ => std::env::temp_dir(),
    }
}

impl Spool {
    fn fill(
        &self,
        mut stream: LocalStream,
        buffer_bytes: u64,
        stop: &CancellationToken,
    ) -> Result<Spooled> {
        let (mut file, room) = self.file()?;
        let mut buffer = vec![0; usize::try_from(buffer_bytes.min(READ_BYTES)).unwrap_or(0).max(1)];
        let mut len = 0_u64;
        loop {
            let read = stream
                .read(&mut buffer, stop)
                .map_err(|error| local::failed(&self.name, Operation::Upload, error))?;
            let count = match read {
                None => return Err(self.error(ErrorKind::Cancelled, "it was cancelled")),
                Some(0) => break,
                Some(count) => count,
            };
            len += count as u64;
            self.check(len)?;
            if len > room {
                return Err(self.refused(io::ErrorKind::StorageFull.into()));
            }
            file.write_all(&buffer[..count]).map_err(|error| self.refused(error))?;
        }
        self.spooled(file)
    }

    /// An empty file without a name, and how long it may become.
    fn file(&self) -> Result<(File, u64)> {
        let file = tempfile::tempfile_in(&self.folder).map_err(|error| self.refused(error))?;
        let free = rustix::fs::fstatvfs(&file).map_err(|error| self.refused(error.into()))?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        Ok((file, free - free / SPARED_PART))
    }

    fn spooled(&self, file: File) -> Result<Spooled> {
        let metadata = file.metadata().map_err(|error| self.refused(error))?;
        let folder = self.folder.display();
        let note = format!("it is a stream: a copy of it was kept in {folder} until it was sent");
        Ok(Spooled { file, metadata, note })
    }

    /// Fails as soon as the stream is longer than it may be.
    fn check(&self, len: u64) -> Result<()> {
        if let Some(named) = self.named.filter(|named| len > named.len) {
            let message = format!("its bytes are not those of {named}: there are more");
            return Err(self.error(ErrorKind::Integrity, message).with_hint("check the digest"));
        }
        if let Some(len_max) = self.len_max.filter(|len_max| len > *len_max) {
            let message = format!("it is longer than {len_max} bytes, and the store takes no more");
            return Err(self.error(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// The file cannot be written.
    fn refused(&self, error: io::Error) -> Error {
        let folder = self.folder.display();
        let message = match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                format!("it is a stream, and there is no room in {folder} to keep a copy of it")
            }
            _ => format!("it is a stream, and no copy of it can be kept in {folder}"),
        };
        self.error(ErrorKind::Storage, message)
            .caused_by(error)
            .with_hint("set TMPDIR to a folder with more room")
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, Operation::Upload, &*self.name, message)
    }
}
