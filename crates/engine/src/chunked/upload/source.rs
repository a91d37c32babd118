//! [`SourceFile`]: the file that is uploaded. It is opened once, read by position, and watched for
//! changes.
//!
//! A file that changes while it is read would become a blob that never existed. Three checks detect
//! a change:
//!
//! 1. *Length and modification time*, compared with those at opening: after each read of chunks
//!    that are to be sent, and before anything is registered.
//! 2. *The digest*, compared with that of the first read, if the first check may miss a change.
//!    That is so if the file was written shortly before it was opened: the clock of the file system
//!    may not have advanced since (git calls such files racy). It is also so if the change time
//!    moves, as it does when a program resets the modification time. A blob that is put whole is
//!    always compared, since it is read in order anyway (see `piece_source`).
//! 3. *The store*, which verifies the bytes that it gets. Bytes that it refuses are hashed again,
//!    so that the error gives the cause.
//!
//! The digest is not compared every time, because that costs as much as naming the chunk: with
//! SHA-256 a core-second for each GB sent. On a fast link that is what limits the pipeline. Only
//! the third check detects bytes written through a memory map whose page was dirty before the
//! upload began.
//!
//! A file that is not regular, or that reports a wrong length, cannot be read twice. It is read
//! once, into a private copy (see `spool`), and the copy is uploaded. Nothing else can write to the
//! copy.
//!
//! Files are read on the runtime's blocking threads.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate_core::digest::Digest;

use super::ledger::UploadChunk;
use super::{ChunkedUploadOptions, spool};
use crate::chunked::ChunkStore;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::Body;
use crate::remote::local::{self, LocalFile};
use crate::sink::file::descriptors::{self, Descriptors};

/// The file of one upload.
#[derive(Debug)]
pub(super) struct SourceFile {
    file: Arc<File>,
    name: Arc<str>,
    stamp: Stamp,
    /// The last change was so long before opening that another change will show in the times.
    is_settled: bool,
    /// The digest that the caller gave. Other bytes are then an error of the caller, not a change.
    named: Option<Digest>,
    /// All bytes were read, and they have the digest that the caller gave.
    is_compared: AtomicBool,
    note: Option<String>,
    #[expect(dead_code, reason = "held until the file is closed")]
    descriptors: Descriptors,
}

/// The bytes of an upload.
pub(crate) enum ChunkedSource {
    Path(PathBuf),
    Stream(Body),
}

impl ChunkedSource {
    /// Its name in errors.
    pub(super) fn name(&self) -> Arc<str> {
        match self {
            Self::Path(path) => local::name(path).into(),
            Self::Stream(_) => "the stream".into(),
        }
    }
}

/// The metadata that change with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Time,
    /// Moves with every change, also with one that changes no bytes, such as a new link.
    changed: Time,
}

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Time(i64, i64);

/// File systems take the time from the kernel's tick, which is 10 ms at the slowest. This is twice
/// that.
const TICK: Duration = Duration::from_millis(20);

/// Some file systems keep no fractions of a second, and at worst only every other second.
const TICK_COARSE: Duration = Duration::from_secs(2);

impl SourceFile {
    /// Opens a file. `options.digest` is the digest that the caller expects. A stream is first read
    /// to its end, up to the blob length that `store` takes.
    pub(super) async fn open(
        store: &Arc<dyn ChunkStore>,
        source: ChunkedSource,
        options: &ChunkedUploadOptions,
    ) -> Result<Arc<Self>> {
        let name = source.name();
        let named = options.digest;
        let descriptors = descriptors::acquire(descriptors::UPLOAD).await;
        let spooled = match source {
            ChunkedSource::Stream(stream) => {
                Err(spool::spool_body(stream, &name, store, options).await?)
            }
            ChunkedSource::Path(path) => {
                let open = move || LocalFile::open(&path, Operation::Upload);
                match offload(Operation::Upload, &name, open).await? {
                    LocalFile::Regular(file, metadata) => Ok((file, metadata)),
                    LocalFile::Stream(stream) => {
                        Err(spool::spool(stream, &name, store, options).await?)
                    }
                }
            }
        };
        let opened = match spooled {
            Ok((file, metadata)) => {
                let stamp = Stamp::of(&metadata);
                let is_settled = stamp.is_settled(SystemTime::now());
                let (file, note) = (Arc::new(file), None);
                let is_compared = AtomicBool::new(false);
                Self { file, name, stamp, is_settled, named, is_compared, note, descriptors }
            }
            Err(spooled) => {
                let stamp = Stamp::of(&spooled.metadata);
                let (file, note) = (Arc::new(spooled.file), Some(spooled.note));
                let is_settled = true;
                let is_compared = AtomicBool::new(false);
                Self { file, name, stamp, is_settled, named, is_compared, note, descriptors }
            }
        };
        match named {
            Some(digest) if digest.len != opened.len() => Err(opened.differs(&digest)),
            _ => Ok(Arc::new(opened)),
        }
    }

    /// A note for the caller on how the file was read.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Its length in bytes when it was opened.
    pub(super) fn len(&self) -> u64 {
        self.stamp.len
    }

    /// The file's name in errors.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the caller gave the digest.
    pub(super) fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// Whether the caller gave this digest.
    pub(super) fn is_called(&self, digest: &Digest) -> bool {
        self.named.as_ref() == Some(digest)
    }

    /// Fails if `actual` is not the digest that the caller gave.
    pub(super) fn check_named(&self, actual: &Digest) -> Result<()> {
        match &self.named {
            Some(named) if named != actual => Err(self.differs(named)),
            _ => {
                self.compared_with(actual);
                Ok(())
            }
        }
    }

    /// Records that all bytes were read and have this digest.
    pub(super) fn compared_with(&self, digest: &Digest) {
        if self.is_called(digest) {
            self.is_compared.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the caller gave a digest that has not been compared with the bytes yet.
    pub(super) fn is_uncompared(&self) -> bool {
        self.named.is_some() && !self.is_compared.load(Ordering::Relaxed)
    }

    /// The file itself.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Runs `work` on the file on a blocking thread.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(self);
        offload(Operation::Upload, &self.name, move || work(&file)).await
    }

    /// Fails with `Changed` if the length or the modification time has changed since opening.
    /// Blocks.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.may_have_changed().map(drop)
    }

    /// Like [`Self::check_unchanged`]. Returns whether the bytes read should be compared with their
    /// digest, because a change might not show. Blocks.
    pub(super) fn may_have_changed(&self) -> Result<bool> {
        let metadata = self.file.metadata().map_err(|error| unreadable(&self.name, error))?;
        let now = Stamp::of(&metadata);
        if now.len != self.stamp.len {
            let message =
                format!("it had {} bytes when it was opened, and has {}", self.stamp.len, now.len);
            return Err(self.changed(message));
        }
        if now.modified != self.stamp.modified {
            return Err(self.changed("it was written to while it was read"));
        }
        Ok(!self.is_settled || now.changed != self.stamp.changed)
    }

    /// Fills `buffer` from `offset`. Fails with `Changed` if the file ends before that. Blocks.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            let failure = match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    let len = self.len();
                    self.changed(format!("it had {len} bytes when it was opened, and has fewer"))
                }
                _ => unreadable(&self.name, error),
            };
            failure.at(offset..offset.saturating_add(buffer.len() as u64))
        })
    }

    /// Compares chunks that were read again with their digests. `pieces` gives their places for the
    /// error. Takes a while.
    pub(super) fn compare(&self, chunks: &[(Digest, Bytes)], pieces: &[UploadChunk]) -> Result<()> {
        for (digest, bytes) in chunks {
            if Digest::of(digest.function, bytes) != *digest {
                let differs = self.differs(digest);
                let piece = pieces.iter().find(|piece| piece.digest == *digest);
                return Err(match piece {
                    Some(piece) => {
                        differs.at(piece.offset..piece.offset.saturating_add(digest.len))
                    }
                    None => differs,
                });
            }
            self.compared_with(digest);
        }
        Ok(())
    }

    /// The error for bytes that do not have this digest.
    pub(super) fn differs(&self, digest: &Digest) -> Error {
        if self.named.as_ref() != Some(digest) {
            return self.changed("its bytes are not what they were when it was first read");
        }
        let message = format!("its bytes are not those of {digest}");
        Error::new(ErrorKind::Integrity, Operation::Upload, &*self.name, message)
            .with_hint("check the digest, and that no process writes to the file")
    }

    /// The error for a changed file; `message` says how the change shows.
    pub(super) fn changed(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Changed, Operation::Upload, &*self.name, message)
            .with_hint("upload it again when no process writes to it")
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: Time(metadata.mtime(), metadata.mtime_nsec()),
            changed: Time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether a change after `now` gets another time than the last change before.
    fn is_settled(&self, now: SystemTime) -> bool {
        let last = self.modified.max(self.changed);
        let tick = if last.1 == 0 { TICK_COARSE } else { TICK };
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(last.0), u32::try_from(last.1)) else {
            return false;
        };
        let last = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos));
        // If the clock is behind the file's time, the age is unknown.
        last.and_then(|last| now.duration_since(last).ok()).is_some_and(|age| age > tick)
    }
}

fn unreadable(name: &str, error: io::Error) -> Error {
    local::failed(name, Operation::Upload, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(modified: Time, changed: Time, now_ms: u64) -> bool {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms);
        Stamp { len: 1, modified, changed }.is_settled(now)
    }

    #[test]
    fn a_file_that_was_just_written_is_not_settled() {
        let (then, tick) = (Time(10, 5_000_000), Time(10, 0));
        assert!(!settled(then, then, 10_005) && !settled(then, then, 10_024));
        assert!(settled(then, then, 10_026));
        assert!(!settled(Time(5, 1), then, 10_010));
        assert!(!settled(tick, tick, 11_999) && settled(tick, tick, 12_001));
        // Times in the future, before 1970, and not valid.
        assert!(!settled(then, then, 9000) && !settled(Time(-5, 1), Time(-5, 1), 10_000));
        assert!(!settled(Time(1, -1), Time(1, -1), 10_000));
        assert!(!settled(Time(i64::MAX, 1), then, 10_000));
    }
}
