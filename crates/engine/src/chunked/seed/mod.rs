//! Seeds: files at hand that may share chunks with a blob, so that these are copied, not fetched.
//!
//! A seed is cut as the blob was, and digested, at the speed of all cores; what was found is kept
//! in an index beside it, so that the next time costs a read of that. Only what the blob needs is
//! remembered.
//!
//! Nothing that a seed, or its index, says is believed: a chunk is verified when it is read, and
//! one that is not what it was costs a fetch.
//!
//! | file | idea |
//! |---|---|
//! | `index` | the chunks of a file, kept beside it |
//! | `part` | what of an earlier attempt's part file is right |
//! | `place` | where a chunk is at hand, and reading it |

mod index;
pub(crate) mod part;
mod place;

pub(crate) use place::SeedPlace;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_core::chunking::Chunking;
use tidegate_core::digest::Digest;
use tokio_util::sync::CancellationToken;

use super::cut::{CutOptions, cut_file};
use super::{CutChunk, Manifest};
use crate::budget::Budget;
use crate::download::blocking;
use crate::error::{Error, ErrorKind, Operation, Result};
use index::Stamp;

/// What of a blob is at hand.
#[derive(Debug, Default)]
pub(crate) struct Seeds {
    places: HashMap<Digest, SeedPlace>,
}

/// How seeds are looked at.
#[derive(Clone, Debug)]
pub(crate) struct SeedOptions {
    /// How they are cut: as the blob was.
    pub(crate) chunking: Chunking,
    /// Keep an index beside each, and use the one that is there.
    pub(crate) indexed: bool,
    pub(crate) budget: Budget,
    pub(crate) cancel: CancellationToken,
}

impl Seeds {
    /// Where a chunk is at hand.
    pub(crate) fn find(&self, digest: &Digest) -> Option<SeedPlace> {
        self.places.get(digest).cloned()
    }

    /// A chunk is at hand at `offset` of `file`; the first place that is told stays.
    pub(crate) fn add(&mut self, digest: Digest, file: &Arc<File>, offset: u64) {
        self.places.entry(digest).or_insert_with(|| SeedPlace::in_file(file, offset));
    }

    /// Looks at each of `paths` for chunks of `manifest`. Gives notes on those that are of no use;
    /// fails only where it is cancelled.
    pub(crate) async fn gather(
        &mut self,
        paths: &[PathBuf],
        manifest: &Manifest,
        options: &SeedOptions,
    ) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let wanted: Arc<HashSet<Digest>> = Arc::new(manifest.chunks().iter().copied().collect());
        for path in paths {
            if wanted.iter().all(|digest| self.places.contains_key(digest)) {
                break;
            }
            match self.look_at(path, manifest, &wanted, options).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                Err(error) => notes.push(format!("a seed was not used: {}", error.chain())),
            }
        }
        Ok(notes)
    }

    async fn look_at(
        &mut self,
        path: &Path,
        manifest: &Manifest,
        wanted: &Arc<HashSet<Digest>>,
        options: &SeedOptions,
    ) -> Result<()> {
        let opened = {
            let path = path.to_owned();
            blocking(move || open(&path)).await?
        };
        let (file, before) = (Arc::new(opened.0), opened.1);
        let function = manifest.blob().function;
        let header = index::header(&before, &options.chunking, function);
        if options.indexed {
            let (path, header, wanted) = (path.to_owned(), header.clone(), Arc::clone(wanted));
            let len = before.len_bytes;
            let found = blocking(move || Ok(index::load(&path, &header, function, len, &wanted)));
            if let Some(found) = found.await? {
                for (offset, digest) in found {
                    self.add(digest, &file, offset);
                }
                return Ok(());
            }
        }
        let mut chunks = Vec::new();
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
            if options.indexed {
                chunks.push(digest);
            }
        }
        if options.indexed {
            let path = path.to_owned();
            // Best effort: the index only saves time.
            let kept = blocking(move || {
                if Stamp::of(&file).is_ok_and(|after| after == before) {
                    index::save(&path, &header, &chunks);
                }
                Ok(())
            });
            kept.await?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<(File, Stamp)> {
    let failed = |message: &str| {
        Error::new(ErrorKind::Storage, Operation::Read, path.display().to_string(), message)
    };
    // Before it is opened: opening a pipe would wait for its other end.
    let metadata =
        std::fs::metadata(path).map_err(|error| failed("no such seed").caused_by(error))?;
    if !metadata.is_file() {
        return Err(failed("it is not a regular file"));
    }
    let unreadable = |error| failed("it cannot be read").caused_by(error);
    let file = File::open(path).map_err(unreadable)?;
    let stamp = Stamp::of(&file).map_err(unreadable)?;
    Ok((file, stamp))
}
