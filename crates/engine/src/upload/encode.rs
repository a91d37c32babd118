//! [`ContentCoding`]: an upload that is compressed on the way.
//!
//! The source is read in order, a piece at a time. A blocking thread compresses each piece, and the
//! result is a stream of unknown length: it is held part by part like any other stream, and an
//! interrupted upload begins anew. All checksums are of the compressed bytes, which the remote stores.
//!
//! Sources: RFC 9110, section 8.4 (`Content-Encoding`); RFC 1952 (gzip); RFC 8878 (zstd). For
//! `no-transform`: "Transcoding of gzip-compressed files" of Google Cloud Storage, and gsutil.

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use flate2::write::GzEncoder;
use futures_util::stream;

use super::file::UploadFile;
use super::source::{OpenedSource, PositionalSource};
use super::stream::SourceStream;
use super::{Transfer, UploadOptions};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::MetadataNames;

/// Bytes that are read and compressed at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A window of 32 KiB with its hash chains, a piece and its result.
const GZIP_BYTES: u64 = 3 << 20;

/// The coding of the bytes that a remote stores, which it names in `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentCoding(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gzip(u32),
    #[cfg(feature = "_http1")]
    Zstd(i32),
}

impl ContentCoding {
    /// gzip at a level from 1 (fast) to 9 (small); other levels count as the nearest one.
    pub fn gzip(level: u32) -> Self {
        Self(Kind::Gzip(level.clamp(1, 9)))
    }

    /// zstd at a level from 1 (fast) to 19 (small); other levels count as the nearest one.
    #[cfg(feature = "_http1")]
    pub fn zstd(level: i32) -> Self {
        Self(Kind::Zstd(level.clamp(1, 19)))
    }

    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Gzip(_) => "gzip",
            #[cfg(feature = "_http1")]
            Kind::Zstd(_) => "zstd",
        }
    }

    /// Memory of the encoder, about. Of zstd by its tables of levels: windows of 2, 8 and 8 MiB.
    fn held_bytes(self) -> u64 {
        match self.0 {
            Kind::Gzip(_) => GZIP_BYTES,
            #[cfg(feature = "_http1")]
            Kind::Zstd(..=3) => 6 << 20,
            #[cfg(feature = "_http1")]
            Kind::Zstd(4..=12) => 40 << 20,
            #[cfg(feature = "_http1")]
            Kind::Zstd(_) => 100 << 20,
        }
    }
}

/// Describes the compressed blob, before its upload begins; `path` is that of a file. The result of a file has about
/// the length of the file at most, and keeps its modification time.
pub(super) async fn describe(path: Option<PathBuf>, options: &mut UploadOptions) -> Result<()> {
    let Some(coding) = options.coding else { return Ok(()) };
    let write = &mut options.write;
    if let Some(other) = &write.content_encoding {
        let message = format!("it is compressed on the way, and described as {other}");
        let name = "the content encoding";
        return Err(Error::new(ErrorKind::Invalid, Operation::Locate, name, message));
    }
    write.content_encoding = Some(coding.name().to_owned());
    if let Some(path) = path {
        let found = offload(Operation::Upload, "the source", move || Ok(std::fs::metadata(path)));
        if let Ok(metadata) = found.await?
            && metadata.is_file()
        {
            write.modified = write.modified.or_else(|| metadata.modified().ok());
            options.expected_bytes = options.expected_bytes.or(Some(metadata.len()));
        }
    }
    Ok(())
}

/// Refuses a remote that does not keep the coding, because its readers would take the compressed
/// bytes for the content. Keeps a remote from decompressing on the way, as gsutil does.
pub(super) fn adapt(transfer: &mut Transfer) -> Result<()> {
    let Some(coding) = transfer.options.coding else { return Ok(()) };
    let profile = transfer.write()?.write_profile(&transfer.options.write.precondition);
    if profile.metadata == MetadataNames::None {
        let message = format!(
            "the remote keeps no Content-Encoding, so a blob in {} has none",
            coding.name()
        );
        let target = transfer.target.display();
        return Err(Error::new(ErrorKind::Unsupported, Operation::Locate, target, message));
    }
    if profile.decompresses {
        let control = &mut transfer.options.write.cache_control;
        match control {
            None => *control = Some("no-transform".to_owned()),
            Some(text) if !text.to_ascii_lowercase().contains("no-transform") => {
                text.push_str(", no-transform");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The opened source, compressed. `taken` counts the bytes before compression.
pub(super) fn encoded(
    opened: OpenedSource,
    coding: Option<ContentCoding>,
    taken: &Arc<AtomicU64>,
) -> Result<OpenedSource> {
    let Some(coding) = coding else { return Ok(opened) };
    let inner = match opened {
        OpenedSource::Stream(stream) => stream,
        OpenedSource::PositionalSource(at) => in_order(&at),
    };
    let encoder = Encoder::new(coding)?;
    let taken = Arc::clone(taken);
    let inner = Some(Box::new(inner));
    let stream = EncodedStream { coding, inner, encoder: Some(encoder), taken };
    Ok(OpenedSource::Stream(SourceStream::of_encoded(stream)))
}

/// A source that is read by position, from its beginning to its end.
fn in_order(source: &PositionalSource) -> SourceStream {
    let file = match source {
        PositionalSource::Bytes(bytes) => {
            return SourceStream::of_body(Box::pin(stream::iter([Ok(bytes.clone())])));
        }
        PositionalSource::File(file) | PositionalSource::Spooled(file) => Arc::clone(file),
    };
    let body = stream::try_unfold((file, 0), |(file, at)| async move {
        let len = (file.len() - at).min(PIECE_BYTES);
        if len == 0 {
            file.check_unchanged().await?;
            return Ok(None);
        }
        Ok(Some((read(&file, at, len).await?, (file, at + len))))
    });
    SourceStream::of_body(Box::pin(body))
}

async fn read(file: &Arc<UploadFile>, at: u64, len: u64) -> Result<Bytes> {
    let (name, file) = (Arc::clone(file.name()), Arc::clone(file));
    offload(Operation::Upload, &name, move || {
        let mut piece = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read_exact(&mut piece, at)?;
        Ok(Bytes::from(piece))
    })
    .await
}

/// A stream that is compressed while it is read.
pub(super) struct EncodedStream {
    coding: ContentCoding,
    /// None while it is read, and at its end.
    inner: Option<Box<SourceStream>>,
    /// None while it works, and at its end.
    encoder: Option<Encoder>,
    taken: Arc<AtomicU64>,
}

impl EncodedStream {
    /// Bytes that the encoder holds. They are taken from the budget with each part that is read, and given back with
    /// it: uploads that kept them while they wait for a part could wait for each other.
    pub(super) fn held_bytes(&self) -> u64 {
        self.coding.held_bytes()
    }

    /// The next compressed bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        while let (Some(inner), Some(mut encoder)) = (self.inner.take(), self.encoder.take()) {
            let (part, inner) = Box::pin(inner.part(PIECE_BYTES, None)).await?;
            self.taken.fetch_add(part.len(), Ordering::Relaxed);
            let is_last = part.is_last;
            let work = move || {
                let failed = |error: std::io::Error| {
                    let message = "it cannot be compressed";
                    Error::new(ErrorKind::Storage, Operation::Upload, "the source", message)
                        .caused_by(error)
                };
                for frame in part.frames.iter() {
                    encoder.write(frame).map_err(failed)?;
                }
                if is_last {
                    return Ok((encoder.finish().map_err(failed)?, None));
                }
                Ok((encoder.take(), Some(encoder)))
            };
            let (bytes, encoder) = offload(Operation::Upload, "the source", work).await?;
            self.inner = (!is_last).then(|| Box::new(inner));
            self.encoder = encoder;
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for EncodedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedStream").field("coding", &self.coding).finish_non_exhaustive()
    }
}

/// The state of a compression; its result collects in memory until it is taken.
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    #[cfg(feature = "_http1")]
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    #[cfg_attr(
        not(feature = "_http1"),
        expect(clippy::unnecessary_wraps, reason = "the encoder of zstd can fail")
    )]
    fn new(coding: ContentCoding) -> Result<Self> {
        Ok(match coding.0 {
            Kind::Gzip(level) => {
                Self::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::new(level)))
            }
            #[cfg(feature = "_http1")]
            Kind::Zstd(level) => {
                let encoder = zstd::stream::write::Encoder::new(Vec::new(), level);
                Self::Zstd(encoder.map_err(|error| {
                    let message = "zstd cannot begin";
                    Error::new(ErrorKind::Storage, Operation::Upload, "the source", message)
                        .caused_by(error)
                })?)
            }
        })
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            #[cfg(feature = "_http1")]
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// What was compressed so far, in memory of exactly its length.
    fn take(&mut self) -> Bytes {
        let made = match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            #[cfg(feature = "_http1")]
            Self::Zstd(encoder) => encoder.get_mut(),
        };
        let bytes = Bytes::copy_from_slice(made);
        made.clear();
        bytes
    }

    fn finish(self) -> std::io::Result<Bytes> {
        Ok(match self {
            Self::Gzip(encoder) => encoder.finish()?,
            #[cfg(feature = "_http1")]
            Self::Zstd(encoder) => encoder.finish()?,
        }
        .into())
    }
}
