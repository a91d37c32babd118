//! Seeds: local files that may share chunks with a blob. Such chunks are copied, not fetched.
//!
//! A seed is cut with the chunking of the blob, and its chunks are hashed on all cores. The result
//! is kept in an index next to the seed, so the next download only reads the index. Only chunks of
//! the blob are kept in memory.
//!
//! Neither a seed nor its index is trusted. A chunk is verified when it is read. A chunk that does
//! not match its digest is fetched.
//!
//! | file | idea |
//! |---|---|
//! | `index` | the index next to a seed: its format, and reading it |
//! | `index_writer` | writes an index |
//! | `part` | finds the verified chunks in the part file of an earlier attempt |
//! | `place` | the place of a chunk in a local file or buffer, and reading it |

mod index;
mod index_writer;
pub(crate) mod part;
mod place;

pub(crate) use place::SeedPlace;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;
use tokio_util::sync::CancellationToken;

use super::cut::{CutOptions, cut_file};
use super::{CutChunk, Manifest};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transfer::blocking::blocking;
use index::Stamp;
use index_writer::IndexWriter;

/// The number of chunks in one write to an index.
const PENDING_MAX: usize = 4096;

/// The chunks of a blob that exist locally.
#[derive(Debug, Default)]
pub(crate) struct Seeds {
    places: HashMap<Digest, SeedPlace>,
}

/// A file to search for chunks.
#[derive(Clone, Debug)]
pub(crate) struct SeedFile {
    pub(crate) path: PathBuf,
    /// Keep an index next to it.
    pub(crate) keeps_index: bool,
}

/// How seeds are searched.
#[derive(Clone, Debug)]
pub(crate) struct SeedOptions {
    /// The chunking of the blob; seeds are cut the same way.
    pub(crate) chunking: Chunking,
    /// Use an existing index.
    pub(crate) indexed: bool,
    pub(crate) budget: Budget,
    pub(crate) cancel: CancellationToken,
}

impl Seeds {
    /// The local place of a chunk, if there is one.
    pub(crate) fn find(&self, digest: &Digest) -> Option<SeedPlace> {
        self.places.get(digest).cloned()
    }

    /// Adds the chunk at `offset` of `file`. If the chunk already has a place, that place is kept.
    pub(crate) fn add(&mut self, digest: Digest, file: &Arc<File>, offset: u64) {
        self.places.entry(digest).or_insert_with(|| SeedPlace::in_file(file, offset));
    }

    /// Searches `files` in order for chunks of `manifest`, until all chunks are found. Returns a
    /// note for each file that cannot be used. Fails only if it is cancelled.
    pub(crate) async fn gather(
        &mut self,
        files: &[SeedFile],
        manifest: &Manifest,
        options: &SeedOptions,
    ) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let wanted: Arc<HashSet<Digest>> = Arc::new(manifest.chunks().iter().copied().collect());
        for file in files {
            if wanted.iter().all(|digest| self.places.contains_key(digest)) {
                break;
            }
            match self.look_at(file, manifest, &wanted, options).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                Err(error) => notes.push(format!("a seed was not used: {}", error.chain())),
            }
        }
        Ok(notes)
    }

    async fn look_at(
        &mut self,
        SeedFile { path, keeps_index }: &SeedFile,
        manifest: &Manifest,
        wanted: &Arc<HashSet<Digest>>,
        options: &SeedOptions,
    ) -> Result<()> {
        let opened = {
            let path = path.clone();
            blocking(move || open(&path)).await?
        };
        let (file, before) = (Arc::new(opened.0), opened.1);
        let function = manifest.blob().function;
        let header = index::header(&before, &options.chunking, function);
        if options.indexed {
            let (path, header, wanted) = (path.clone(), header.clone(), Arc::clone(wanted));
            let len = before.len_bytes;
            let found = blocking(move || Ok(index::load(&path, &header, function, len, &wanted)));
            if let Some(found) = found.await? {
                for (digest, offset) in found {
                    self.add(digest, &file, offset);
                }
                return Ok(());
            }
        }
        let mut keeping = Keeping::begin(keeps_index.then_some((path, header))).await?;
        let mut stream = cut_file(
            Arc::clone(&file),
            CutOptions {
                chunking: options.chunking,
                digest_function: function,
                whole: false,
                len: before.len_bytes,
                name: path.display().to_string(),
                budget: options.budget.clone(),
                cancel: options.cancel.clone(),
            },
        );
        while let Some(chunk) = stream.next().await {
            let CutChunk { offset, digest } = chunk?;
            if wanted.contains(&digest) {
                self.add(digest, &file, offset);
            }
            keeping.push(digest).await?;
        }
        keeping.finish(file, before).await
    }
}

/// Keeps an index of `file` next to `path`. The chunks of `file` are those of `manifest`, cut with
/// `chunking`. Blocks.
pub(crate) fn keep_index(
    path: &Path,
    file: &File,
    chunking: &Chunking,
    manifest: &Manifest,
) -> io::Result<()> {
    let header = index::header(&Stamp::of(file)?, chunking, manifest.blob().function);
    index_writer::save(path, file, &header, manifest.chunks())
}

/// The index of a seed that is being cut, if one is kept. Errors are logged and ignored, because an
/// index only saves time.
struct Keeping {
    writer: Option<IndexWriter>,
    pending: Vec<Digest>,
}

impl Keeping {
    async fn begin(of: Option<(&PathBuf, Vec<u8>)>) -> Result<Self> {
        let Some((path, header)) = of else {
            return Ok(Self { writer: None, pending: Vec::new() });
        };
        let path = path.clone();
        let begun = blocking(move || Ok(kept(&path, IndexWriter::begin(&path, &header))));
        Ok(Self { writer: begun.await?, pending: Vec::new() })
    }

    async fn push(&mut self, digest: Digest) -> Result<()> {
        if self.writer.is_none() {
            return Ok(());
        }
        self.pending.push(digest);
        if self.pending.len() < PENDING_MAX { Ok(()) } else { self.append().await }
    }

    async fn append(&mut self) -> Result<()> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        let pending = std::mem::take(&mut self.pending);
        let appended = blocking(move || {
            let appended = writer.append(&pending);
            Ok(kept(writer.path(), appended).map(|()| writer))
        });
        self.writer = appended.await?;
        Ok(())
    }

    /// The seed is cut to its end. Keeps the index if the file's stamp is still `before`.
    async fn finish(mut self, file: Arc<File>, before: Stamp) -> Result<()> {
        self.append().await?;
        let Some(writer) = self.writer else { return Ok(()) };
        blocking(move || {
            if Stamp::of(&file).is_ok_and(|after| after == before) {
                let path = writer.path().to_owned();
                kept(&path, writer.finish(&file));
            }
            Ok(())
        })
        .await
    }
}

fn kept<T>(path: &Path, outcome: io::Result<T>) -> Option<T> {
    outcome
        .inspect_err(
            |error| tracing::debug!(%error, path = %path.display(), "no index can be kept"),
        )
        .ok()
}

fn open(path: &Path) -> Result<(File, Stamp)> {
    let failed = |message: &str| {
        Error::new(ErrorKind::Storage, Operation::Read, path.display().to_string(), message)
    };
    let unreadable = |error: io::Error| failed("it cannot be read").caused_by(error);
    // Without this flag, opening a pipe would wait for its other end.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(failed("it is not a regular file"));
    }
    let stamp = Stamp::of(&file).map_err(unreadable)?;
    Ok((file, stamp))
}
