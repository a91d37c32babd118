//! [`UploadSource`]: where the bytes of an upload come from.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tidegate_core::checksum::ChecksumAlgorithm;
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;

use super::UploadOptions;
use super::file::UploadFile;
use super::piece;
use super::stream::{FRAME_BYTES, SourceStream};
use super::sums::PartSums;
use crate::chunked::ChunkedSource;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::local;
use crate::remote::{Body, Location, Payload};
use crate::store::SendProgress;

/// The bytes of an upload.
pub struct UploadSource(pub(super) Kind);

pub(super) enum Kind {
    Path(PathBuf),
    Bytes(Bytes),
    Stream(Body),
    Reader(Box<dyn AsyncRead + Send + Unpin>),
    Blob(Box<Location>),
}

impl UploadSource {
    /// A local file. A pipe or a terminal is read as a stream.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self(Kind::Path(path.into()))
    }

    /// Bytes in memory, which the caller holds: they take nothing from the budget.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Bytes(bytes.into()))
    }

    /// A stream of any length. An upload of it cannot be resumed.
    pub fn stream(stream: Body) -> Self {
        Self(Kind::Stream(stream))
    }

    /// A reader of any length. An upload of it cannot be resumed.
    pub fn reader(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self(Kind::Reader(Box::new(reader)))
    }

    /// A blob of a remote: copied by the provider if the target is at the same remote, otherwise read
    /// as a verified stream.
    pub fn blob(blob: &Location) -> Self {
        Self(Kind::Blob(Box::new(blob.clone())))
    }

    /// The path, if it is one.
    pub(super) fn as_path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Path(path) => Some(path),
            _ => None,
        }
    }

    /// The blob of a remote, if it is one.
    pub(crate) fn as_blob(&self) -> Option<&Location> {
        match &self.0 {
            Kind::Blob(blob) => Some(blob),
            Kind::Path(_) | Kind::Bytes(_) | Kind::Stream(_) | Kind::Reader(_) => None,
        }
    }

    /// The source of an upload to a cache. A blob must be opened before.
    pub(crate) fn into_chunked(self) -> Result<ChunkedSource> {
        Ok(match self.0 {
            Kind::Path(path) => ChunkedSource::Path(path),
            Kind::Bytes(bytes) => ChunkedSource::Stream(Box::pin(stream::iter([Ok(bytes)]))),
            Kind::Stream(stream) => ChunkedSource::Stream(stream),
            Kind::Reader(reader) => ChunkedSource::Stream(frames(reader)),
            Kind::Blob(blob) => {
                let message = "it is not open";
                let name = blob.display();
                return Err(Error::new(ErrorKind::Invalid, Operation::Upload, name, message));
            }
        })
    }
}

/// What a reader gives, in frames.
pub(crate) fn frames(reader: impl AsyncRead + Send + 'static) -> Body {
    let failed = |error| local::failed("the reader", Operation::Upload, error);
    let frames = ReaderStream::with_capacity(reader, FRAME_BYTES);
    Box::pin(frames.map(move |frame| frame.map_err(failed)))
}

impl fmt::Debug for UploadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Path(_) => "UploadSource::Path",
            Kind::Bytes(_) => "UploadSource::Bytes",
            Kind::Stream(_) => "UploadSource::Stream",
            Kind::Reader(_) => "UploadSource::Reader",
            Kind::Blob(_) => "UploadSource::Blob",
        })
    }
}

impl From<PathBuf> for UploadSource {
    fn from(path: PathBuf) -> Self {
        Self::path(path)
    }
}

impl From<&Path> for UploadSource {
    fn from(path: &Path) -> Self {
        Self::path(path)
    }
}

impl From<&PathBuf> for UploadSource {
    fn from(path: &PathBuf) -> Self {
        Self::path(path)
    }
}

impl From<&str> for UploadSource {
    fn from(path: &str) -> Self {
        Self::path(path)
    }
}

impl From<String> for UploadSource {
    fn from(path: String) -> Self {
        Self::path(path)
    }
}

impl From<Bytes> for UploadSource {
    fn from(bytes: Bytes) -> Self {
        Self::bytes(bytes)
    }
}

/// An opened source.
#[derive(Debug)]
pub(super) enum OpenedSource {
    /// Any range can be read, also again.
    PositionalSource(Arc<PositionalSource>),
    /// Only in order, once.
    Stream(SourceStream),
}

/// A source that is read by position.
#[derive(Debug)]
pub(super) enum PositionalSource {
    File(Arc<UploadFile>),
    /// A stream that was copied to a temporary file.
    Spooled(Arc<UploadFile>),
    Bytes(Bytes),
}

impl OpenedSource {
    pub(super) async fn open(source: UploadSource, options: &UploadOptions) -> Result<Self> {
        Ok(match source.0 {
            Kind::Path(path) => UploadFile::open(&path, options).await?,
            Kind::Bytes(bytes) => Self::PositionalSource(Arc::new(PositionalSource::Bytes(bytes))),
            Kind::Stream(body) => Self::Stream(SourceStream::of_body(body)),
            Kind::Reader(reader) => Self::Stream(SourceStream::of_reader(reader)),
            // The client reads a blob before it calls this.
            Kind::Blob(blob) => {
                let message = "the blob was not opened";
                let name = blob.display();
                return Err(Error::new(ErrorKind::Invalid, Operation::Upload, name, message));
            }
        })
    }

    /// Length in bytes, if it is known.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Self::PositionalSource(at) => Some(at.len()),
            Self::Stream(_) => None,
        }
    }
}

impl PositionalSource {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File(file) | Self::Spooled(file) => file.len(),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    pub(super) fn file(&self) -> Option<&Arc<UploadFile>> {
        match self {
            Self::File(file) => Some(file),
            Self::Spooled(_) | Self::Bytes(_) => None,
        }
    }

    /// Reads a range for its checksums.
    pub(super) async fn sums(
        &self,
        range: Range<u64>,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<PartSums> {
        match self {
            Self::File(file) | Self::Spooled(file) => {
                piece::sums_of_file(file, range, algorithm).await
            }
            Self::Bytes(bytes) => piece::sums_of_bytes(slice(bytes, range), algorithm).await,
        }
    }

    /// The payload of a range whose checksums are known. `sending` counts what is taken of it.
    pub(super) fn payload(
        &self,
        range: Range<u64>,
        sums: &PartSums,
        sending: &SendProgress,
    ) -> Payload {
        let payload = match self {
            Self::File(file) | Self::Spooled(file) => piece::of_file(file, range, sums, sending),
            Self::Bytes(bytes) => piece::of_bytes(slice(bytes, range), sending),
        };
        match sums.sent() {
            Some(checksum) => payload.with_checksum(checksum.clone()),
            None => payload,
        }
    }

    /// Fails with `Changed` if the source is no longer what it was when it was opened.
    pub(super) async fn check_unchanged(&self) -> Result<()> {
        match self {
            Self::File(file) => file.check_unchanged().await,
            Self::Spooled(_) | Self::Bytes(_) => Ok(()),
        }
    }

    /// A note for the caller on how the source was read.
    pub(super) fn note(&self) -> Option<String> {
        let is_spooled = matches!(self, Self::Spooled(_));
        is_spooled.then(|| "the stream was first copied to a temporary file".to_owned())
    }
}

fn slice(bytes: &Bytes, range: Range<u64>) -> Bytes {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(at(range.start)..at(range.end))
}
