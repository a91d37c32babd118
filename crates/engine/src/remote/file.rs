//! The local file system as a remote: `file://` URLs and plain paths.
//!
//! A file is pinned by device, inode, length and modification time: taken when it is opened and
//! compared again after its last byte, so that a file that is rewritten while it is read is
//! `Changed`, not a mixture. Reads happen on the runtime's blocking threads.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream;

use super::{BlobInfo, Body, OpenRequest, Opened, Remote, Selection, Version};
use crate::error::{Error, ErrorKind, Operation, Result};

/// One read: large enough that the hand-over to a blocking thread does not show.
const READ_BYTES: usize = 1 << 20;

/// Blobs are absolute or relative paths.
#[derive(Debug, Default)]
pub(crate) struct FileRemote;

#[async_trait]
impl Remote for FileRemote {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        let path = blob.to_owned();
        blocking(blob, move || info(&path, &open_file(&path, Operation::Stat)?)).await
    }

    fn check_version(&self, version: &Version) -> Result<()> {
        match version {
            Version::FileStamp(_) => Ok(()),
            other => Err(Error::new(
                ErrorKind::Invalid,
                Operation::Locate,
                other.to_string(),
                format!("a local file knows no {}", other.kind()),
            )),
        }
    }

    fn selection(&self, blob: &str) -> Option<Selection> {
        let path = std::path::absolute(blob).ok()?;
        Some(Selection::new("file").with("path", path.as_os_str().as_bytes()))
    }

    async fn open(&self, blob: &str, request: &OpenRequest) -> Result<Opened> {
        if let Some(version) = &request.version {
            self.check_version(version)?;
        }
        let path = blob.to_owned();
        let wanted = request.clone();
        let (file, info, range) = blocking(blob, move || {
            let file = open_file(&path, Operation::Read)?;
            let info = info(&path, &file)?;
            if wanted.version.is_some() && wanted.version != info.version {
                return Err(changed(&path));
            }
            let range = wanted.range.resolve(info.len_bytes.unwrap_or(0)).map_err(|error| {
                Error::new(ErrorKind::OutOfRange, Operation::Read, &path, "the range does not fit")
                    .caused_by(error)
            })?;
            Ok((file, info, range))
        })
        .await?;
        let reader = Reader {
            file: Arc::new(file),
            path: blob.to_owned(),
            version: info.version.clone(),
            next: range.start,
            end: range.end,
        };
        Ok(Opened {
            info,
            start: range.start,
            end: Some(range.end),
            whole: false,
            encoded_unasked: false,
            waited: Duration::ZERO,
            requests: 1,
            body: reader.into_body(),
        })
    }
}

struct Reader {
    file: Arc<File>,
    path: String,
    version: Option<Version>,
    next: u64,
    end: u64,
}

impl Reader {
    fn into_body(self) -> Body {
        Box::pin(stream::try_unfold(self, |mut reader| async move {
            if reader.next >= reader.end {
                return Ok(None);
            }
            let bytes = reader.read().await?;
            reader.next += bytes.len() as u64;
            Ok(Some((bytes, reader)))
        }))
    }

    async fn read(&self) -> Result<Bytes> {
        let (file, path, version) =
            (Arc::clone(&self.file), self.path.clone(), self.version.clone());
        let (offset, end) = (self.next, self.end);
        blocking(&self.path, move || {
            let want = usize::try_from(end - offset).unwrap_or(usize::MAX).min(READ_BYTES);
            let mut buffer = BytesMut::zeroed(want);
            file.read_exact_at(&mut buffer, offset).map_err(|error| {
                if error.kind() == io::ErrorKind::UnexpectedEof {
                    changed(&path)
                } else {
                    failed(&path, Operation::Read, error)
                }
            })?;
            if offset + want as u64 == end && info(&path, &file)?.version != version {
                return Err(changed(&path));
            }
            Ok(buffer.freeze())
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    path: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Cancelled, Operation::Read, path, "the runtime is shutting down")
            .caused_by(error))
    })
}

fn open_file(path: &str, operation: Operation) -> Result<File> {
    let file = File::open(Path::new(path)).map_err(|error| failed(path, operation, error))?;
    let kind = file.metadata().map_err(|error| failed(path, operation, error))?.file_type();
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, operation, path, "it is a folder")
            .with_hint("name one file; whole folders are not copied yet"));
    }
    Ok(file)
}

fn info(path: &str, file: &File) -> Result<BlobInfo> {
    let metadata = file.metadata().map_err(|error| failed(path, Operation::Stat, error))?;
    Ok(BlobInfo {
        len_bytes: Some(metadata.len()),
        version: Some(stamp(&metadata)),
        ..BlobInfo::default()
    })
}

fn stamp(metadata: &Metadata) -> Version {
    Version::FileStamp(format!(
        "{:x}-{:x}-{:x}-{:x}.{:09}",
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec()
    ))
}

fn changed(path: &str) -> Error {
    Error::new(ErrorKind::Changed, Operation::Read, path, "the file changed while it was read")
}

fn failed(path: &str, operation: Operation, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (ErrorKind::NotFound, "there is no such file")
        }
        io::ErrorKind::PermissionDenied => (ErrorKind::NoAccess, "the file may not be read"),
        _ => (ErrorKind::Storage, "the file cannot be read"),
    };
    let failed = Error::new(kind, operation, path, message).caused_by(error);
    match kind {
        ErrorKind::NotFound => failed.with_hint("check the path"),
        ErrorKind::NoAccess => failed.with_hint("check the file's permissions"),
        _ => failed,
    }
}
