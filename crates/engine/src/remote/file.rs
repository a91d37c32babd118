//! The local file system as a remote: `file://` URLs and plain paths.
//!
//! A file is pinned by device, inode, length, modification time and change time. The remote reads
//! these when it opens the file and again after the last byte. So a file that is rewritten during a
//! read gives `Changed`, not a mixture. A writer cannot set the change time back. Reads run on the
//! runtime's blocking threads.
//!
//! A path that is not a regular file, or that reports a wrong length, is a stream (see
//! [`super::local`]). A stream has no version and no length, and ignores ranges. It is opened only
//! once, because a second reader would get only the rest.
//!
//! | file | idea |
//! |---|---|
//! | this one | reading |
//! | [`write`] | whole files, copies; parts go to `upload` |
//! | [`staged`] | a hidden file that gets its name when it is complete |
//! | [`upload`], [`parts`] | an upload in parts: a hidden folder, its records, verifying it |
//! | [`receive`] | a payload into a file, with its checksum |
//! | [`list`], [`walk`] | the files under a prefix, sorted |
//! | [`delete`] | deleting |

mod delete;
mod list;
mod parts;
mod receive;
mod staged;
mod upload;
mod walk;
mod write;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use rustix::fs::Stat;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::local::{LocalFile, LocalStream, failed, name};
use super::{
    BlobInfo, Body, Delete, List, OpenRequest, Opened, Read, Remote, Selection, Version, Write,
};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;

/// One read: large enough to hide the cost of the switch to a blocking thread.
const READ_BYTES: usize = 1 << 20;

/// One read of a stream: twice what a pipe holds.
const STREAM_READ_BYTES: usize = 128 << 10;

/// Blobs are absolute or relative paths.
#[derive(Debug, Default)]
pub(crate) struct FileRemote {
    /// Whether a stream was opened.
    has_streamed: AtomicBool,
}

#[async_trait]
impl Read for FileRemote {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        let path = blob.to_owned();
        offload(Operation::Stat, blob, move || {
            let path = Path::new(&path);
            let found = std::fs::metadata(path);
            if found.is_ok_and(|found| found.file_type().is_fifo()) {
                // Opening the pipe here would look like a reader to its writer.
                return Ok(BlobInfo::default());
            }
            match LocalFile::open(path, Operation::Stat)? {
                LocalFile::Regular(_, metadata) => Ok(info(&metadata)),
                LocalFile::Stream(_) => Ok(BlobInfo::default()),
            }
        })
        .await
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

    async fn open(&self, blob: &str, request: &OpenRequest, _budget: &Budget) -> Result<Opened> {
        if let Some(version) = &request.version {
            self.check_version(version)?;
        }
        let path = blob.to_owned();
        let wanted = request.version.clone();
        let opened = offload(Operation::Read, blob, move || {
            let path = Path::new(&path);
            if wanted.is_some() && std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
                return Err(changed(path));
            }
            let opened = LocalFile::open(path, Operation::Read)?;
            let version = match &opened {
                LocalFile::Regular(_, metadata) => Some(stamp(metadata)),
                LocalFile::Stream(_) => None,
            };
            if wanted.is_some() && wanted != version {
                return Err(changed(path));
            }
            Ok(opened)
        });
        match opened.await? {
            LocalFile::Regular(file, metadata) => regular(blob, file, &metadata, request),
            LocalFile::Stream(stream) if !self.has_streamed.swap(true, Ordering::AcqRel) => {
                let mut opened = Opened::new(BlobInfo::default(), 0, in_order(blob, stream));
                (opened.whole, opened.unhurried) = (true, true);
                Ok(opened)
            }
            LocalFile::Stream(_) => Err(Error::new(
                ErrorKind::Unsupported,
                Operation::Read,
                name(Path::new(blob)),
                "it is a stream, which is read once, from beginning to end",
            )
            .with_hint("copy it to a file first")),
        }
    }
}

impl Remote for FileRemote {
    fn scheme(&self) -> &'static str {
        "file"
    }

    fn as_write(&self) -> Option<&dyn Write> {
        Some(self)
    }

    fn as_list(&self) -> Option<&dyn List> {
        Some(self)
    }

    fn as_delete(&self) -> Option<&dyn Delete> {
        Some(self)
    }
}

/// The response for a file with random access.
fn regular(blob: &str, file: File, metadata: &Metadata, request: &OpenRequest) -> Result<Opened> {
    let range = request.range.resolve(metadata.len()).map_err(|error| {
        Error::new(ErrorKind::OutOfRange, Operation::Read, blob, "the range does not fit")
            .caused_by(error)
    })?;
    let info = info(metadata);
    let reader = Reader {
        file: Arc::new(file),
        path: blob.to_owned(),
        version: info.version.clone(),
        next: range.start,
        end: range.end,
    };
    let mut opened = Opened::new(info, range.start, reader.into_body());
    opened.end = Some(range.end);
    Ok(opened)
}

/// The bytes of a stream. Dropping the body ends a wait for more.
fn in_order(blob: &str, stream: LocalStream) -> Body {
    let stop = CancellationToken::new();
    let state = Some((stream, stop.clone().drop_guard()));
    let path = blob.to_owned();
    Box::pin(stream::try_unfold(state, move |state: Option<(LocalStream, DropGuard)>| {
        let (path, stop) = (path.clone(), stop.clone());
        async move {
            let Some((mut stream, guard)) = state else { return Ok(None) };
            let theirs = path.clone();
            let (stream, bytes) = offload(Operation::Read, &path, move || {
                let mut buffer = BytesMut::zeroed(STREAM_READ_BYTES);
                let read = stream.read(&mut buffer, &stop);
                let read = read
                    .map_err(|error| failed(&name(Path::new(&theirs)), Operation::Read, error))?;
                buffer.truncate(read.unwrap_or(0));
                Ok((stream, buffer.freeze()))
            })
            .await?;
            Ok((!bytes.is_empty()).then_some((bytes, Some((stream, guard)))))
        }
    }))
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
        offload(Operation::Read, &self.path, move || {
            let path = Path::new(&path);
            let failed = |error| failed(&name(path), Operation::Read, error);
            let want = usize::try_from(end - offset).unwrap_or(usize::MAX).min(READ_BYTES);
            let mut buffer = BytesMut::zeroed(want);
            file.read_exact_at(&mut buffer, offset).map_err(|error| {
                if error.kind() == io::ErrorKind::UnexpectedEof {
                    changed(path)
                } else {
                    failed(error)
                }
            })?;
            if offset + want as u64 == end {
                let now = file.metadata().map_err(failed)?;
                if Some(stamp(&now)) != version {
                    return Err(changed(path));
                }
            }
            Ok(buffer.freeze())
        })
        .await
    }
}

fn info(metadata: &Metadata) -> BlobInfo {
    BlobInfo {
        len_bytes: Some(metadata.len()),
        version: Some(stamp(metadata)),
        ..BlobInfo::default()
    }
}

/// The version of an opened file.
pub(crate) fn stamp(metadata: &Metadata) -> Version {
    Version::FileStamp(format!(
        "{:x}-{:x}-{:x}-{:x}.{:09}-{:x}.{:09}",
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec()
    ))
}

/// The same stamp, for a file that is not open. The types of the fields differ between systems.
fn stamp_of(stat: &Stat) -> Version {
    Version::FileStamp(format!(
        "{:x}-{:x}-{:x}-{:x}.{:09}-{:x}.{:09}",
        unsigned(stat.st_dev),
        unsigned(stat.st_ino),
        unsigned(stat.st_size),
        signed(stat.st_mtime),
        signed(stat.st_mtime_nsec),
        signed(stat.st_ctime),
        signed(stat.st_ctime_nsec)
    ))
}

/// When it was last modified; `None` before 1970.
fn modified(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(signed(stat.st_mtime)).ok()?;
    let nanoseconds = u32::try_from(signed(stat.st_mtime_nsec)).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

fn unsigned(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or_default()
}

fn signed(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or_default()
}

fn changed(path: &Path) -> Error {
    let message = "the file changed while it was read";
    Error::new(ErrorKind::Changed, Operation::Read, name(path), message)
}
