//! [`UploadFile`]: a file that is read by position, and watched for changes.
//!
//! Device, inode, length, modification time and change time are compared before the blob is made.
//! A writer can set the modification time back, but not the change time.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::UploadOptions;
use super::source::{OpenedSource, PositionalSource};
use super::stream::SourceStream;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::Version;
use crate::remote::file_stamp;
use crate::remote::local::{self, LocalFile};
use crate::sink::file::descriptors::{self, Descriptors};

/// See the module docs.
#[derive(Debug)]
pub(super) struct UploadFile {
    file: Arc<File>,
    path: PathBuf,
    name: Arc<str>,
    len: u64,
    stamp: Version,
    modified: Option<SystemTime>,
    /// A temporary file, which only the upload writes to.
    is_spooled: bool,
    #[expect(dead_code, reason = "held until the file is closed")]
    descriptors: Descriptors,
}

impl UploadFile {
    /// Opens a path: a file, or a stream if the path has no length.
    pub(super) async fn open(path: &Path, options: &UploadOptions) -> Result<OpenedSource> {
        let name: Arc<str> = local::name(path).into();
        let path = path.to_owned();
        let descriptors = descriptors::acquire(descriptors::UPLOAD).await;
        let place = path.clone();
        let opened =
            offload(Operation::Upload, &name, move || LocalFile::open(&place, Operation::Upload))
                .await?;
        Ok(match opened {
            LocalFile::Regular(file, metadata) => {
                let (len, stamp) = (metadata.len(), file_stamp(&metadata));
                let modified = metadata.modified().ok();
                let file = Arc::new(file);
                let is_spooled = false;
                let opened =
                    Self { file, path, name, len, stamp, modified, is_spooled, descriptors };
                OpenedSource::PositionalSource(Arc::new(PositionalSource::File(Arc::new(opened))))
            }
            LocalFile::Stream(stream) => {
                OpenedSource::Stream(SourceStream::of_local(stream, name, options.cancel.clone()))
            }
        })
    }

    /// A temporary file with `len` bytes, which nothing else can write to.
    pub(super) async fn spooled(file: Arc<File>, len: u64) -> Result<Self> {
        let name: Arc<str> = "the copied stream".into();
        let descriptors = descriptors::acquire(descriptors::UPLOAD).await;
        let stamp = Version::FileStamp("spooled".to_owned());
        let (path, modified) = (PathBuf::new(), None);
        Ok(Self { file, path, name, len, stamp, modified, is_spooled: true, descriptors })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Changes with the file.
    pub(super) fn stamp(&self) -> &Version {
        &self.stamp
    }

    pub(super) fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// Fills `buffer` with the bytes at `offset`. Blocks.
    pub(super) fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.changed("it became shorter"),
            _ => local::failed(&self.name, Operation::Upload, error),
        })
    }

    /// Fails with `Changed` if the file is no longer what it was when it was opened.
    pub(super) async fn check_unchanged(self: &Arc<Self>) -> Result<()> {
        let this = Arc::clone(self);
        offload(Operation::Upload, &self.name, move || this.unchanged()).await
    }

    /// As [`Self::check_unchanged`]. Blocks.
    pub(super) fn unchanged(&self) -> Result<()> {
        if self.is_spooled {
            return Ok(());
        }
        let failed = |error| local::failed(&self.name, Operation::Upload, error);
        let now: Metadata = self.file.metadata().map_err(failed)?;
        if file_stamp(&now) == self.stamp {
            return Ok(());
        }
        let (before, now) = (self.len, now.len());
        let how = if now == before {
            "it was written to".to_owned()
        } else {
            format!("it had {before} bytes, and has {now}")
        };
        Err(self.changed(&how))
    }

    /// The error of a source that changed.
    pub(super) fn changed(&self, how: &str) -> Error {
        let message = format!("the source changed while it was uploaded: {how}");
        Error::new(ErrorKind::Changed, Operation::Upload, &*self.name, message).with_hint(
            "nothing was stored under the target's name; upload it when nothing writes to it",
        )
    }
}
