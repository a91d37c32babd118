//! [`SourceFile`]: the file that is uploaded: opened once, read by position, watched for changes.
//!
//! A file that changes while it is read would become a blob that never existed. So its length and
//! modification time are compared with those that it had when it was opened, before anything is
//! registered; and every byte that is read a second time, to be sent, is hashed again and compared
//! with the digest from when it was read first. A store verifies what it is given, too, but not
//! every store, and its refusal would not say why; a second hash costs a core-second for some GB
//! that travel, on whatever cores are free, which only a link of 10 Gbit/s and more could notice.
//! What is written through a memory map does not move the time at once: only the hash sees that.
//!
//! Files are read on the runtime's blocking threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_core::digest::Digest;

use crate::error::{Error, ErrorKind, Operation, Result};

/// The file of one upload.
#[derive(Debug)]
pub(super) struct SourceFile {
    file: Arc<File>,
    name: Arc<str>,
    stamp: Stamp,
    /// What the caller says that it is: bytes of something else are his mistake, not a change.
    named: Option<Digest>,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl SourceFile {
    /// Opens a file; `digest` is what the caller says that it is.
    pub(super) async fn open(path: &Path, digest: Option<&Digest>) -> Result<Arc<Self>> {
        let path = path.to_owned();
        let name: Arc<str> = path.display().to_string().into();
        let named = digest.copied();
        let opened = blocking(&name, {
            let name = Arc::clone(&name);
            move || {
                let file = File::open(&path).map_err(|error| unreadable(&name, error))?;
                let metadata = file.metadata().map_err(|error| unreadable(&name, error))?;
                if !metadata.is_file() {
                    let message = "it is not a regular file, so it cannot be read twice";
                    return Err(Error::new(ErrorKind::Invalid, Operation::Upload, &*name, message));
                }
                let stamp = Stamp::of(&metadata);
                Ok(Arc::new(Self { file: Arc::new(file), name, stamp, named }))
            }
        })
        .await?;
        match digest {
            Some(digest) if digest.len != opened.len() => Err(opened.differs(digest)),
            _ => Ok(opened),
        }
    }

    /// Its length in bytes when it was opened.
    pub(super) fn len(&self) -> u64 {
        self.stamp.len
    }

    /// What errors call it.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the caller says what it is.
    pub(super) fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// Fails where it is not what the caller says.
    pub(super) fn check_named(&self, actual: &Digest) -> Result<()> {
        match &self.named {
            Some(named) if named != actual => Err(self.differs(named)),
            _ => Ok(()),
        }
    }

    /// The file itself.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Runs `work` on the file where it may block.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(self);
        blocking(&self.name, move || work(&file)).await
    }

    /// Fails with `Changed` where its length or modification time are not what they were. Blocks.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let metadata = self.file.metadata().map_err(|error| unreadable(&self.name, error))?;
        let now = Stamp::of(&metadata);
        if now == self.stamp {
            return Ok(());
        }
        Err(self.changed(if now.len == self.stamp.len {
            "it was written to while it was read".to_owned()
        } else {
            format!("it had {} bytes when it was opened, and has {}", self.stamp.len, now.len)
        }))
    }

    /// Reads `buffer` full from `offset`; a file that ends before has changed. Blocks.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self
                .changed(format!("it had {} bytes when it was opened, and has fewer", self.len())),
            _ => unreadable(&self.name, error),
        })
    }

    /// Reads a chunk again, and compares it with what it was. Blocks.
    pub(super) fn read_chunk(&self, offset: u64, digest: &Digest) -> Result<Bytes> {
        // What is read at once fits into memory: the budget has granted it.
        let mut bytes = BytesMut::zeroed(usize::try_from(digest.len).unwrap_or(usize::MAX));
        self.read(offset, &mut bytes)?;
        if Digest::of(digest.function, &bytes) != *digest {
            return Err(self.differs(digest).at(offset..offset + digest.len));
        }
        Ok(bytes.freeze())
    }

    /// The bytes are not those of `digest`.
    pub(super) fn differs(&self, digest: &Digest) -> Error {
        if self.named.as_ref() != Some(digest) {
            return self.changed("its bytes are not what they were when it was first read");
        }
        let message = format!("its bytes are not those of {digest}");
        Error::new(ErrorKind::Integrity, Operation::Upload, &*self.name, message)
            .with_hint("check the digest, and that nobody writes to the file")
    }

    /// It has changed, and how that shows.
    pub(super) fn changed(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Changed, Operation::Upload, &*self.name, message)
            .with_hint("upload it again when nobody writes to it")
    }
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
        }
    }
}

async fn blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = "the runtime is shutting down";
        Err(Error::new(ErrorKind::Cancelled, Operation::Upload, name, message).caused_by(error))
    })
}

fn unreadable(name: &str, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (ErrorKind::NotFound, "there is no such file")
        }
        io::ErrorKind::PermissionDenied => (ErrorKind::NoAccess, "the file may not be read"),
        _ => (ErrorKind::Storage, "the file cannot be read"),
    };
    let hint = "check the path and its permissions";
    Error::new(kind, Operation::Upload, name, message).caused_by(error).with_hint(hint)
}
